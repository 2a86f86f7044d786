"""Are the word vectors as good as gensim's, and ELMo's better features than word2vec's?

python benchmarks/word_vectors.py similarity [--kind skip_gram] [--seeds 3]
    from a folder that holds data/words/train.txt: the same words, sizes and passes for both, one after the other;
    WordSim-353, rank correlation (Spearman) over the pairs whose words are known, which are the same for both
python benchmarks/word_vectors.py tagging --elmo RUNS/elmo/model --word2vec RUNS/word2vec-cased/model
    the same small tagger on both, the vectors frozen: F1 on WNUT17's development set
"""

import argparse
import gzip
import os
import statistics
import tempfile
import time
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
from harness import machine, report

import regard
from regard.data.corpus import read_rows
from regard.data.nearest import unit
from regard.evaluation.classification import spearman
from regard.evaluation.tagging import span_report
from regard.text.load import load as load_tokenizer
from regard.training.folder import read_run, run_of
from regard.training.run import assemble, finish

DATA = Path(os.environ.get("REGARD_DATA", "data"))
RECIPES = Path(regard.__file__).parent / "recipes"
NAMES = {"skip_gram": "word2vec", "cbow": "word2vec-cbow"}


def word_pairs() -> list[tuple[str, str, float]]:
    with gzip.open(DATA / "word_probes" / "wordsim353.tsv.gz", "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file if not line.startswith("#")]
    return [(first.lower(), second.lower(), float(score)) for first, second, score in rows]


def similarity_of(words: list[str], vectors: np.ndarray) -> tuple[float, int]:
    places, rows = {word: place for place, word in enumerate(words)}, unit(vectors)
    known = [(places[a], places[b], score) for a, b, score in word_pairs() if a in places and b in places]
    cosines = [float(rows[a] @ rows[b]) for a, b, _ in known]
    return spearman(cosines, [score for *_, score in known]).value / 100, len(known)


def train(config: Any, folder: Path) -> float:
    """The seconds of its steps."""
    trainer = assemble(config, folder, [])
    trainer.fit(Event())
    finish(trainer)
    return trainer.progress.seconds


def similarity(kind: str, seeds: int, epochs: int, runs: Path) -> dict[str, Any]:
    from gensim.models import Word2Vec

    scores: dict[str, list[float]] = {"regard": [], "gensim": []}
    seconds: dict[str, list[float]] = {"regard": [], "gensim": []}
    n_pairs = n_words = 0
    for seed in range(1, seeds + 1):
        folder = runs / f"{NAMES[kind]}-{seed}"
        config = read_run(RECIPES / f"{NAMES[kind]}.toml", [f"seed={seed}", f"train.epochs={epochs}"])
        seconds["regard"].append(train(config, folder))
        ours, tokenizer = regard.load(folder / "model"), load_tokenizer(folder / "model")
        score, n_pairs = similarity_of(ours.words, ours.table)
        scores["regard"].append(score)
        texts = Path(config.data.train[0]).read_text(encoding="utf-8").splitlines()
        known = {tokenizer.id_of(word): word for word in ours.words}
        rows = [[known[id] for id in ids if id in known] for ids in tokenizer.encode_ids(texts, special=False)]
        start, sizes = time.perf_counter(), ours.model.config
        theirs = Word2Vec(
            rows, vector_size=sizes.d_model, window=sizes.window, negative=sizes.negatives, sample=sizes.subsample,
            min_count=1, sg=int(kind == "skip_gram"), epochs=epochs, seed=seed, workers=1,
        )  # fmt: skip
        seconds["gensim"].append(time.perf_counter() - start)
        scores["gensim"].append(similarity_of(theirs.wv.index_to_key, theirs.wv.vectors)[0])
        n_words = len(ours.words)
        print(kind, seed, {name: round(values[-1], 4) for name, values in scores.items()}, flush=True)
    return {"kind": kind, "words": n_words, "pairs": n_pairs, "scores": scores, "seconds": seconds}


def tagging(inits: dict[str, Path], seeds: int, epochs: int) -> dict[str, Any]:
    frozen, dropout = {"elmo": "reader", "word2vec": "vectors"}, {"elmo": "tag_dropout", "word2vec": "dropout"}
    data = {"train": [str(DATA / "wnut17" / "wnut17train.conll.gz")], "hold_out": 0.1, "max_len": 64}
    settings = {"epochs": epochs, "lr": 2e-3, "batch_tokens": 200, "warmup": 100, "init": "xavier"}
    rows = list(read_rows(DATA / "wnut17" / "emerging.dev.conll.gz"))
    words, golds = ([row[side].split() for row in rows] for side in (0, 1))
    scores: dict[str, list[float]] = {name: [] for name in inits}
    for seed in range(1, seeds + 1):
        for name, init in inits.items():
            train_settings = settings | {"freeze": [frozen[name]]}
            model = {"init": str(init), dropout[name]: 0.2}
            run = {"task": "tag", "seed": seed, "data": data, "train": train_settings, "model": model}
            with tempfile.TemporaryDirectory() as folder:
                train(run_of(run, ()), Path(folder) / "run")
                tag = regard.load(Path(folder) / "run" / "model")
            found = [[word.tag for word in each.words] for each in tag.tag_words(words)]
            scores[name].append(span_report(found, golds).all.f1.value)
            print(name, seed, round(scores[name][-1], 2), flush=True)
    return {"kind": "tagging", "sentences": len(rows), "scores": scores}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["similarity", "tagging"])
    parser.add_argument("--kind", choices=NAMES, action="append")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--runs", type=Path, help="keep the runs here")
    parser.add_argument("--elmo", type=Path)
    parser.add_argument("--word2vec", type=Path)
    options = parser.parse_args()
    if options.what == "similarity":
        with tempfile.TemporaryDirectory() as name:
            runs = options.runs or Path(name)
            results = [similarity(kind, options.seeds, options.epochs or 5, runs) for kind in options.kind or NAMES]
    else:
        inits = {"elmo": options.elmo.absolute(), "word2vec": options.word2vec.absolute()}
        results = [tagging(inits, options.seeds, options.epochs or 20)]
    rows = []
    for found in results:
        for name, values in found["scores"].items():
            spent = f"{statistics.median(found['seconds'][name]):.0f}" if "seconds" in found else ""
            shown = ", ".join(f"{value:.3f}" if value < 1 else f"{value:.1f}" for value in values)
            rows.append([found["kind"], name, f"{statistics.mean(values):.3f}", shown, spent])
    header = ["what", "whose", "mean", "by seed", "seconds (median)"]
    note = "Spearman on WordSim-353 where both words are known; or F1 on WNUT17's development set."
    data = {"machine": machine(("gensim",)), "results": results}
    report(f"word_vectors_{options.what}", header, rows, data, note)


if __name__ == "__main__":
    main()
