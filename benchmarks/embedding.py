"""How fast do sentences become vectors, beside sentence-transformers, CTranslate2 and onnxruntime? MiniLM itself.

    python benchmarks/embedding.py [--rounds 7] [--sentences 1000]

Text in, normalised vectors out: every contestant splits the same sentences, of which a quarter are long, and runs with
two threads. The two engines that have no task of their own get the least around them: `tokenizers`, batches of alike
length, the mean in torch. Before the turns each tries three batch sizes and keeps its best, ours excepted.

First all vectors are compared with sentence-transformers', in float32: ours in float32 must be equal, and what eight
bits cost is told for everyone. Ours may lose 0.002 of the mean cosine; if they lose more, the exit code is 1.

onnxruntime gets PyTorch's own export, its weights in eight bits a channel, seven of them used: without VNNI the eighth
overflows (`reduce_range`, as its manual advises), and with it that costs nothing.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import onnxruntime
import torch
import transformers
from harness import machine, report, shown, take_turns
from onnxruntime.quantization import QuantType, quantize_dynamic
from sentence_transformers import SentenceTransformer
from texts import english
from tokenizers import Tokenizer
from torch import Tensor

import regard
from regard.pretrained.installed import path_of
from regard.weights.precision import Precision

THREADS, MAX_LEN = 2, 256
BATCHES = (16, 32, 128)
EQUAL, ALIKE, LOSS = 1e-6, 0.05, 0.002
"How far a cosine may be from 1: the same numbers, the same work in eight bits, and what is promised of ours."
Embed = Callable[[], Any]
BARS = {"sentence-transformers": 4.0, "CTranslate2 int8": 1.5, "onnxruntime int8": 1.3}


def ours(texts: list[str], precision: Precision) -> Embed:
    task = regard.load("minilm", precision=precision)
    return lambda: task(texts)


def through_sentence_transformers(folder: Path, texts: list[str]) -> Embed:
    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    return best(lambda size: lambda: model.encode(texts, batch_size=size, normalize_embeddings=True))


def through_ctranslate2(folder: Path, texts: list[str], place: Path) -> Embed:
    ctranslate2.converters.TransformersConverter(str(folder)).convert(str(place), quantization="int8")
    encoder = ctranslate2.Encoder(str(place), compute_type="int8", inter_threads=1, intra_threads=THREADS)

    def hidden(rows: list[list[int]]) -> Tensor:
        return torch.from_numpy(np.asarray(encoder.forward_batch(rows).last_hidden_state))

    return best(lambda size: lambda: pooled(folder, texts, size, hidden))


def through_onnxruntime(folder: Path, texts: list[str], place: Path) -> Embed:
    export(folder, place / "float.onnx")
    quantize_dynamic(
        place / "float.onnx", place / "int8.onnx", weight_type=QuantType.QInt8, per_channel=True, reduce_range=True
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = THREADS, 1
    session = onnxruntime.InferenceSession(place / "int8.onnx", options, providers=["CPUExecutionProvider"])

    def hidden(rows: list[list[int]]) -> Tensor:
        longest = max(map(len, rows))
        ids = np.array([[*row, *[0] * (longest - len(row))] for row in rows])
        mask = np.array([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
        return torch.from_numpy(session.run(None, {"input_ids": ids, "attention_mask": mask})[0])

    return best(lambda size: lambda: pooled(folder, texts, size, hidden))


def export(folder: Path, file: Path) -> None:
    bert = transformers.BertModel.from_pretrained(folder, add_pooling_layer=False).eval()
    free = dict.fromkeys((0, 1), torch.export.Dim.DYNAMIC)
    shapes = {"input_ids": free, "attention_mask": free}
    given = {name: torch.ones(2, 9, dtype=torch.long) for name in shapes}  # not one tensor: it would become one input
    torch.onnx.export(bert, kwargs=given, f=file, dynamic_shapes=shapes, verbose=False)


def pooled(folder: Path, texts: list[str], size: int, hidden: Callable[[list[list[int]]], Tensor]) -> Tensor:
    """What an engine without a task needs around it: ids, batches of alike length, the mean of the real tokens."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_LEN)
    rows = [each.ids for each in tokenizer.encode_batch(texts)]
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    vectors = torch.empty(len(rows), 384)
    for start in range(0, len(rows), size):
        places = order[start : start + size]
        out = hidden([rows[i] for i in places])  # (B, T, D)
        lengths = torch.tensor([len(rows[i]) for i in places])
        valid = torch.arange(out.size(1)) < lengths[:, None]
        vectors[places] = (out * valid[..., None]).sum(1) / lengths[:, None]
    return torch.nn.functional.normalize(vectors, dim=-1)


