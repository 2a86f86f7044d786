"""From the name of a model that comes with the package to its folder.

The weights are written by tools/bundle.py; a source checkout may be without them.
"""

import difflib
from pathlib import Path
from typing import NamedTuple

from regard.errors import QUOTED, USAGE, UserError
from regard.pretrained.installed import INSTALLED, path_of

FOLDER = Path(__file__).parent


class Bundled(NamedTuple):
    about: str
    licence: str
    over: str = ""
    "The installed model that it is an adapter of."
    attends: bool = True
    "Whether there is attention to look at, so that the studio offers it by itself."


TRANSLATOR = "pt-en"
USUAL = {
    "Translator": TRANSLATOR,
    "Generator": "smollm2",
    "Embedder": "minilm",
    "Tagger": "names",
    "WordVectors": "words",
}
"What serves a task where no model is given."
OTHERWISE = {
    "Classifier": "train one with `regard train --task classify --data reviews.csv --init minilm --out runs/reviews`, "
    "or classify without one: --zero-shot --labels positive,negative",
    "Recogniser": "train one with `regard train vit-mnist --out runs/mnist`, "
    "or give --model hf:google/vit-base-patch16-224",
    "Captioner": "--model shapes knows coloured shapes on a dark ground and nothing else; "
    "or train one: `regard train --help`, task caption",
    "Filler": "get one with `regard get bert-base-uncased`, and give the folder that it prints as --model; "
    "or train one with `regard train --task fill --data texts.txt --init minilm --out runs/fill`",
    "Answerer": "train one with `regard train --task answer --data train.json --init minilm --out runs/answers`",
}
"For tasks that nothing serves: how to come by a model."
BUNDLED = {
    TRANSLATOR: Bundled("Portuguese to English, everyday sentences and prose", "Apache-2.0"),
    "shakespeare": Bundled("Shakespeare letter by letter: small, to be looked at", "Apache-2.0"),
    "shapes": Bundled("says which coloured shapes are drawn, and where", "Apache-2.0"),
    "words": Bundled("vectors for 15,311 English words", "Apache-2.0", attends=False),
    "names": Bundled("names of people, places, groups, products and works in English texts", "Apache-2.0", "minilm"),
}


def usual(task: str) -> str:
    if task not in USUAL:
        raise UserError("no model for this comes with regard: say which with --model", OTHERWISE[task], exit_code=USAGE)
    return USUAL[task]


def folder_of(name: str) -> Path:
    if not is_here(name):
        raise UserError(
            f"the bundled model {name} is not in this copy of regard (no weights in {FOLDER / name})",
            "give another model, a directory or hf:owner/name; in a source checkout tools/bundle.py makes the bundle",
        )
    if BUNDLED[name].over:
        path_of(BUNDLED[name].over)  # which may not be installed, and then says so
    return FOLDER / name


def is_here(name: str) -> bool:
    return any((FOLDER / name).glob("*.safetensors"))


def by_name(source: str | Path) -> str | Path:
    """`source` itself, or the path of the bundled or installed model that it names.

    A file or folder of that name here is what is meant: whoever trained into ./pt-en wants to see that one.
    """
    if not is_name(source) or Path(source).exists():
        return source
    return path_of(str(source)) if source in INSTALLED else folder_of(str(source))


def is_name(source: str | Path) -> bool:
    return source in BUNDLED or source in INSTALLED


def near_name(source: str) -> str:
    """A question, where it is nearly such a name."""
    near = difflib.get_close_matches(source[:QUOTED].lower(), [*BUNDLED, *INSTALLED], n=1)
    return f"did you mean '{near[0]}'?" if near else ""


def size_of(name: str) -> int | None:
    """Bytes of all its files; unknown where it is not here."""
    return sum(path.stat().st_size for path in (FOLDER / name).iterdir()) if is_here(name) else None
