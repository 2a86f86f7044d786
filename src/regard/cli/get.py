"""`regard get`: public data and models from their home."""

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from regard.cli.progress import Line, duration
from regard.cli.terminal import fold, tell
from regard.errors import FAILURE, USAGE, UserError, pick
from regard.pretrained.bundled import BUNDLED, folder_of
from regard.pretrained.installed import INSTALLED, path_of

if TYPE_CHECKING:
    from regard.data.catalogue import DataSet, PublicModel, RemoteFile

EXAMPLES = """\b
Examples:
  regard get multi30k
  regard get tinyshakespeare --to texts --yes
  regard get gpt2
"""
LIVE_SECONDS = 0.2


@click.command(epilog=EXAMPLES)
@click.argument("name")
@click.option(
    "--to",
    type=click.Path(path_type=Path),
    help="Folder for a data set; else where recipes look for it, as data/multi30k_de_en.",
)
@click.option("--from", "mirror", metavar="URL", help="Fetch the files of a data set below URL, not from their home.")
@click.option("--yes", is_flag=True, help="Do not ask. Without a terminal nothing is asked.")
def command(name: str, to: Path | None, mirror: str | None, yes: bool) -> None:
    """Fetch the data set or model NAME, and print where it is; a model's folder may be given as --model.

    `regard list data` and `regard list models` show the names; hf:owner/name fetches any model of the hub. Size,
    licence and home are shown first. Every file is checked against its sha256 where one is known. It appears when it
    is whole, or not at all; what is there already is not fetched again.
    """
    if name in BUNDLED or name in INSTALLED:
        place = path_of(name) if name in INSTALLED else folder_of(name)
        tell(f"{name} is already there: nothing is fetched")
        click.echo(place)
        return
    from regard.data.catalogue import DataSet, PublicModel, read_catalogue

    known = read_catalogue()
    names: dict[str, DataSet | PublicModel] = {**known.data, **known.models}
    if name.startswith("hf:"):
        repository, _, revision = name.removeprefix("hf:").partition("@")
        names[name] = PublicModel("", "see its card", repository, revision or None)
    entry = pick(name, names, "name", listing="regard list data` or `regard list models")
    if isinstance(entry, DataSet):
        place = get_data(name, entry, to, mirror, yes)
    elif to or mirror:
        hint = f"`regard convert hf:{entry.source} DIR` writes it to a folder; HF_ENDPOINT names another hub"
        raise UserError("a model goes to the hub's cache: --to and --from are for data", hint, exit_code=USAGE)
    else:
        place = get_model(name, entry, yes)
    click.echo(place)


def get_data(name: str, entry: "DataSet", to: Path | None, mirror: str | None, yes: bool) -> Path:
    from regard.data.download import ROOM, check_address

    folder = to or Path("data") / entry.folder
    absent = [file for file in entry.files if not is_there(file, folder / file.name)]
    if not absent:
        whole = " and whole" if all(file.sha256 for file in entry.files) else ""
        tell(f"{name} is already there{whole}")
        return folder
    for file in absent:
        check_address(entry.locate(file, mirror))
    describe(name, entry, f"commit {entry.revision}")
    if mirror:
        tell(f"  from      {mirror}")
    for file in absent:
        tell(f"  {size_text(file.size):>12}  {folder / file.name}")
    if n_unknown := sum(not file.sha256 for file in absent):
        tell(f"  no checksum is known for {n_unknown} of them; each has at most {size_text(entry.max_bytes)}")
    ask(yes)
    for number, file in enumerate(absent):
        try:
            get_file(entry, file, folder, mirror)
        except UserError as error:
            if error.exit_code != FAILURE or error.hint == ROOM:  # not the file that is meant, or no place for it
                raise
            names = ", ".join(each.name for each in absent[number:])
            by_hand = f"or put these into {folder} by hand: {names}"
            raise UserError(error.message, f"{error.hint}\n  {by_hand}", exit_code=FAILURE) from error
    return folder


def get_file(entry: "DataSet", file: "RemoteFile", folder: Path, mirror: str | None) -> None:
    from regard.data.download import fetch

    line, path = DownloadLine(file.name), folder / file.name
    limit = file.size or entry.max_bytes
    found = fetch(entry.locate(file, mirror), path, limit=limit, sha256=file.sha256, heard=line.heard)
    checked = "sha256 as it should be" if file.sha256 else f"no checksum is known\n  sha256 {found}"
    line.say(f"{path}: {size_text(path.stat().st_size)}, {checked}")


def is_there(file: "RemoteFile", path: Path) -> bool:
    """Whether it need not be fetched. Another file under its name is the user's own, and not ours to replace."""
    from regard.data.download import hash_file

    if not path.exists():
        return False
    if not path.is_file() or (file.sha256 and hash_file(path) != file.sha256):
        raise UserError(f"{path} is there, but is not the file of that name", "move it away, or give another --to")
    if not file.sha256:
        tell(f"{path} is there; no checksum is known for this file, so it was not checked")
    return True


def get_model(name: str, entry: "PublicModel", yes: bool) -> Path:
    from huggingface_hub import constants

    from regard.weights import hub

    describe(name, entry, f"commit {entry.revision}" if entry.revision else "not pinned: the newest is fetched")
    tell("  checksum  none is known; the commit says which files are meant")
    ask(yes)
    try:
        with few_words():
            return hub.fetch(entry.source)
    except UserError as error:
        if error.exit_code != FAILURE:  # a name that the hub does not know, not the network
            raise
        hint = f"is there a network, and is {constants.ENDPOINT} reachable? Without, copy the model's directory here"
        raise UserError(error.message, f"{hint} and give its path", exit_code=FAILURE) from error


@contextmanager
def few_words() -> Iterator[None]:
    """One line for all the attempts to reach the hub, which speaks twice of each."""
    said: list[str] = []

    def is_news(record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if "thrown while requesting" not in text and not text.startswith("Retrying in"):
            return True
        if not said:
            tell("the hub does not answer; trying again for half a minute ...")
        said.append(text)
        return False

    log = logging.getLogger("huggingface_hub.utils._http")
    log.addFilter(is_news)
    try:
        yield
    finally:
        log.removeFilter(is_news)


def describe(name: str, entry: "DataSet | PublicModel", revision: str) -> None:
    about = {"size": f"about {size_text(entry.size)}" if entry.size else "not known", "licence": entry.licence}
    about |= {"home": entry.home, "revision": revision}
    tell(fold(f"{name}: {entry.about}" if entry.about else name))
    for key, text in about.items():
        tell(f"  {key:8}  {text}")


def ask(yes: bool) -> None:
    if yes or not is_terminal() or click.confirm("fetch it?", default=True, err=True):
        return
    raise UserError("nothing was fetched", exit_code=FAILURE)


def is_terminal() -> bool:
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def size_text(size: int | None) -> str:
    if size is None:
        return "size unknown"
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} bytes"


class DownloadLine(Line):
    """How much of one file is here, how fast it comes, and when it will be whole."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.start = self.due = time.monotonic()
        self.shown_at = self.start  # a small file needs no line of its own where lines stay

    def heard(self, done: int, promised: int | None) -> None:
        now = time.monotonic()
        if now < self.due:
            return
        self.due = now + LIVE_SECONDS
        rate = done / max(now - self.start, 1e-9)
        text = f"{self.name}  {size_text(done)}"
        if promised:
            text += f" of {size_text(promised)}"
        text += f"  {size_text(int(rate))}/s"
        if promised and rate:
            text += f"  {duration((promised - done) / rate)} left"
        self.show(text)
