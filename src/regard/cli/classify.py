"""`regard classify`: labels for texts and for pairs of texts."""

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli.counting import Count, tell_of_cuts
from regard.cli.opening import open_task, opening, precision_option
from regard.cli.pictures import are_pictures, listed
from regard.cli.records import Row, file_option, is_typed, rows, total
from regard.cli.showing import bar, flat, is_screen, percent, shortened
from regard.errors import USAGE, UserError
from regard.text.labelled import TEMPLATE, WAYS, checked_labels, parts_of

if TYPE_CHECKING:
    from regard.tasks.classifier import Classification

CHUNK = 512
"Texts that are read before the first label comes out."
LABEL_WIDTH = 12

EXAMPLES = """\b
Examples:
  regard classify --model my-model "A film to remember." "What a bore."
  regard classify --model my-model --file reviews.csv --column text
  regard classify --model my-model --pairs "A man sleeps." "Someone sleeps."
  regard classify --model my-model --file pairs.csv --column a --column b
  regard classify --zero-shot --labels positive,negative "A film to remember."
  regard classify --model runs/cifar/model --top 3 cat.jpg dog.png
"""


@click.command(epilog=EXAMPLES)
@click.argument("texts", nargs=-1)
@click.option("--model", help="A directory or hf:owner/name of a classifier; with --zero-shot a language model.")
@file_option
@click.option("--column", "columns", multiple=True, metavar="NAME", help="The table's column of texts; two for pairs.")
@click.option("--pairs", is_flag=True, help="Two TEXTS make a pair; in a line a tab stands between them.")
@click.option("--top", type=click.IntRange(min=1), help="Labels to show for each text, the likeliest first. [1]")
@click.option("--image", is_flag=True, help="TEXTS are picture files or folders; so it is too if all end so (.png).")
@click.option("--zero-shot", is_flag=True, help="Ask a language model which of --labels would follow.")
@click.option("--labels", metavar="A,B,...", help="The labels of --zero-shot.")
@click.option("--template", metavar="TEXT", help=f"What --zero-shot asks. [{TEMPLATE!r}]")
@click.option(
    "--by",
    type=click.Choice(list(WAYS)),
    help="How labels compare: gain over an empty text, mean of tokens, or sum. [prior]",
)
@precision_option
@click.option(
    "--json", "--jsonl", "as_json", is_flag=True, help="One JSON object a text: text (or image), label, score, scores."
)
def command(
    texts: tuple[str, ...],
    model: str | None,
    path: Path | None,
    columns: tuple[str, ...],
    pairs: bool,
    top: int | None,
    image: bool,
    zero_shot: bool,
    labels: str | None,
    template: str | None,
    by: str | None,
    precision: str,
    as_json: bool,
) -> None:
    """Label each text, in order: label, probability and text.

    With no TEXTS, or for `-`, reads stdin, one text a line. Where the model measures a value, that is shown instead.
    Pictures are labelled by a model that sees.
    """
    options = {"labels": labels, "template": template, "by": by}
    asked = check(options, zero_shot=zero_shot, pairs=pairs or len(columns) > 1)
    image = image or are_pictures(texts)
    if image and (path or columns or pairs or zero_shot):
        raise UserError("--file, --column, --pairs and --zero-shot are for texts", "leave them out", exit_code=USAGE)
    given = pictures(texts) if image else rows(texts, path, columns, pairs=pairs)
    classify = opened(model, precision, asked, image=image)
    size = 1 if is_typed(texts, path) else CHUNK
    with closing(Count("pictures" if image else "texts", total(path))) as count:
        for number, (row, found) in enumerate(run(classify, given, size, count), start=1):
            count.make_room()
            write(row, found, number, top, as_json, keys=("image",) if image else ("text", "pair"))
    tell_of_cuts(classify)


