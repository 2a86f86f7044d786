"""`regard race`: recurrence against attention, measured here and drawn."""

import time
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from regard.cli.minutes import MINUTES
from regard.cli.progress import Line, duration
from regard.cli.running import stopping
from regard.cli.terminal import tell
from regard.cli.waiting import waiting
from regard.errors import USAGE, UserError
from regard.files import expanded

EXAMPLES = """\b
Examples:
  regard race --minutes 10 --svg pictures
  regard race --rank --parts --limits --html race.html
  regard race --json > first.json
  regard race --again first.json
"""
WRITTEN = click.Path(path_type=Path)


@click.command(epilog=EXAMPLES)
@click.option("--rank", is_flag=True, help="Instead: how attention alone makes all tokens alike, and what prevents it.")
@click.option("--parts", is_flag=True, help="Instead: the square root, heads, residual and norm, with and without.")
@click.option("--limits", is_flag=True, help="Instead: parity and brackets, LSTM beside Transformer; path lengths.")
@click.option(
    "--minutes",
    type=MINUTES,
    default=5.0,
    show_default=True,
    help="In all; --rank has no training and takes its own time.",
)
@click.option("--steps", type=click.IntRange(min=1), help="Of every training, instead of equal time.")
@click.option(
    "--length", "longest", type=click.IntRange(128, 4096), default=4096, show_default=True, help="Longest text."
)
@click.option(
    "--width", type=click.IntRange(8, 512), default=32, show_default=True, help="Of all models; 8, 16, 24 ..."
)
@click.option("--seed", type=click.IntRange(0, 2**31), default=0, show_default=True, help="Weights, data and order.")
@click.option("--again", type=WRITTEN, metavar="FILE", help="Repeat the race of this JSON, step by step.")
@click.option("--svg", type=WRITTEN, metavar="DIR", help="Draw every table or its curves into this folder.")
@click.option("--html", type=WRITTEN, metavar="FILE", help="Write one page with all figures and tables.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with every number.")
def command(again: Path | None, svg: Path | None, html: Path | None, as_json: bool, **given: Any) -> None:
    """Race RNN, LSTM, RNN with attention, Transformer and Transformer with local attention, all of one width.

    Time and memory over the length of a text, gradients over distance, and how far back a symbol is copied after equal
    training; each from runs of our own models on this machine. Ctrl-C ends the race and keeps what is measured.
    """
    if given["width"] % 8:
        raise UserError(f"--width {given['width']}", "expected a multiple of 8, for eight heads", exit_code=USAGE)
    for name, path in {"--svg": svg, "--html": html}.items():
        if path is not None and (path.is_file() if name == "--svg" else path.is_dir()):
            raise UserError(f"{name}: {path} cannot be written", "give a folder for --svg, a file name for --html")
    if again is not None and not expanded(again).is_file():
        raise UserError(f"--again: there is no file {again}", "`regard race --json > FILE` writes one")
    if again is not None:
        refuse_beside_again(given)
    with waiting("preparing the race"):
        race = prepared(again, given)
    from regard.lab.race.race import run

    line = Line()
    end = time.monotonic() + 60 * race.minutes
    with stopping(line, "ending this turn") as stop, waiting("racing"):

        def told(text: str) -> None:
            if stop.is_set():  # between two turns: inside one, an import may be half done
                raise KeyboardInterrupt
            line.show(f"{text}, {duration(max(0.0, end - time.monotonic()))} left")

        race.setting.told = told
        run(race)
    click.echo(race.json() if as_json else race.text())
    tell(f"{duration(race.seconds)}, {race.energy}\n  {race.energy.beside()}")
    for path in race.draw(expanded(svg)) if svg else []:
        tell(f"written: {path}")
    if html is not None:
        race.write_page(expanded(html))
        tell(f"written: {html}")
    if race.stopped:
        tell(f"stopped; {'what was measured by then is above' if race.sheets else 'nothing was measured by then'}")
        raise click.exceptions.Exit(128 + stop.number)


def refuse_beside_again(given: dict[str, Any]) -> None:
    """The file says what is raced: an option that would not be looked at is a mistake of the one who typed it."""
    source = click.get_current_context().get_parameter_source
    typed = [name for name in given if source(name) is ParameterSource.COMMANDLINE]
    if typed:
        names = " ".join("--" + ("length" if name == "longest" else name) for name in typed)
        hint = "leave it out, or race anew without --again"
        raise UserError(f"{names}: --again repeats what its file says", hint, exit_code=USAGE)


def prepared(again: Path | None, given: dict[str, Any]) -> Any:
    from regard.lab.race.race import Race, read_plan
    from regard.lab.race.racers import Size
    from regard.lab.race.setting import Setting

    asked = [name for name in ("rank", "parts", "limits") if given[name]] or ["race"]
    setting = Setting(given["seed"], Size(width=given["width"]), given["longest"], given["steps"])
    if again is None:
        return Race(setting, asked, given["minutes"])
    plan = read_plan(expanded(again))
    setting = Setting(plan["seed"], Size(width=plan["size"]["width"]), plan["longest"], plan=plan["steps"])
    return Race(setting, plan["asked"], plan["minutes"])
