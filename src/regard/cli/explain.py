"""`regard explain`: every number from a token's query to the model's output."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from regard.cli.opening import check_name, find_model
from regard.cli.records import records
from regard.cli.terminal import columns, tell
from regard.cli.waiting import waiting
from regard.errors import USAGE, UserError

if TYPE_CHECKING:
    from regard.inspection.explanation import Explanation
    from regard.inspection.figures.shown import Shown
    from regard.inspection.heads import HeadScores
    from regard.inspection.reading import Kind, Reading

EXAMPLES = """\b
Examples:
  regard explain "The animal did not cross because it was tired" --token it
  regard explain "O livro está na mesa." --model pt-en --token table
  regard explain "Once upon a time" --model smollm2 --layer 3 --head 1 --json
  regard explain --positions --model minilm --html positions.html
  regard explain --solution --seed 7 > solution.md
"""
WRITTEN = click.Path(path_type=Path, dir_okay=False)
MINE = "minilm"


class Wanted(NamedTuple):
    """Where the result goes beside the terminal, by the kind of file."""

    files: dict[str, Path | None]
    as_json: bool


def written(function: Any) -> Any:
    """The options for files, which all results share."""
    options = {
        "csv": "Write all the numbers, one row a key.",
        "npy": "Write the numbers as an array of NumPy.",
        "png": "Draw the picture as PNG.",
        "svg": "Draw the picture as SVG.",
        "html": "Write one page with picture and numbers, which needs no network.",
    }
    for name, text in options.items():
        function = click.option(f"--{name}", metavar="FILE", type=WRITTEN, help=text)(function)
    return function


@click.command(epilog=EXAMPLES)
@click.argument("text", required=False)
@click.option("--model", help="A directory, a .gguf file, hf:owner/name, minilm, smollm2 or pt-en. [minilm]")
@click.option("--token", metavar="WORD", help="Who asks: a word, or #7 for the token of that number. [a pronoun]")
@click.option("--layer", type=click.IntRange(min=0), help="Counted from 0. [the best for the token]")
@click.option("--head", type=click.IntRange(min=0), help="Counted from 0. [the best for the token]")
@click.option(
    "--kind",
    type=click.Choice(["self", "cross", "encoder", "decoder"]),
    help="What attends to what; a translator's words look at the source (cross). [as the model]",
)
@written
@click.option("--json", "as_json", is_flag=True, help="Print a capture: one JSON object with every number.")
@click.option("--positions", is_flag=True, help="Show the model's positions, or without --model the paper's.")
@click.option("--exercise", is_flag=True, help="Print an exercise: attention by hand, three words and d = 3.")
@click.option("--solution", is_flag=True, help="Print that exercise with its solution.")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Another number, another exercise. [0]")
def command(
    text: str | None,
    model: str | None,
    token: str | None,
    layer: int | None,
    head: int | None,
    kind: str | None,
    as_json: bool,
    positions: bool,
    exercise: bool,
    solution: bool,
    seed: int,
    **files: Path | None,
) -> None:
    """Show every number from a token's query to the output: scores, softmax, values, sum.

    Without --layer and --head it is the head that answers the token best, and it says how sure that is. With no TEXT,
    or for `-`, reads stdin as one text. For a ViT the TEXT is a picture file; --token 3,4 is a patch by row and column.
    """
    wanted = Wanted(files, as_json)
    check(text, wanted, positions=positions, exercise=exercise or solution)
    if exercise or solution:
        show_exercise(seed, wanted, solved=solution)
    elif positions:
        show_positions(model, wanted)
    else:
        asked = {"text": text, "model": model, "token": token, "layer": layer, "head": head, "kind": kind}
        show_explanation(asked, wanted)


def check(text: str | None, wanted: Wanted, *, positions: bool, exercise: bool) -> None:
    """What can be told before torch is imported."""
    if positions and exercise:
        raise UserError("--positions and an exercise were both asked for", "leave out one of them", exit_code=USAGE)
    if text is not None and (positions or exercise):
        raise UserError("a text was given where none is read", "leave it out", exit_code=USAGE)
    for name, path in wanted.files.items():
        if path is not None and not path.absolute().parent.is_dir():
            raise UserError(f"--{name}: {path} cannot be written", "give a file name in a directory that exists")


def hand_over(found: "Shown", shown: str, capture: dict[str, Any], wanted: Wanted) -> None:
    """Print it, and write the files that were asked for."""
    from regard.files import write_bytes

    click.echo(json.dumps(capture, ensure_ascii=False) if wanted.as_json else shown)
    for name, path in wanted.files.items():
        if path is not None:
            data: str | bytes = getattr(found, name)()
            write_bytes(path, data if isinstance(data, bytes) else data.encode("utf-8", "backslashreplace"))
            tell(f"written: {path}")


def show_exercise(seed: int, wanted: Wanted, *, solved: bool) -> None:
    from regard.inspection.capture import capture
    from regard.inspection.exercise import exercise

    found = exercise(solved=solved, seed=seed)
    request = {"verb": "explain", "exercise": True, "solution": solved, "seed": seed}
    hand_over(found, found.markdown().rstrip("\n"), capture(None, request, [found.to_dict()]), wanted)


def show_positions(model: str | None, wanted: Wanted) -> None:
    if model is not None:
        check_name(model)
    with waiting(f"opening {model or 'the positions of 2017'}"):
        from regard.inspection.capture import capture
        from regard.inspection.figures.sheet import positions_text
        from regard.inspection.positions import positions_of_model, sinusoidal
        from regard.weights.store import load_model

        opened = None if model is None else load_model(find_model(model))
        found = sinusoidal(64, 64) if opened is None else positions_of_model(opened)
    request = {"verb": "explain", "positions": True, "model": model}
    hand_over(found, positions_text(found, columns()), capture(None, request, [found.to_dict()], model=opened), wanted)


def show_explanation(asked: dict[str, Any], wanted: Wanted) -> None:
    text = asked["text"] if asked["text"] not in (None, "-") else " ".join(records(["-"]))
    name = asked["model"] or ("pt-en" if asked["kind"] == "cross" else MINE)
    check_name(name)
    with waiting(f"opening {name}") as sign:
        from regard.inspection.capture import capture
        from regard.inspection.figures.sheet import explanation_text

        task, reading = read(name, text)
        sign.now("looking inside")
        kind = kind_of(reading, asked["kind"], asked["token"])
        found, why, more = look(task, reading, kind, asked)
    request = {"verb": "explain", **{key: value for key, value in asked.items() if value is not None}, "text": text}
    lines = [explanation_text(found, columns()), *([why] if why else [])]
    hand_over(found, "\n".join(lines), capture(reading, request, [found.to_dict(), *more]), wanted)


def read(name: str, text: str) -> tuple[Any, "Reading"]:
    """The model, in full precision so that every number is the file's own, and what it reads."""
    from regard.inspection.reading import read_text
    from regard.tasks.load import load
    from regard.tasks.recogniser import Recogniser
    from regard.tasks.translator import Translator

    task = load(find_model(name))
    if isinstance(task, Recogniser):
        tell(f"recognised: {task([text])[0].label}")
        return task, task.reading(text)
    if not isinstance(task, Translator):
        return task, read_text(task.model, task.tokenizer, text)
    result = task(text, n_best=1)
    tell(f"translated: {result.text}")
    return task, result.reading


