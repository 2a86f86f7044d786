"""A call into the Rust library that may take minutes and hears no signal, made so that Ctrl-C still leaves at once."""

from collections.abc import Callable, Iterable, Iterator
from queue import Full, Queue
from threading import Event, Thread

SECONDS = 0.2
"Between two looks at the signals: on Windows waiting for a thread hears none."
GRACE = 1.0
"Seconds that a call may take to end by itself once it is not wanted any more."
CHUNK_TEXTS, CHUNK_CHARS = 64, 1 << 16
"What is handed over at once, so that two threads taking turns cost nothing."


class Unwanted(Exception):
    """What the call meets instead of its next text."""


def fed(call: Callable[[Iterator[str]], None], texts: Iterable[str]) -> None:
    """`call(texts)` in a thread of its own, with its errors, while this one reads the texts and hears signals.

    A call that does not end when it is not wanted any more is left behind: only a process can be stopped from
    outside. The thread is a daemon, so it does not keep the program from ending, and as it does not read itself it
    holds no file that Python wants to close.
    """
    chunks: Queue[list[str]] = Queue(2)
    unwanted, ended = Event(), Event()  # not the thread's own join: interrupted, it takes the thread for ended
    failed: list[BaseException] = []

    def given() -> Iterator[str]:
        while chunk := chunks.get():
            if unwanted.is_set():
                raise Unwanted
            yield from chunk

    def work() -> None:
        try:
            call(given())
        except BaseException as error:  # a panic of the library is one too
            failed.append(error)
        finally:
            ended.set()

    Thread(target=work, daemon=True).start()
    try:
        for chunk in _chunks(texts):
            _put(chunk, chunks, ended)
        while not ended.wait(SECONDS):
            pass
    except BaseException:
        unwanted.set()
        if chunks.empty():
            chunks.put(["it waits for this one"])
        ended.wait(GRACE)
        raise
    if failed:
        raise failed[0]


def _chunks(texts: Iterable[str]) -> Iterator[list[str]]:
    """An empty one is the last."""
    chunk: list[str] = []
    n_chars = 0
    for text in texts:
        chunk.append(text)
        n_chars += len(text)
        if len(chunk) == CHUNK_TEXTS or n_chars >= CHUNK_CHARS:
            yield chunk
            chunk, n_chars = [], 0
    yield from ([chunk] if chunk else [])
    yield []


def _put(chunk: list[str], chunks: "Queue[list[str]]", ended: Event) -> None:
    while not ended.is_set():  # a call that has failed takes no more
        try:
            chunks.put(chunk, timeout=SECONDS)
            return
        except Full:
            continue
