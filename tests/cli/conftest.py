"""Where commands are tried."""

from pathlib import Path

import pytest

from regard.training import loop
from training.runs import write_recipe


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder with a recipe and its data, and the user in it."""
    write_recipe(tmp_path, steps=6, schedule="inverse_sqrt")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(loop, "LOG_SECONDS", 0.0)
    return tmp_path
