"""`regard ladder`: from a plain RNN to a Transformer with all its helpers, rung by rung on the same pairs."""

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli.minutes import MINUTES
from regard.cli.progress import TrainingLine
from regard.cli.quick import guessed
from regard.cli.records import FOLDER
from regard.cli.running import stopping
from regard.cli.terminal import tell
from regard.cli.waiting import waiting
from regard.errors import USAGE, UserError
from regard.files import expanded

if TYPE_CHECKING:
    from regard.lab.ladder import Wanted

EXAMPLES = """\b
Examples:
  regard get multi30k && regard ladder --minutes 60 --out runs/ladder
  regard ladder my.de my.en --minutes 10 --out runs/mine
  regard ladder pairs.csv --column german --column english --out runs/mine
"""
files = click.Path(path_type=Path)


@click.command(epilog=EXAMPLES)
@click.argument("pairs", nargs=-1, type=files)
@click.option("--out", type=FOLDER, required=True, help="The ladder's folder; an earlier one there is gone on with.")
@click.option(
    "--minutes",
    type=MINUTES,
    default=30.0,
    show_default=True,
    help="Of training, for each of the six rungs that train.",
)
@click.option("--steps", type=click.IntRange(min=1), help="Of each training, instead of minutes.")
@click.option("--column", "columns", multiple=True, help="A column of a table: the source's, then the target's.")
@click.option("--valid", type=files, multiple=True, help="Pairs to choose the best weights by; else some of PAIRS.")
@click.option("--test", type=files, multiple=True, help="Pairs to score on; else some of PAIRS.")
@click.option("--seed", type=click.IntRange(0, 2**31), default=1, show_default=True, help="Weights, order, dropout.")
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="Override a key of every rung's run.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")  # fmt: skip
def command(pairs: tuple[Path, ...], out: Path, as_json: bool, **given: Any) -> None:
    """Climb from a vanilla RNN over LSTM, attention, Transformer, byte pairs, label smoothing and averaging to a beam.

    PAIRS is a table or a text file a side; without it, Multi30k. Each rung changes one thing, is trained for the same
    minutes and scored by BLEU on the test set. A ladder that was stopped goes on where it was with the same command.
    """
    folder = expanded(out)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--out: {folder} is a file", "give a folder", exit_code=USAGE)
    for path in map(expanded, (*pairs, *given["valid"], *given["test"])):
        if not path.is_file():
            raise UserError(f"there is no file {path}", "give a table of pairs, or a text file a side")
    with waiting("preparing the ladder"):
        from regard.lab.ladder import RUNGS, Ladder, check
        from regard.lab.ladder_report import describe, write_report

        wanted = wishes(pairs, given)
        check(wanted)
        ladder = Ladder(wanted, folder)
    line = TrainingLine()
    with stopping(line) as stop:
        for done in ladder.climb([line], line.say, stop):
            tell(describe(done))
            write_report(ladder)
    if as_json:
        click.echo(json.dumps({"ladder": 1, "rungs": ladder.done}))
    elif ladder.done:
        click.echo((folder / "ladder.md").read_text(encoding="utf-8").rstrip())
    if len(ladder.done) < len(RUNGS):
        tell(f"stopped; go on with the same command, which finds what is done in {shlex.quote(str(folder))}")
        raise click.exceptions.Exit(128 + stop.number)
    tell(f"written: {folder / 'ladder.md'}, {folder / 'ladder.svg'}, {folder / 'ladder.json'}")


def wishes(pairs: tuple[Path, ...], given: dict[str, Any]) -> "Wanted":
    from regard.lab.ladder import Wanted, multi30k

    sets: dict[str, Any] = {
        name: tuple(str(expanded(path).absolute()) for path in given.pop(name)) for name in ("valid", "test")
    }
    if not pairs:
        if any(sets.values()) or given["columns"]:
            raise UserError("options for PAIRS, but no PAIRS", "name the files to learn from", exit_code=USAGE)
        return replace(multi30k(), **given)
    if bool(sets["valid"]) != bool(sets["test"]):
        raise UserError("one of --valid and --test alone", "give both, or neither", exit_code=USAGE)
    paths = [expanded(path) for path in pairs]
    columns = given.pop("columns") or (guessed("translate", paths[0]) if len(paths) == 1 else ())
    return Wanted(train=tuple(str(path.absolute()) for path in paths), **sets, columns=columns, **given)
