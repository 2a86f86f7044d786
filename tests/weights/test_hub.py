"""`hf:owner/name` is the only way to the network; without one, and for names that are none, the answer is clear."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from faults.refusal import refused
from regard.cli.main import run
from regard.weights import hub
from regard.weights.store import load_model, locate
from weights.checkpoints import save_tiny


@pytest.fixture
def downloads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    """Stands in for the hub: remembers what was asked for and hands out a tiny model."""
    asked: list[dict[str, Any]] = []
    save_tiny(tmp_path / "snapshot")

    def download(name: str, **options: Any) -> str:
        asked.append({"name": name, **options})
        return str(tmp_path / "snapshot")

    monkeypatch.setattr(hub, "snapshot_download", download)
    return asked


@pytest.mark.parametrize(
    "name",
    ["../../x", "..", "a/..", "../a", "a/../b", "", "/", "gpt2", "a/", "/a", "a/b/c", "a b/c", "a/b c", "a/b\n", "\0/a",
     "a/b@", "a/b@../../x", "a/b@c d", "a/b@/etc", "a/b@c/../../../d", "http://evil/x", "a\\b", "hf:a/b", "é/ü",
     "a/.git", "x" * 10_000],
    ids=lambda name: repr(name)[:30],
)  # fmt: skip
def test_a_name_that_is_none_is_refused_without_asking(name: str, downloads: list[dict[str, Any]]) -> None:
    with refused("is not of the form hf:owner/name", "for example hf:openai-community/gpt2", "hf:owner/name@revision"):
        load_model(f"hf:{name}")
    assert not downloads


def test_a_model_is_fetched_by_name_and_neither_code_nor_pickles_are(downloads: list[dict[str, Any]]) -> None:
    assert load_model("hf:owner/name.v1-x").n_parameters > 0
    assert downloads[0]["name"] == "owner/name.v1-x"
    assert downloads[0]["revision"] is None
    assert not any(bad in pattern for pattern in downloads[0]["allow_patterns"] for bad in ("py", "bin", "pt", "pkl"))


@pytest.mark.parametrize("revision", ["main", "v1.0", "refs/pr/4", "0123456789abcdef0123456789abcdef01234567"])
def test_a_revision_can_be_pinned_in_the_name_or_beside_it(revision: str, downloads: list[dict[str, Any]]) -> None:
    locate(f"hf:owner/name@{revision}")
    locate("hf:owner/name", revision)
    assert [asked["revision"] for asked in downloads] == [revision, revision]


def test_pickles_of_the_hub_are_fetched_only_to_convert_them_with_permission(
    downloads: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "snapshot" / "model.safetensors").unlink()
    assert run(["convert", "hf:owner/name", str(tmp_path / "new")]) == 3
    assert len(downloads) == 1
    assert run(["convert", "hf:owner/name", str(tmp_path / "new"), "--allow-pickle"]) == 3
    assert "pytorch_model*" in downloads[-1]["allow_patterns"]
    assert "no pytorch_model.bin" in capsys.readouterr().err


def test_without_network_and_without_a_copy_the_error_says_so(tmp_path: Path) -> None:
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "regard", "convert", "hf:owner/name", str(tmp_path / "new")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 1
    assert "hf:owner/name could not be fetched" in done.stderr
    assert "directory on this computer" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("error", [OSError("the cable is out"), TimeoutError(), httpx2.RemoteProtocolError("no")])
def test_a_network_that_fails_is_an_error_of_ours(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(*_: Any, **__: Any) -> str:
        raise error

    monkeypatch.setattr(hub, "snapshot_download", download)
    with refused("hf:owner/name could not be fetched"):
        load_model("hf:owner/name")


def test_a_hub_that_does_not_answer_is_not_waited_for(tmp_path: Path) -> None:
    """Though the library sets no limit of its own."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = {
            "HF_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "HF_HOME": str(tmp_path),
            "HF_HUB_OFFLINE": "0",
        }
        script = "from regard.weights import hub\nhub.SECONDS = 0.5\nhub.fetch('owner/name')"
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ | place)
    assert "hf:owner/name could not be fetched: ReadTimeout" in done.stderr