def best(with_size: Callable[[int], Embed]) -> Embed:
    """The batch size that is fastest here; each is tried twice, and the second counts."""
    seconds = {}
    for size in BATCHES:
        with_size(size)()
        start = time.perf_counter()
        with_size(size)()
        seconds[size] = time.perf_counter() - start
    return with_size(min(seconds, key=seconds.__getitem__))


def cosine(one: Any, other: Any) -> Tensor:
    return torch.nn.functional.cosine_similarity(*(torch.as_tensor(each).double() for each in (one, other)))


def check(runs: dict[str, Embed]) -> dict[str, float]:
    """What is missing to a mean cosine of 1 with sentence-transformers."""
    reference = runs["sentence-transformers"]()
    cosines = {name: cosine(run(), reference) for name, run in runs.items()}
    lost = {name: 1 - float(each.mean()) for name, each in cosines.items()}
    wrong = [name for name, loss in lost.items() if loss > (EQUAL if name == "fp32" else ALIKE)]
    if wrong or 1 - float(cosines["fp32"].min()) > EQUAL:
        sys.exit(f"error: not the same work: {lost}")
    return lost


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sentences", type=int, default=1000)
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    folder, texts = path_of("minilm"), english(options.sentences)
    with tempfile.TemporaryDirectory() as place:
        runs = contestants(folder, texts, Path(place))
        lost = check(runs)
        seconds = take_turns(runs, rounds=options.rounds, warm_up=1)
    rows = [row(name, seconds, lost[name], len(texts)) for name in runs]
    packages = ("sentence-transformers", "transformers", "ctranslate2", "onnxruntime", "tokenizers")
    data = {"machine": machine(packages), "rounds": options.rounds, "sentences": len(texts), "lost": lost}
    header = ["contestant", "sentences/s", "our int8 against it", "our fp32 against it", "bar", "mean cosine lost"]
    note = "Above 1 ours is faster: median, and the middle half of the rounds."
    report("embedding", header, rows, data | {"seconds": seconds}, note)
    if lost["int8"] > LOSS:
        sys.exit(f"error: eight bits lose {lost['int8']:.4f} of the mean cosine, promised is at most {LOSS}")


def contestants(folder: Path, texts: list[str], place: Path) -> dict[str, Embed]:
    return {
        "int8": ours(texts, "int8"),
        "fp32": ours(texts, "fp32"),
        "sentence-transformers": through_sentence_transformers(folder, texts),
        "CTranslate2 int8": through_ctranslate2(folder, texts, place / "ctranslate2"),
        "onnxruntime int8": through_onnxruntime(folder, texts, place),
    }


def row(name: str, seconds: dict[str, Sequence[float]], lost: float, count: int) -> list[str]:
    speed = f"{count / statistics.median(seconds[name]):.0f}"
    told = [shown(list(seconds[name]), list(seconds[own])) for own in ("int8", "fp32")]
    return [
        f"regard {name}" if name in ("int8", "fp32") else name,
        speed,
        *told,
        f"{BARS.get(name, '')}",
        f"{lost:.1e}",
    ]


if __name__ == "__main__":
    main()
