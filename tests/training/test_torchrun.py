"""Under torchrun itself: ranks that are killed come back, and two network namespaces are two machines."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from safetensors.torch import load_file

from training.runs import write_recipe
from training.spread import spread, train

STEPS = 120
RUN = {"steps": STEPS, "precision": "fp32", "average": 1, "save_minutes": 0.002}
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
SECONDS = 200


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_recipe(tmp_path, **RUN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # as torchrun gives its ranks: bits depend on it
    return tmp_path


Agent = subprocess.Popen[str]


def launched(options: list[str], kind: str, *, inside: str = "", env: dict[str, str] | None = None) -> Agent:
    command = [
        *TORCHRUN,
        *options,
        "-m",
        "regard",
        "train",
        "tiny.toml",
        "--out",
        "run",
        f"--set=train.parallel={kind}",
    ]
    prefix = ["ip", "netns", "exec", inside] if inside else []
    return subprocess.Popen([*prefix, *command], env=os.environ | (env or {}), stderr=subprocess.PIPE, text=True)


def pid_of(rank: int, home: Path) -> int | None:
    """The process of this rank that works in `home`."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if (place / "cwd").resolve() == home and f"\0RANK={rank}\0" in (place / "environ").read_text():
                return int(place.name)
        except OSError:
            continue
    return None


def until(true: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def newest(home: Path) -> str:
    path = home / "run" / "checkpoints" / "latest"
    return path.read_text() if path.is_file() else ""


def kill(rank: int, home: Path) -> None:
    """With -9, as soon as there is a checkpoint that was not there before."""
    before = newest(home)
    until(lambda: newest(home) > before, "no new checkpoint")
    pid = pid_of(rank, home)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until(lambda: pid_of(rank, home) not in (pid, None), "no new rank")


def ended(*agents: Agent) -> str:
    said = [agent.communicate(timeout=SECONDS)[1] for agent in agents]
    assert [agent.returncode for agent in agents] == [0] * len(agents), said
    return said[0]


def alone(home: Path) -> Path:
    [found] = spread(train, 1, home, home / "alone", RUN)
    assert found["how"] == "finished"
    return home / "alone"


def assert_same_model(one: Path, other: Path) -> None:
    ours, theirs = (load_file(place / "model" / "model.safetensors") for place in (one, other))
    assert all(ours[name].equal(theirs[name]) for name in theirs)


@pytest.mark.slow
def test_a_rank_killed_with_9_comes_back_and_the_run_ends_bit_equal(home: Path) -> None:
    """The first, which holds the store and the folder's lock; without the variable that several machines need."""
    agent = launched(["--standalone", "--nproc-per-node=2", "--max-restarts=3"], "ddp")
    kill(0, home)
    ended(agent)
    assert_same_model(home / "run", alone(home))


@pytest.mark.slow
def test_ctrl_c_at_torchrun_saves_on_all_ranks_and_one_process_goes_on(home: Path) -> None:
    agent = launched(["--standalone", "--nproc-per-node=2"], "fsdp")
    until(lambda: bool(newest(home)), "no checkpoint")
    agent.send_signal(signal.SIGINT)
    said = agent.communicate(timeout=SECONDS)[1]
    assert "saved. Go on with: regard resume run" in said
    assert not (home / "run" / "lock").exists()
    done = subprocess.run([sys.executable, "-m", "regard", "resume", "run"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "note: ranks was 2 and is 1" in done.stderr


@pytest.fixture
def machines() -> Iterator[tuple[str, str]]:
    """Two network namespaces and a cable between them; only root may lay one."""
    names = tuple(f"regard-{os.getpid()}-{side}" for side in "ab")
    cable = [f"rg{os.getpid() % 100000}{side}" for side in "ab"]

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    if shutil.which("ip") is None:
        pytest.skip("two machines need the command `ip`")
    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", cable[0], "type", "veth", "peer", "name", cable[1])
        for number, (name, end) in enumerate(zip(names, cable, strict=True), 1):
            ip("link", "set", end, "netns", name)
            ip("-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", end)
            for device in ("lo", end):
                ip("-n", name, "link", "set", device, "up")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespaces here: {error.stderr.decode().strip()}")
    else:
        yield names[0], names[1]
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)


@pytest.mark.slow
def test_two_machines_train_one_model_also_when_a_rank_is_killed(home: Path, machines: tuple[str, str]) -> None:
    agents = []
    for number, name in enumerate(machines, 1):
        address = f"--local-addr=10.77.0.{number}"
        host = f"--rdzv-conf=is_host={int(number == 1)}"  # its name does not tell: both machines have the same
        meeting = ["--rdzv-backend=c10d", "--rdzv-id=test", "--rdzv-endpoint=10.77.0.1:29400", host]
        cable = f"rg{os.getpid() % 100000}{'ab'[number - 1]}"
        env = {"GLOO_SOCKET_IFNAME": cable, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        options = ["--nnodes=2", "--nproc-per-node=1", "--max-restarts=3", address, *meeting]
        agents.append(launched(options, "ddp", inside=name, env=env))
    kill(1, home)
    ended(*agents)
    assert_same_model(home / "run", alone(home))
