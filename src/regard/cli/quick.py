"""A run from a few options, for whoever has a table and no TOML yet: `regard train --task classify --data a.csv`."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.records import USUAL_PAIRS, USUAL_TEXTS, usual_among
from regard.errors import USAGE, UserError
from regard.files import expanded

if TYPE_CHECKING:
    from regard.training.config import RunConfig

USUAL_NAMES: dict[str, list[tuple[str, ...]]] = {
    "translate": [("source", "target"), ("src", "tgt")],
    "classify": [
        (*texts, label)
        for texts in (*USUAL_TEXTS, *USUAL_PAIRS)
        for label in ("label", "class", "category", "sentiment", "score", "target")
    ],
    "tag": [("words", "tags"), ("text", "tags")],
    "answer": [("question", "context", "answer", "start"), ("question", "context", "answer")],
    "fill": [("text",), ("sentence",), ("content",)],
    "generate": [("prompt", "response"), ("instruction", "response"), ("question", "answer"), ("prompt", "completion"),
                 ("text",), ("content",)],
    "embed": [("text",), ("sentence",), ("content",)],
    "embed-in-context": [("text",), ("sentence",), ("content",)],
}  # fmt: skip
"Task -> names that columns often have, looked for in this order."
FINE_TUNED = ("classify", "tag")
FEW_ROWS, ROWS_LEARNT, MOST_ROUNDS, SMALL_STEP = 300, 1_000, 20, 200
"Of fewer rows so many are learnt from in all, in at most so many rounds, and so many tokens a step."
FEW_TO_HOLD, LEAST_HELD = 5_000, 100
"Of fewer rows a tenth is held out, or so many where that is less; or more where that is usual."
PRESETS = {"embed": "word2vec", "embed-in-context": "elmo-small"}
"Of tasks that the usual preset is not made for."


def quick_run(
    task: str, data: Sequence[Path], init: str | None, columns: Sequence[str], **more: Sequence[Path]
) -> dict[str, Any]:
    """What a TOML file would say; `more` are the files of the other sets."""
    files = {name: [str(path) for path in paths] for name, paths in {"train": data, **more}.items() if paths}
    found = tuple(columns) or guessed(task, expanded(data[0]))
    settings: dict[str, Any] = {"task": task, "data": {**files, **({"columns": list(found)} if found else {})}}
    model = {"init": init} if init else {"preset": PRESETS[task]} if task in PRESETS else {}
    return settings | ({"model": model} if model else {})


def for_few_rows(config: "RunConfig", assignments: Sequence[str]) -> "RunConfig":
    """A small table is gone through more often and in smaller steps; else it is over before anything is learnt.

    And more of it is held out, where that is usually a small share: a row or two cannot tell which weights are best.
    """
    from regard.data.corpus import Part
    from regard.training.sources import HELD_BY, Sources

    if config.task not in USUAL_NAMES:  # pictures: to count them is to read them
        return config
    said = {each.partition("=")[0].strip() for each in assignments}
    part = Part((), 0.0, 1.0, HELD_BY.get(config.task, 0))
    places = [part.place_of(row) for row in islice(Sources(config).known(), FEW_TO_HOLD)]  # a row may be a whole book
    n_rows, data = len(places), config.data
    if data.hold_out and not data.valid and "data.hold_out" not in said and data.pack != "files":
        config = replace(config, data=replace(data, hold_out=share_of(data.hold_out, places)))
    if config.task not in FINE_TUNED or "init" not in config.model or said & {"train.epochs", "train.steps"}:
        return config
    if n_rows >= FEW_ROWS:
        return config
    epochs = min(MOST_ROUNDS, -(-ROWS_LEARNT // max(n_rows, 1)))
    tokens = config.train.batch_tokens if "train.batch_tokens" in said else SMALL_STEP
    return replace(config, train=replace(config.train, epochs=epochs, batch_tokens=tokens))


def share_of(usual: float, places: Iterable[float]) -> float:
    """What to hold out of few rows, by count: a hash that is fair to thousands may give a dozen none, or half of them.

    `places` are theirs between 0 and 1; those below the share are held.
    """
    found = sorted(set(places))
    n_rows = len(found)
    if n_rows >= FEW_TO_HOLD or n_rows < 4:
        return usual
    count = max(round(usual * n_rows), min(n_rows // 10, LEAST_HELD), min(n_rows // 4, 8))
    low, high = found[count - 1], found[count]
    return next(share for digits in range(2, 18) if low < (share := round((low + high) / 2, digits)) <= high)


def guessed(task: str, path: Path) -> tuple[str, ...]:
    """The columns by their usual names; none for files of plain text and for formats that name their own."""
    from regard.data.corpus import names_of

    names = names_of(path) if task in USUAL_NAMES else []  # else it is about pictures
    if not names:
        return ()
    if not any(map(str.strip, names)):
        raise UserError(f"{path}: its first line, which should name the columns, is blank", "write text,label, or so")
    if found := usual_among(names, USUAL_NAMES[task]):
        return found
    wanted = " ".join(f"--column {name.upper()}" for name in USUAL_NAMES[task][0])
    shown = ", ".join(names[:20])
    known = "; ".join(" ".join(names) for names in USUAL_NAMES[task][:2])
    hint = f"say which to use: {wanted} (without a header, by number: --column '#1'); usual are for example {known}"
    raise UserError(f"{path} has the columns {shown}, and none of the usual names for {task}", hint, exit_code=USAGE)
