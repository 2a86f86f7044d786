"""A checkpoint appears whole or not at all, and what comes back is what was put in."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import nn

from regard.errors import Notice, UserError
from regard.training import checkpoint


def make(width: int = 8) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(width, width), nn.Linear(width, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for _ in range(3):
        model(torch.randn(4, width)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer


def test_weights_and_moments_come_back_bit_equal(tmp_path: Path) -> None:
    model, optimizer = make()
    path = checkpoint.save(tmp_path, 7, model, optimizer, {"note": "x"})
    fresh, other = make()
    with torch.no_grad():
        for parameter in fresh.parameters():
            parameter.zero_()
    manifest = checkpoint.restore(path, fresh, other)
    assert manifest["step"] == 7
    assert manifest["note"] == "x"
    for a, b in zip(model.parameters(), fresh.parameters(), strict=True):
        assert torch.equal(a, b)
    theirs = other.state_dict()["state"]
    for index, moments in optimizer.state_dict()["state"].items():
        assert all(torch.equal(torch.as_tensor(value), theirs[index][kind]) for kind, value in moments.items())


def test_the_latest_whole_one_is_taken(tmp_path: Path) -> None:
    model, optimizer = make()
    first = checkpoint.save(tmp_path, 1, model, optimizer, {})
    second = checkpoint.save(tmp_path, 2, model, optimizer, {})
    assert checkpoint.latest(tmp_path) == second
    assert (tmp_path / "latest").read_text().strip() == second.name
    data = bytearray((second / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (second / "model.safetensors").write_bytes(bytes(data))
    with pytest.warns(Notice, match=f"{second.name} is damaged and was passed over"):
        assert checkpoint.latest(tmp_path) == first
    (first / "manifest.json").unlink()
    with pytest.warns(Notice), pytest.raises(UserError, match="whole"):
        checkpoint.latest(tmp_path)


def test_half_written_ones_are_ignored_and_swept_away(tmp_path: Path) -> None:
    model, optimizer = make()
    (tmp_path / "step-00000009.tmp-123").mkdir()
    kept = checkpoint.save(tmp_path, 3, model, optimizer, {})
    checkpoint.save(tmp_path, 4, model, optimizer, {})
    assert checkpoint.latest(tmp_path) == checkpoint.path_of(tmp_path, 4)
    checkpoint.prune(tmp_path, keep={3})
    assert [path.name for path in tmp_path.glob("step-*")] == [kept.name]


@pytest.mark.parametrize("renames", [0, 1, 2])
def test_a_kill_between_the_renames_of_the_same_step_leaves_a_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    model, optimizer = make()
    path = checkpoint.save(tmp_path, 5, model, optimizer, {"try": 1})
    rename, done = Path.rename, []

    def killed(self: Path, target: Path) -> Path:
        if len(done) == renames:
            raise KeyboardInterrupt
        done.append(target)
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", killed)
        if renames < 2:
            with pytest.raises(KeyboardInterrupt):
                checkpoint.save(tmp_path, 5, model, optimizer, {"try": 2})
        else:
            checkpoint.save(tmp_path, 5, model, optimizer, {"try": 2})
    assert checkpoint.latest(tmp_path) == path
    manifest = checkpoint.restore(path, model, optimizer)
    assert manifest["try"] == (2 if renames == 2 else 1)
    checkpoint.prune(tmp_path, keep={5})
    assert sorted(file.name for file in tmp_path.iterdir()) == ["latest", path.name]


def test_the_average_is_the_mean(tmp_path: Path) -> None:
    paths = []
    for number in range(3):
        model = nn.Linear(2, 2)
        with torch.no_grad():
            model.weight.fill_(number)
        paths.append(checkpoint.save(tmp_path, number, model, torch.optim.AdamW(model.parameters()), {}))
    assert checkpoint.average(paths)["weight"].tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_a_full_disk_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, optimizer = make()
    old = checkpoint.save(tmp_path, 1, model, optimizer, {})

    def full(*_args: object, **_options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(UserError, match=r"No space left[\s\S]*`regard resume`"):
        checkpoint.save(tmp_path, 2, model, optimizer, {})
    with pytest.raises(UserError, match=r"No space left[\s\S]*none before it"):
        checkpoint.save(tmp_path / "new", 1, model, optimizer, {})
    assert checkpoint.latest(tmp_path) == old
    assert not list(tmp_path.glob("*.tmp-*"))


SAVER = """
import sys, torch
from pathlib import Path
from regard.training import checkpoint
model = torch.nn.Linear(1500, 1500)
optimizer = torch.optim.AdamW(model.parameters())
model(torch.randn(1, 1500)).sum().backward(); optimizer.step()
print("ready", flush=True)
for number in range(10_000):
    checkpoint.save(Path(sys.argv[1]), number, model, optimizer, {})
    checkpoint.prune(Path(sys.argv[1]), keep={number, number - 1})
"""


@pytest.mark.parametrize("delay", [0.0, 0.03, 0.11, 0.2, 0.37])
def test_a_kill_at_any_moment_leaves_a_whole_one(tmp_path: Path, delay: float) -> None:
    model = nn.Linear(1500, 1500)
    optimizer = torch.optim.AdamW(model.parameters())
    checkpoint.save(tmp_path, 0, model, optimizer, {})
    with subprocess.Popen([sys.executable, "-c", SAVER, str(tmp_path)], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(delay)
        os.kill(child.pid, signal.SIGKILL)
    newest = checkpoint.latest(tmp_path)
    assert newest is not None
    json.loads((newest / "manifest.json").read_text())
    checkpoint.restore(newest, model, optimizer)
