"""`regard get` fetches what the catalogue names, whole and checked, or says what went wrong and leaves nothing."""

import hashlib
import logging
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from regard.cli import get
from regard.cli.main import run
from regard.data import catalogue, download
from regard.errors import FAILURE, UserError
from regard.pretrained import bundled
from regard.weights import hub

SOUP = b"soup " * 40_000  # more than one chunk
BREAD = b"bread"
HERE = Path("data") / "kitchen_folder"


class Server(ThreadingHTTPServer):
    """A file server that can misbehave: `how` says in which way."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = {"/soup.txt": SOUP, "/deep/bread.txt": BREAD}
        self.how = ""
        self.asked: list[str] = []
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server, body = self.server, self.server.files.get(self.path)
        server.asked.append(self.path)
        if server.how.startswith("http"):
            self.send_response(302)
            self.send_header("Location", server.how)
            self.end_headers()
        elif body is None or server.how == "broken":
            self.send_error(404 if body is None else 503)
        else:
            self.send_response(200)
            if server.how != "endless":
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if server.how == "stall":
                server.over.wait(60)
            self.wfile.write(body[:7] if server.how == "cut" else body * (2 if server.how == "endless" else 1))

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.over.set()
        made.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def kitchen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder and a catalogue of one data set and one model."""
    path = tmp_path / "catalogue.toml"
    path.write_text(f"""
        [data.kitchen]
        about = "what is on the table"
        licence = "public domain"
        home = "https://kitchen.example"
        revision = "1234"
        address = "https://kitchen.invalid/{{revision}}/"
        folder = "kitchen_folder"
        max_bytes = 300_000
        files = [
            {{ path = "soup.txt", size = {len(SOUP)}, sha256 = "{hashlib.sha256(SOUP).hexdigest()}" }},
            {{ path = "deep/bread.txt" }},
        ]
        [models.cook]
        about = "it cooks"
        licence = "MIT"
        repository = "owner/cook"
        revision = "5678"
    """)
    monkeypatch.setattr(catalogue, "CATALOGUE", path)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


