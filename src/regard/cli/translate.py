"""`regard translate`: sentences, files and pipes from one language to another."""

import json
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from regard.cli.counting import Count
from regard.cli.opening import open_task, opening, precision_option
from regard.cli.records import is_typed, lines_in, read
from regard.cli.terminal import columns, tell
from regard.errors import UserError
from regard.files import write_bytes

if TYPE_CHECKING:
    from regard.tasks.translation import Translation
    from regard.tasks.translator import Translator

N_BEST = "Translations to show, each as sentence number, score and text between tabs, best first. The score is the "
N_BEST += "log-probability divided by tokens ** P; 0 is certain."
EXAMPLES = """\b
Examples:
  regard translate "O livro está em cima da mesa."
  regard translate --show "O livro está em cima da mesa."
  regard translate --model my-model --n-best 4 --json < in.txt > out.jsonl
  regard translate --model my-model --file in.txt > out.txt
"""


@click.command(epilog=EXAMPLES)
@click.argument("texts", metavar="[TEXT]...", nargs=-1)
@click.option("--model", help="A directory or hf:owner/name of an encoder-decoder; else the bundled pt-en.")
@click.option("--file", "path", type=click.Path(path_type=Path), help="Read this file, one sentence a line.")
@click.option(
    "--beam", type=click.IntRange(1, 1000), default=4, show_default=True, help="Hypotheses kept; 1 is greedy."
)
@click.option("--n-best", type=click.IntRange(1, 1000), default=1, show_default=True, help=N_BEST)
@click.option(
    "--length-penalty",
    type=float,
    default=1.0,
    show_default=True,
    help="The power P of --n-best; above 0 favours longer ones.",
)
@click.option("--max-new", type=click.IntRange(min=1), help="Most tokens to write; by default twice the source and 10.")
@precision_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line: text, score, and what --n-best adds.")
@click.option("--tree", is_flag=True, help="Show the paths that the beam followed, and why each ended.")
@click.option("--tree-all", "whole", is_flag=True, help="As --tree, with the paths that never entered the beam.")
@click.option("--show", is_flag=True, help="Show which words were looked at for each word.")
@click.option(
    "--svg",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Draw that as FILE; more sentences as FILE-2 and so on.",
)
def command(
    texts: tuple[str, ...],
    model: str | None,
    path: Path | None,
    beam: int,
    n_best: int,
    length_penalty: float,
    max_new: int | None,
    precision: str,
    as_json: bool,
    tree: bool,
    whole: bool,
    show: bool,
    svg: Path | None,
) -> None:
    """Translate each TEXT, in order.

    With no TEXT, or for `-`, reads stdin, one record a line. A line of several sentences is translated
    sentence by sentence; empty lines, indents and bullets stay.
    """
    lines = read(texts, path)
    check_svg(svg)
    with opening(model):
        from regard.tasks.translator import Translator

        translate = open_task(model, Translator, precision)
    tree = tree or whole
    search = {"beam": beam, "n_best": n_best, "length_penalty": length_penalty, "max_new": max_new, "tree": tree}
    typed = is_typed(texts, path)
    view = View(as_json, n_best, show=show, tree=tree, whole=whole)
    figures = numbered(svg)
    with closing(Count("lines", None if path is None else lines_in(path))) as count:
        for number, result in enumerate(run(translate, lines, count, typed=typed, search=search), start=1):
            count.make_room()
            write(result, number, view)
            for sentence in result.sentences if svg else ():
                draw(sentence, next(figures))


def run(
    translate: "Translator", lines: Iterator[str], count: Count, *, typed: bool, search: dict[str, Any]
) -> Iterator["Translation"]:
    if typed:  # someone waits at the terminal: each line is answered at once
        return (result for line in lines for result in translate.many([line], split=True, **search))
    return translate.many(lines, split=True, heard=count.heard, **search)


def check_svg(svg: Path | None) -> None:
    """Before any work: can it be written?"""
    if svg is not None and (svg.is_dir() or not svg.absolute().parent.is_dir()):
        raise UserError(f"{svg} cannot be written", "give a file name in a directory that exists")


def numbered(svg: Path | None) -> Iterator[Path]:
    number = 1
    while svg is not None:
        yield svg if number == 1 else svg.with_name(f"{svg.stem}-{number}{svg.suffix}")
        number += 1


class View(NamedTuple):
    """How a translation is shown."""

    as_json: bool
    n_best: int
    show: bool
    tree: bool
    whole: bool


def write(result: "Translation", number: int, view: View) -> None:
    if result.note:
        tell(f"line {number}: {result.note}")
    if view.as_json:
        click.echo(json.dumps(described(result, view.show), ensure_ascii=False))
        return
    if view.n_best == 1:
        click.echo(result.text)
    else:
        for each in (result, *result.alternatives):
            click.echo(f"{number}\t{each.score:.4f}\t{each.text}")
    for sentence in result.sentences:
        look(sentence, view)


def described(result: "Translation", show: bool) -> dict[str, object]:
    found = result.to_dict()
    if show:
        found["alignment"] = [each.alignment(words=True).to_dict() for each in result.sentences]
    return found


def look(sentence: "Translation", view: View) -> None:
    from regard.inspection.attention import averaged
    from regard.inspection.figures.shades import alignment_legend, alignment_text
    from regard.inspection.figures.tree import tree_text
    from regard.text.words import token_name

    assert sentence.inside is not None
    target = sentence.inside.target
    if view.show:
        figure = alignment_text(sentence.alignment(words=True), columns())
        legend = alignment_legend(averaged(sentence.reading, "cross"))
        click.echo(f"\n{figure}\n\n{legend}\n")
    if view.tree and sentence.tree is not None:
        width = columns() if sys.stdout is not None and sys.stdout.isatty() else None
        shown = tree_text(sentence.tree, lambda id: token_name(id, target), width=width, whole=view.whole)
        click.echo(f"\n{shown}\n")


def draw(sentence: "Translation", path: Path) -> None:
    write_bytes(path, sentence.alignment(words=True).svg().encode())
    tell(f"drawn: {path}")
