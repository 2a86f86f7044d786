"""Train, run and look inside Transformers on your own computer. One block, every family.

The public names are resolved on first use, so that `import regard` and `regard --help` stay quick:
torch is only imported by what needs it.
"""

import importlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.errors import UserError
    from regard.tasks.load import load
    from regard.weights.store import load_model

__version__ = "0.1.0"

# Large tensors then come in pages of 2 MB: a new one costs a five-hundredth of the page faults. torch reads this once.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

__all__ = ["UserError", "__version__", "load", "load_model"]

_HOME = {"UserError": "regard.errors", "load": "regard.tasks.load", "load_model": "regard.weights.store"}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'regard' has no attribute '{name}'")
    value: object = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value  # the next use does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
