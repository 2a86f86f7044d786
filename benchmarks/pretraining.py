"""What is learnt without labels? Probes of encoders that were trained from nothing, over the same networks untrained.

    regard train bert-tiny --out RUNS/bert-tiny-1         (and electra-tiny, gpt-tiny, t5-tiny; --set seed=2 for -2)
    python benchmarks/pretraining.py RUNS/*-tiny-? --data DATA [--seeds 3] [--limit 500]
    python benchmarks/pretraining.py --compute            (how much each recipe computes; needs data/ as the recipes do)

A folder's name is the recipe's and the number of the seed. DATA holds sst2, subjectivity and polarity
(tools/task_data.py). Features are frozen: the mean over a text's tokens of what goes into the first block and of what
comes out of each; a logistic regression reads them all, whose weight decay a tenth of the training rows chooses. An
untrained network has the same sizes, vocabulary and features, and fresh weights for each seed. What the last block
alone gives stands beside: it is made for the task that was trained, and says little of others. The last line compares
ELECTRA with BERT, row by row of the test sets. What was found of a network is kept beside it (RUN/probes/*.npz), and
taken from there the next time.
"""

import argparse
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import machine, paired, report
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from regard.cli.train import find_recipe
from regard.data.batches import Position, Steps
from regard.data.corpus import read_rows
from regard.layers.head import pool
from regard.models.base import Model, initialise
from regard.text.load import load as load_tokenizer
from regard.text.tokenizer import Tokenizer
from regard.training.folder import read_run
from regard.training.run import assemble
from regard.weights.layout import LAYOUTS
from regard.weights.store import load_model

PROBES = {
    "SST-2": (("sst2/sentences_train.labelled.tsv.gz", ("#1", "#2")), ("sst2/glue_dev.tsv.gz", ("content", "label"))),
    "subjectivity": (("subjectivity/train.tsv", ("text", "label")), ("subjectivity/test.tsv", ("text", "label"))),
    "polarity": (("polarity/train.tsv", ("text", "label")), ("polarity/test.tsv", ("text", "label"))),
}
RECIPES = ("bert-tiny", "electra-tiny", "gpt-tiny", "t5-tiny")
DECAYS = (1e-4, 1e-3, 1e-2, 1e-1)


def rows_of(data: Path, file: str, columns: tuple[str, ...], limit: int | None) -> tuple[list[str], list[str]]:
    rows = list(read_rows(data / file, columns=list(columns)))
    order = np.random.default_rng(0).permutation(len(rows))[:limit]
    return [rows[i][0] for i in order], [rows[i][1] for i in order]


@torch.inference_mode()
def features(model: Any, tokenizer: Tokenizer, texts: list[str]) -> Tensor:
    """(n, layers + 1, D) the mean over the tokens of each text."""
    blocks = (model.encoder if hasattr(model, "encoder") else model.decoder).blocks
    found = torch.empty(len(texts), len(blocks) + 1, model.config.d_model)
    seen: list[Tensor] = []
    hooks = [blocks[0].register_forward_pre_hook(lambda block, given: seen.append(given[0]))]
    hooks += [each.register_forward_hook(lambda block, given, out: seen.append(first_of(out))) for each in blocks]
    ids = [row[: model.config.max_len] for row in tokenizer.encode_ids(texts)]
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    for at in range(0, len(order), 128):
        some = order[at : at + 128]
        width = max(len(ids[i]) for i in some)
        table = torch.tensor([ids[i] + [tokenizer.pad_id or 0] * (width - len(ids[i])) for i in some])
        valid = torch.arange(width) < torch.tensor([[len(ids[i])] for i in some])
        seen.clear()
        (model.encode if hasattr(model, "encode") else model)(table, valid)
        found[some] = torch.stack([pool(hidden, valid, "mean") for hidden in seen], dim=1)
    for hook in hooks:
        hook.remove()
    return found


def first_of(out: Any) -> Tensor:
    """Blocks give their output alone or with more."""
    return out if isinstance(out, Tensor) else out[0]


def fitted(x: Tensor, y: Tensor, decay: float) -> tuple[Tensor, Tensor]:
    """Logistic regression by L-BFGS: convex, so there is nothing to seed."""
    weight, bias = torch.zeros(x.size(1), requires_grad=True), torch.zeros((), requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(x @ weight + bias, y) + decay * weight.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)  # type: ignore[arg-type]
    return weight.detach(), bias.detach()


def right(x: Tensor, y: Tensor, x_test: Tensor, y_test: Tensor) -> np.ndarray:
    """For each test row, whether the probe is right."""
    mean, wide = x.mean(0), x.std(0).clamp(min=1e-6)
    x, x_test = (x - mean) / wide, (x_test - mean) / wide
    kept = torch.arange(len(x)) % 10 != 0

    def hits(decay: float) -> float:
        weight, bias = fitted(x[kept], y[kept], decay)
        return float((((x[~kept] @ weight + bias) > 0) == (y[~kept] > 0)).float().mean())

    weight, bias = fitted(x, y, max(DECAYS, key=hits))
    return (((x_test @ weight + bias) > 0) == (y_test > 0)).numpy()


