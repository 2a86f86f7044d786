"""A studio with tiny models of every task; and the same behind a real socket."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import tokenizers
import torch
from starlette.testclient import TestClient
from tokenizers import Tokenizer as Core

from regard.data.view import View
from regard.lab.race.race import Race
from regard.lab.race.setting import Setting
from regard.lab.race.sheet import Sheet
from regard.models.bert import Bert, BertConfig
from regard.studio.app import Studio, build
from regard.studio.guard import Rules
from regard.studio.models import Entry
from regard.studio.serving import Server, bound
from regard.tasks.answerer import Answerer
from regard.tasks.captioner import Captioner
from regard.tasks.classifier import Classifier
from regard.tasks.embedder import Embedder
from regard.tasks.filler import Filler
from regard.tasks.generator import Generator
from regard.tasks.recogniser import Recogniser
from regard.tasks.sentence_settings import SentenceSettings
from regard.tasks.tagger import Tagger
from regard.tasks.translator import Translator
from regard.text.tokenizer import Tokenizer
from tasks import generators, seers, span_readers, translators

TEXT = "O livro está em cima da mesa."
LABELS = ("good", "bad", "so so")


@cache
def masked_tokenizer() -> Tokenizer:
    core = Core.from_str(span_readers.tokenizer().definition)
    core.add_special_tokens([tokenizers.AddedToken("[MASK]", special=True)])
    return Tokenizer(core, special={**span_readers.SPECIAL, "mask": "[MASK]"})


def reader(head: str, labels: tuple[str, ...] = ()) -> Bert:
    torch.manual_seed(5)
    sizes: dict[str, Any] = {"d_model": 16, "n_heads": 2, "d_ff": 24, "n_layers": 2, "max_len": 64}
    heads: Any = (head,) if head else ()
    config = BertConfig(vocab_size=masked_tokenizer().vocab_size, heads=heads, labels=labels, **sizes)
    made = Bert(config)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return made.eval()


def captioner() -> Captioner:
    model, tokenizer = seers.captioner_parts()
    return Captioner(seers.fresh(model), tokenizer, View((8, 8), 1))


Maker = Callable[[], Any]
TASKS: dict[str, tuple[type, Maker]] = {
    "pt-en": (Translator, translators.translator),
    "writer": (Generator, generators.generator),
    "filler": (Filler, lambda: Filler(reader("masked_lm"), masked_tokenizer())),
    "judge": (Classifier, lambda: Classifier(reader("classify", LABELS), masked_tokenizer())),
    "tagger": (Tagger, span_readers.tagger),
    "answerer": (Answerer, lambda: Answerer(span_readers.model("span"), span_readers.tokenizer())),
    "embedder": (Embedder, lambda: Embedder(reader(""), masked_tokenizer(), SentenceSettings())),
    "seer": (Recogniser, lambda: Recogniser(seers.fresh(seers.vit_model()), View((8, 8), 1))),
    "captioner": (Captioner, captioner),
}


def entry(name: str, made: Any = None) -> Entry:
    kind, make = TASKS[name]
    task = make() if made is None else made
    return Entry(name, lambda device: {kind: lambda: task})


def studio(*names: str, rules: Rules | None = None, runs: Path | None = None, **made: Any) -> Studio:
    entries = [entry(name, made.get(name)) for name in names or TASKS]
    return build(entries, [] if runs is None else [runs], rules)


@contextlib.contextmanager
def client(app: Studio) -> Iterator[TestClient]:
    with TestClient(app, base_url="http://localhost:7860", raise_server_exceptions=False) as found:
        yield found


@contextlib.contextmanager
def served(app: Studio) -> Iterator[int]:
    """The port of a real server on a thread of its own."""
    up = threading.Event()
    listening = bound("127.0.0.1", 0)
    server = Server(app, up.set)
    thread = threading.Thread(target=lambda: server.run(sockets=[listening]), daemon=True)
    thread.start()
    try:
        assert up.wait(60)
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


def until(condition: Callable[[], object], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to be in time"
        time.sleep(0.01)


def events(text: str) -> list[tuple[str, Any]]:
    """Of a stream of server-sent events; lines that only keep it open are left out."""
    found = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "data" in lines:
            found.append((lines.get("event", ""), json.loads(lines["data"]) if lines["data"] != "[DONE]" else None))
    return found


def race_file(path: Path) -> Race:
    """Written as `regard race --json` does; the numbers are made up."""
    lengths, times = (128, 256, 512), {"rnn": [12.5, 23.5, 44.0], "transformer": [6.5, 8.0, float("nan")]}
    deep = {"rnn": [1.0, 2e-20, 3e-64], "rnn x 4": [1.0, 8e9, 4e19], "local": [0.1, 0.0, 0.0]}
    rows = [{"": name, **dict(zip(map(str, lengths), ys, strict=True))} for name, ys in times.items()]
    curves = Sheet("training", "A training step", rows, ["Linear."], frozenset(), lengths, times, "tokens", True)
    faded = Sheet(
        "gradient", "Gradients", [{"": "rnn", "512": 3e-64}], [], frozenset(), lengths, deep, "tokens back", True
    )
    table = Sheet("parallel", "At once", [{"": "rnn", "in series": 513}], ["It <b>waits</b>."])
    race = Race(Setting(seed=7), ["race"], 1.0, [curves, faded, table], seconds=61.5)
    path.write_text(race.json() + "\n", encoding="utf-8")
    return race


def request(path: str, body: bytes, *, head: str = "", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    lines = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n"
    return (lines + head + "\r\n").encode() + body


def raw(port: int, data: bytes, seconds: float = 30) -> bytes:
    """What comes back on a bare connection until the server closes it or is silent."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as line:
        found = b""
        with contextlib.suppress(TimeoutError, ConnectionError):
            line.sendall(data)
            while piece := line.recv(65536):
                found += piece
    return found