def kind_of(reading: "Reading", asked: str | None, token: str | None) -> "Kind":
    """The kind of attention that is meant; `self` is that of the side on which the token stands."""
    if asked in ("encoder", "decoder", "cross"):
        return asked  # type: ignore[return-value]
    if asked is None or len(reading.kinds) < 2:
        return reading.kinds[-1] if reading.kinds else "encoder"  # a translator's last is cross
    if token is not None and reading.source is not None:
        try:
            reading.source.find(token)
        except UserError:
            return "decoder"
    return "encoder"


def look(
    task: Any, reading: "Reading", kind: "Kind", asked: dict[str, Any]
) -> tuple["Explanation", str, list[dict[str, Any]]]:
    """The explanation, why it is of this head, and what else was found out on the way."""
    from functools import partial

    from regard.inspection.explanation import explain
    from regard.inspection.heads import choose, find_heads
    from regard.inspection.reading import read_text

    reading.check(kind, asked["layer"], asked["head"])
    at = asking(reading, kind, asked["token"])

    def finder() -> "HeadScores":
        return find_heads(partial(read_text, task.model, task.tokenizer), kind)

    chosen = choose(reading, kind, at, finder, layer=asked["layer"], head=asked["head"])
    more = [] if chosen.scores is None else [chosen.scores.to_dict()]
    return explain(reading, kind, chosen.layer, chosen.head, at), chosen.why, more


def asking(reading: "Reading", kind: "Kind", token: str | None) -> int:
    """The token that asks: the one named, else a pronoun, else the last ordinary one."""
    from regard.inspection.heads import PRONOUNS

    tokens = reading.queries(kind)
    words = tokens.whole_words()
    if token is None and reading.pixels is not None:
        token = "[class]"  # what the label is read from
    if token is not None:
        hits = tokens.find(token)
        if hits[1:]:
            tell(f"'{token}' stands at {', '.join(f'#{i}' for i in hits)}; this is #{hits[0]}")
        return hits[0]
    pronouns = [tokens.words.index(word) for word, name in words.items() if name.casefold() in PRONOUNS]
    ordinary = [i for i, is_special in enumerate(tokens.special) if not is_special] or [0]
    at = (pronouns or ordinary[-1:])[0]
    tell(f"no --token was given; this is #{at}, “{words[tokens.words[at]]}”")
    return at