def left(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


# What arrives


def test_the_files_arrive_and_the_folder_is_printed(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["get", "kitchen", "--from", server.url + "/"]) == 0
    assert (HERE / "soup.txt").read_bytes() == SOUP
    assert (HERE / "bread.txt").read_bytes() == BREAD
    assert left(HERE) == ["bread.txt", "soup.txt"]
    said = capsys.readouterr()
    assert said.out == f"{HERE}\n"
    for part in ("public domain", "https://kitchen.example", "commit 1234", "200 kB", "size unknown", server.url):
        assert part in said.err
    assert "soup.txt: 200 kB, sha256 as it should be" in said.err
    digest = hashlib.sha256(BREAD).hexdigest()
    assert "no checksum is known for 1 of them; each has at most 300 kB" in said.err
    assert f"bread.txt: 5 bytes, no checksum is known\n  sha256 {digest}" in said.err


def test_the_files_go_where_they_are_told_to(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["get", "kitchen", "--from", server.url, "--to", "a/b"]) == 0
    assert left(Path("a/b")) == ["bread.txt", "soup.txt"]
    assert capsys.readouterr().out == f"{Path('a/b')}\n"


def test_what_is_there_is_not_fetched_again(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["get", "kitchen", "--from", server.url]) == 0
    capsys.readouterr()
    server.asked.clear()
    assert run(["get", "kitchen"]) == 0  # its home does not exist, and is not asked
    said = capsys.readouterr()
    assert "kitchen is already there" in said.err
    assert "bread.txt is there; no checksum is known" in said.err
    assert said.out == f"{HERE}\n"
    (HERE / "soup.txt").unlink()
    assert run(["get", "kitchen", "--from", server.url]) == 0
    assert server.asked == ["/soup.txt"]


def test_another_file_of_that_name_is_not_replaced(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    HERE.mkdir(parents=True)
    (HERE / "soup.txt").write_text("my own")
    assert run(["get", "kitchen", "--from", server.url]) == 3
    assert "soup.txt is there, but is not the file of that name" in capsys.readouterr().err
    assert (HERE / "soup.txt").read_text() == "my own"
    assert server.asked == []


def test_a_redirect_on_this_computer_is_followed(server: Server) -> None:
    with Server() as second:
        second.how = server.url + "/soup.txt"
        thread = threading.Thread(target=second.handle_request)
        thread.start()
        found = download.fetch(second.url, Path("soup"), limit=len(SOUP), sha256=None, heard=lambda *_: None)
        thread.join()
    assert found == hashlib.sha256(SOUP).hexdigest()


# What goes wrong


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ("broken", 1, "answers 503"),
        ("cut", 1, "broke off after 7 of 200,000 bytes"),
        ("endless", 3, "expected at most 200,000"),
        ("stall", 1, "has been silent for 0.2 seconds"),
        ("http://kitchen.example/soup.txt", 1, "which is not https"),
    ],
)
def test_a_failed_download_says_why_and_leaves_nothing(
    how: str,
    code: int,
    said: str,
    server: Server,
    kitchen: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(download, "SECONDS", 0.2 if how == "stall" else 30.0)
    server.how = how
    assert run(["get", "kitchen", "--from", server.url]) == code
    shown = capsys.readouterr()
    assert said in shown.err
    assert f"127.0.0.1:{server.server_port}" in shown.err
    assert shown.err.splitlines()[-1].startswith("  ")  # what to do
    assert shown.out == ""
    assert left(kitchen) == []


def test_a_wrong_checksum_is_an_error_and_nothing_is_kept(
    server: Server, kitchen: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.files["/soup.txt"] = SOUP.replace(b"soup", b"SOUP")
    assert run(["get", "kitchen", "--from", server.url]) == 3
    assert "is not the file it should be" in capsys.readouterr().err
    assert left(kitchen) == []


def test_a_file_that_is_gone_is_named_and_what_came_before_it_is_kept(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    del server.files["/deep/bread.txt"]
    assert run(["get", "kitchen", "--from", server.url]) == 1
    assert f"answers 404 (Not Found) to {server.url}/deep/bread.txt" in capsys.readouterr().err
    assert left(HERE) == ["soup.txt"]


def test_a_file_larger_than_promised_is_refused_before_it_is_read(server: Server, kitchen: Path) -> None:
    server.files["/soup.txt"] += b"!"
    assert run(["get", "kitchen", "--from", server.url]) == 3
    assert left(kitchen) == []


def test_a_folder_that_cannot_be_written_says_so_and_not_to_put_files_into_it(
    server: Server, kitchen: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (kitchen / "taken").write_text("mine")
    assert run(["get", "kitchen", "--from", server.url, "--to", "taken"]) == 1
    said = capsys.readouterr().err
    assert said.endswith("cannot write to taken: File exists\n  make room, or give another folder with --to\n")
    assert left(kitchen) == ["taken"]


def test_without_network_the_host_is_named(kitchen: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # nobody listens
        port = unused.getsockname()[1]
        assert run(["get", "kitchen", "--from", f"http://127.0.0.1:{port}"]) == 1
    shown = capsys.readouterr().err
    assert f"error: cannot reach 127.0.0.1:{port}: " in shown
    assert "is there a network?" in shown
    assert shown.endswith(f"\n  or put these into {HERE} by hand: soup.txt, bread.txt\n")
    assert left(kitchen) == []


def test_an_unsafe_address_is_refused(kitchen: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["get", "kitchen", "--from", "http://kitchen.example"]) == 2
    assert "only https://" in capsys.readouterr().err
    assert left(kitchen) == []


@pytest.mark.parametrize(
    ("name", "hint"),
    [("kitchn", "did you mean 'kitchen'?"), ("cok", "did you mean 'cook'?"), ("zzz", "regard list data")],
)
def test_an_unknown_name_is_answered_with_a_near_one(name: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["get", name]) == 3
    assert hint in capsys.readouterr().err


# The question


@pytest.mark.parametrize(("args", "answer", "code"), [([], True, 0), ([], False, 1), (["--yes"], None, 0)])
def test_a_person_is_asked_first_unless_they_said_yes(
    args: list[str], answer: bool | None, code: int, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(get, "is_terminal", lambda: True)
    monkeypatch.setattr(get.click, "confirm", lambda *_, **__: asked.append(answer) or answer)
    assert run(["get", "kitchen", "--from", server.url, *args]) == code
    assert asked == ([] if args else [answer])
    assert HERE.exists() == (code == 0)


# Models


def test_a_model_is_fetched_at_its_pinned_revision(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(hub, "fetch", lambda name: asked.append(name) or Path("cache"))
    assert run(["get", "cook"]) == 0
    assert run(["get", "hf:owner/other@main"]) == 0
    assert asked == ["owner/cook@5678", "owner/other@main"]
    said = capsys.readouterr()
    assert said.out == "cache\ncache\n"
    assert "MIT" in said.err
    assert run(["get", "cook", "--to", "here"]) == 2
    assert "regard convert hf:owner/cook@5678 DIR" in capsys.readouterr().err


def test_a_model_without_network_names_the_hub(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: str) -> Path:
        raise UserError("hf:owner/cook could not be fetched: no route", "hint", exit_code=FAILURE)

    monkeypatch.setattr(hub, "fetch", fail)
    assert run(["get", "cook"]) == 1
    assert "is https://huggingface.co reachable?" in capsys.readouterr().err


def test_many_attempts_to_reach_the_hub_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: str) -> Path:
        log = logging.getLogger("huggingface_hub.utils._http")
        for number in range(5):
            log.warning("'no route' thrown while requesting GET https://huggingface.co")
            log.warning(f"Retrying in {number}s [Retry {number}/5].")
        log.warning("Rate limited. Waiting 300s before retry")
        raise UserError("hf:owner/cook could not be fetched: no route", "hint", exit_code=FAILURE)

    monkeypatch.setattr(hub, "fetch", fail)
    assert run(["get", "cook"]) == 1
    assert capsys.readouterr().err.count("trying again") == 1
    assert [record.getMessage()[:12] for record in caplog.records] in ([], ["Rate limited"])  # as the hub's logger says


def test_what_comes_with_regard_is_there_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bundled, "FOLDER", tmp_path)
    (tmp_path / "pt-en").mkdir()
    (tmp_path / "pt-en" / "model.safetensors").touch()
    assert run(["get", "pt-en"]) == 0
    said = capsys.readouterr()
    assert said.out == f"{tmp_path / 'pt-en'}\n"
    assert "nothing is fetched" in said.err


def test_data_is_listed_and_fetched_without_torch(server: Server) -> None:
    script = "import sys\nfrom regard.cli.main import run\nrun(['list', 'data'])\nrun(['list', 'models'])\n"
    script += f"run(['get', 'tinyshakespeare', '--from', '{server.url}'])\nassert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, timeout=60)