Hits = dict[str, np.ndarray]
"Probe -> for each test row, whether it is right."
Both = tuple[Hits, Hits]


def kept(file: Path, model: Callable[[], Model], tokenizer: Tokenizer, data: Path, limit: int | None) -> Both:
    if not file.is_file():
        found = probed(model(), tokenizer, data, limit)
        file.parent.mkdir(exist_ok=True)
        np.savez(file, **{f"{way} {name}": hits for way, each in enumerate(found) for name, hits in each.items()})
    with np.load(file) as held:
        return {name: held[f"0 {name}"] for name in PROBES}, {name: held[f"1 {name}"] for name in PROBES}


def probed(model: Model, tokenizer: Tokenizer, data: Path, limit: int | None) -> Both:
    """By all layers, and by the last alone."""
    found: Both = {}, {}
    for name, (train, test) in PROBES.items():
        (texts, labels), (test_texts, test_labels) = (rows_of(data, *some, limit) for some in (train, test))
        positive = max(labels)
        y, y_test = (torch.tensor([float(label == positive) for label in some]) for some in (labels, test_labels))
        x, x_test = (features(model, tokenizer, some) for some in (texts, test_texts))
        found[0][name] = right(x.flatten(1), y, x_test.flatten(1), y_test)
        found[1][name] = right(x[:, -1], y, x_test[:, -1], y_test)
    return found


def untrained(folder: Path, seed: int, scheme: Any) -> Model:
    config = load_model(folder, device="meta").config
    torch.manual_seed(seed)
    model = LAYOUTS[config.layout].family.build(config)
    initialise(model, scheme)
    return model.eval()


def mean_of(found: Hits) -> float:
    return 100 * float(np.mean([hits.mean() for hits in found.values()]))


def compute() -> None:
    """Floating point operations of a whole run, by ten steps of it: they differ in padding."""
    for name in RECIPES:
        with tempfile.TemporaryDirectory() as folder:
            trainer = assemble(read_run(find_recipe(name)), Path(folder), [])
            train = trainer.config.train
            steps = Steps(trainer.lengths, budget=train.batch_tokens, seed=1).steps(Position())
            with FlopCounterMode(display=False) as counter:
                for rows, _ in islice(steps, 10):
                    trainer._step(rows)
            each = counter.get_total_flops() / 10
            print(f"{name}: {each / 1e9:.2f} GFLOP a step, {each * train.steps / 1e12:.1f} TFLOP in all", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", type=Path, nargs="*")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--compute", action="store_true")
    options = parser.parse_args()
    if options.compute:
        compute()
        return
    trained: dict[str, list[Both]] = defaultdict(list)
    fresh: dict[str, list[Both]] = {}
    for run in sorted(options.runs):
        recipe = re.sub(r"-\d+$", "", run.name)
        folder = run / "model" / "discriminator"
        folder = folder if folder.is_dir() else run / "model"
        tokenizer, scheme = load_tokenizer(folder), read_run(run / "run.toml").train.init
        asked, size = (tokenizer, options.data, options.limit), options.limit or "all"
        trained[recipe].append(kept(run / "probes" / f"trained-{size}.npz", partial(load_model, folder), *asked))
        if recipe not in fresh:
            fresh[recipe] = [
                kept(run / "probes" / f"fresh-{seed}-{size}.npz", partial(untrained, folder, seed, scheme), *asked)
                for seed in range(1, options.seeds + 1)
            ]
    rows, results = [], {}
    for recipe, found in trained.items():
        (after, last), (before, last_before) = map(means_of, (found, fresh[recipe]))
        single = [f"{100 * np.mean([each[name].mean() for each, _ in found]):.1f}" for name in PROBES]
        gains = [f"{after:.1f}", f"{before:.1f}", f"{after - before:+.1f}", f"{last - last_before:+.1f}"]
        rows.append([recipe, str(len(found)), *single, *gains])
        named = {"trained": found, "fresh": fresh[recipe]}
        results[recipe] = {name: [[mean_of(one) for one in both] for both in each] for name, each in named.items()}
        print(" | ".join(rows[-1]), flush=True)
    note = "Accuracy of logistic regressions over frozen features of all layers; means over seeds."
    if {"bert-tiny", "electra-tiny"} <= trained.keys():
        electra, bert = ([every for every, _ in trained[name]] for name in ("electra-tiny", "bert-tiny"))
        gap, low, high = paired(electra, bert)
        note += f" ELECTRA over BERT: {gap:+.2f} points (95 % of resamplings: {low:+.2f} to {high:+.2f})."
        results["electra over bert"] = {"points": gap, "low": low, "high": high}
    header = ["recipe", "seeds", *PROBES, "mean", "untrained", "gain", "gain, last layer"]
    report("pretraining", header, rows, {"machine": machine(()), "limit": options.limit, "results": results}, note)


def means_of(found: list[Both]) -> list[float]:
    return [float(np.mean([mean_of(each[way]) for each in found])) for way in (0, 1)]


if __name__ == "__main__":
    main()
