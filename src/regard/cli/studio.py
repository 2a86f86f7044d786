"""`regard studio`: the page and the API on this computer."""

import logging
import os
import secrets
import webbrowser
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import click

from regard.cli.opening import check_name
from regard.cli.terminal import tell
from regard.cli.waiting import waiting
from regard.errors import QUOTED, USAGE, UserError, cut
from regard.pretrained.bundled import BUNDLED, by_name, is_here
from regard.pretrained.installed import INSTALLED, is_installed
from regard.runlog import is_race

EXAMPLES = """\b
Examples:
  regard studio
  regard studio runs/my-model path/to/model --port 8000
  regard studio runs
  regard studio pt-en race.json
  REGARD_TOKEN=... regard studio --host 0.0.0.0
"""
ABOUT = {"minilm": "English sentences as vectors (MiniLM)", "smollm2": "a small language model that chats (SmolLM2)"}
LOG, PLACES = "log.jsonl", ("model", "best")
"What makes a folder a run, and where a run keeps its model, the better place first."
HERE = ("127.0.0.1", "localhost", "::1")


class Given(NamedTuple):
    """What the arguments name: models to offer, and folders with runs or files of races."""

    models: dict[str, tuple[str | Path, str]]
    runs: list[Path]


@click.command(epilog=EXAMPLES)
@click.argument("models", metavar="[MODEL|RUN]...", nargs=-1)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=7860, show_default=True, help="0 takes any that is free."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Beyond this computer a token is needed.")
@click.option("--token", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False), help="File with the token.")
@click.option("--no-open", is_flag=True, help="Do not open the browser.")
@click.option(
    "--precision",
    type=click.Choice(["fp32", "bf16", "fp16", "int8"]),
    default="fp32",
    show_default=True,
    help="Bits of the weights; only fp32 shows the file's own numbers.",
)
def command(models: tuple[str, ...], port: int, host: str, token: Path | None, no_open: bool, precision: str) -> None:
    """Open a page that translates, writes and looks inside, and serve the same as an API.

    Without MODEL it is the bundled translator and what installed packages carry. A RUN is a folder that `regard train`
    wrote, or one that holds several: its curves are shown live. So is what `regard race --json` wrote, a file or a
    folder with some. The token is read from a file or from REGARD_TOKEN; without one, one is made up where needed.
    """
    given = sorted_out(models)
    secret = secret_of(token, host)
    with waiting("opening the studio"):
        from regard.studio.app import build
        from regard.studio.guard import LOOPBACK, Rules
        from regard.studio.models import Entry, Source
        from regard.studio.serving import bound, serve

        listening = bound(host, port)
        rules = Rules(hosts=LOOPBACK if host in HERE else None, token=secret)
        entries = []
        for name, (path, about) in given.models.items():
            source = Source(name, path, about, precision)
            entries.append(Entry(name, source.open, about, Path(path)))
        studio = build(entries, given.runs, rules)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    url = address(host, listening.getsockname()[1], secret)

    def started() -> None:
        click.echo(url)
        if not no_open:
            Thread(target=webbrowser.open, args=[url], daemon=True).start()  # one in the terminal would not return

    serve(studio, listening, started)
    tell("the studio is closed")


def address(host: str, port: int, token: str | None) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "::1": "[::1]"}.get(host, host)
    return f"http://{shown}:{port}/" + (f"?token={token}" if token else "")


def secret_of(file: Path | None, host: str) -> str | None:
    """From the file, else from the environment, never from the command line, which all users of a machine can read."""
    if file is not None:
        try:
            found = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(
                f"the token cannot be read: {error}", "give a file with one line", exit_code=USAGE
            ) from error
    else:
        found = os.environ.get("REGARD_TOKEN", "").strip()
    if found and (len(found) < 16 or not all("!" <= letter <= "~" and letter not in '";,\\' for letter in found)):
        raise UserError(
            "the token is too short or has odd letters", "take 16 or more letters and digits", exit_code=USAGE
        )
    if found or host in HERE:
        return found or None
    tell(f"the studio can be reached from other computers at {host}: only with the token in the address below")
    return secrets.token_urlsafe(24)


def sorted_out(arguments: tuple[str, ...]) -> Given:
    """Models by the names they are offered under, and runs."""
    found = Given({}, [])
    for argument in arguments or tuple(usual()):
        place = Path(argument).expanduser()
        inside = place.iterdir() if place.is_dir() else ()
        if any(is_run(each) or is_race(each) for each in (place, *inside)):
            found.runs.append(place)
            folder = next((place / name for name in PLACES if (place / name / "config.json").is_file()), None)
            if folder is not None:
                found.models[free(place.resolve().name, found.models)] = folder, f"trained in {place.name}"
            continue
        check_name(argument)
        path = by_name(argument)
        name = argument if argument in ABOUT or argument in BUNDLED else Path(argument.removeprefix("hf:")).name
        about = BUNDLED[name].about if name in BUNDLED else ABOUT.get(name, "")
        found.models[free(name or "model", found.models)] = path, about
    return found


def is_run(place: Path) -> bool:
    return (place / LOG).is_file()


def free(name: str, taken: dict[str, tuple[str | Path, str]]) -> str:
    """A name for the address line: short, and of no two models."""
    name = cut(name, QUOTED) if len(name) <= QUOTED else name[:QUOTED]
    return next(each for each in [name, *(f"{name}-{i}" for i in range(2, 1000))] if each not in taken)


def usual() -> list[str]:
    installed = [name for name in INSTALLED if is_installed(name)]
    able = {name: model for name, model in BUNDLED.items() if model.attends and model.over in ("", *installed)}
    found = [*filter(is_here, able), *installed]
    if not found:
        raise UserError("there is no model in this copy of regard", "give one: regard studio MODEL", exit_code=USAGE)
    return found