def check(options: dict[str, str | None], *, zero_shot: bool, pairs: bool) -> dict[str, Any] | None:
    """What can be told before the model is opened; what a language model is to be asked, if one is."""
    if not zero_shot:
        if given := [name for name, value in options.items() if value is not None]:
            raise UserError(f"--{given[0]} is for --zero-shot", "add --zero-shot, or leave it out", exit_code=USAGE)
        return None
    if options["labels"] is None:
        raise UserError("--zero-shot needs labels", "for example --labels positive,negative", exit_code=USAGE)
    if pairs:
        raise UserError("--zero-shot is for single texts", "write both into one text", exit_code=USAGE)
    template = (options["template"] or TEMPLATE).replace("\\n", "\n").replace("\\t", "\t")  # as a shell leaves them
    parts_of(template)
    wish = {"labels": checked_labels(options["labels"].split(",")), "template": template}
    return wish | ({} if options["by"] is None else {"by": options["by"]})


def pictures(texts: Sequence[str]) -> Iterator[Row]:
    names = listed(texts)
    first = list(islice(names, 1))  # now, so that a wrong name is told before the model is opened
    return ((name,) for name in chain(first, names))


def opened(model: str | None, precision: str, asked: dict[str, Any] | None, *, image: bool) -> Any:
    with opening(model, "Recogniser" if image else "Classifier" if asked is None else "Generator"):
        if image:
            from regard.tasks.recogniser import Recogniser

            return open_task(model, Recogniser, precision)
        if asked is None:
            from regard.tasks.classifier import Classifier

            return open_task(model, Classifier, precision)
        from regard.tasks.generator import Generator
        from regard.tasks.zero_shot import ZeroShot

        return ZeroShot(open_task(model, Generator, precision), **asked)


def run(classify: Any, given: Iterator[Row], size: int, count: Count) -> Iterator[tuple[Row, "Classification"]]:
    done = 0
    while chunk := list(islice(given, size)):
        texts: Sequence[Any] = [row[0] if len(row) == 1 else row for row in chunk]
        yield from zip(chunk, classify(texts, first=done + 1, heard=count.heard), strict=True)
        done += len(chunk)


def write(
    row: Row, found: "Classification", number: int, top: int | None, as_json: bool, *, keys: tuple[str, ...]
) -> None:
    if as_json:
        click.echo(json.dumps(described(row, found, top, keys), ensure_ascii=False))
    elif is_screen():
        for line in drawn(row, found, top):
            click.echo(shortened(line))
    else:
        for line in plain(row, found, number, top):
            click.echo(line)


def described(
    row: Row, found: "Classification", top: int | None, keys: tuple[str, ...] = ("text", "pair")
) -> dict[str, Any]:
    """`keys` name what is in a row: a text and perhaps its pair, or a picture."""
    shown: dict[str, Any] = dict(zip(keys, row, strict=False))
    if found.problem == "regression" and len(found.scores) == 1:
        return shown | {"value": found.score}
    if found.problem == "multi_label_classification":
        shown["labels"] = list(found.labels)
    return shown | {"label": found.label, "score": found.score, "scores": dict(found.best(top))}


def plain(row: Row, found: "Classification", number: int, top: int | None) -> Iterator[str]:
    """Label, score and text between tabs; before them the number of the text where it has several lines."""
    texts = "\t".join(map(flat, row))
    if found.problem == "regression" and len(found.scores) == 1:
        yield f"{found.score:.4f}\t{texts}"
    elif top is not None and top > 1:
        for label, score in found.best(top):
            yield f"{number}\t{flat(label)}\t{score:.4f}\t{texts}"
    else:
        labels = found.labels if top is None else (found.label,)
        scores = ",".join(f"{found.scores[label]:.4f}" for label in labels)
        yield f"{flat(','.join(labels))}\t{scores}\t{texts}"


def drawn(row: Row, found: "Classification", top: int | None) -> Iterator[str]:
    """Label, probability and text on one line; of several labels each on one below the text."""
    texts = " | ".join(row)
    shown = found.best(top) if top else [(label, found.scores[label]) for label in found.labels]
    lines = [line_of(label, score, found) for label, score in shown]
    if top is None and len(lines) <= 1:
        yield f"{lines[0] if lines else '(no label)'}  {texts}"
    else:
        yield texts
        yield from (f"  {line}" for line in lines)


def line_of(label: str, score: float, found: "Classification") -> str:
    if found.problem == "regression":
        return f"{score:9.4f}" if len(found.scores) == 1 else f"{label:{LABEL_WIDTH}} {score:9.4f}"
    return f"{label:{LABEL_WIDTH}} {percent(score)} {bar(score)}"
