"""A word that is no word neither stalls the learning of a vocabulary nor changes it, and Ctrl-C is heard throughout."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from faults.refusal import refused
from regard.text.long_words import MAX_WORD
from regard.text.train import Kind, TokenizerConfig, train

KINDS: list[Kind] = ["bpe", "byte-bpe", "unigram", "wordpiece", "word", "char"]
TEXTS = ["the cat sat on the mat, 42 times", "a cat and a mat: the same", "New York is a big city"] * 20


def letters(length: int) -> str:
    return "".join(chr(97 + (i * i + i // 7) % 26) for i in range(length))


@pytest.mark.parametrize("kind", KINDS)
def test_a_word_without_end_is_left_out_and_told(kind: Kind) -> None:
    config = TokenizerConfig(kind, 320)
    told: list[str] = []
    start = time.perf_counter()
    texts = [*TEXTS, f"the cat {letters(200_000)} sat {letters(MAX_WORD + 1)}", letters(1_000_000)]
    if kind == "char":  # where every letter is a word of its own
        train(texts, config, purpose="translation", tell=told.append)
        assert told == []
    else:
        learnt = train(texts, config, purpose="translation", tell=told.append)
        assert told == [f"3 words of more than {MAX_WORD:,} characters left out of the vocabulary"]
        plain = train([*TEXTS, "the cat sat"], config, purpose="translation")
        assert learnt.definition == plain.definition
    assert time.perf_counter() - start < 30  # it took minutes; the machine may be busy


@pytest.mark.parametrize("kind", KINDS)
def test_words_of_a_sane_length_are_learnt_from_however_long_the_text(kind: Kind) -> None:
    told: list[str] = []
    page = "汉字和日本語，" * 400  # no space in 2,800 letters
    texts = [*TEXTS, page, letters(MAX_WORD) if kind != "word" else "the", " ".join(TEXTS)]
    train(texts, TokenizerConfig(kind, 340), purpose="causal", tell=told.append)
    assert told == []


def test_a_library_call_warns_where_nobody_listens() -> None:
    with pytest.warns(UserWarning, match="1 word of more than 1,000 characters"):
        train([*TEXTS, letters(5000)], TokenizerConfig(vocab_size=320), purpose="causal")


def test_nothing_but_such_words_is_no_text() -> None:
    with refused("no text to learn a vocabulary from", "2 words of more than 1,000 characters"):
        train([letters(5000), letters(6000)], TokenizerConfig(vocab_size=320), purpose="causal")


ENDLESS = """
import sys, time
from regard.text.interruptible import fed
def texts():
    yield "a"
    if sys.argv[1] == "reading":
        print("now", flush=True)
        sys.stdin.read()
def call(given):
    list(given)
    print("now", flush=True)
    time.sleep(100)
try: fed(call, texts())
except KeyboardInterrupt: print("left")
"""


@pytest.mark.parametrize("stage", ["reading", "computing"])
def test_ctrl_c_leaves_a_call_that_does_not_end(stage: str) -> None:
    command = [sys.executable, "-c", ENDLESS, stage]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        if stage == "computing":
            assert child.stdin is not None
            child.stdin.close()
        assert child.stdout.readline() == "now\n"
        start = time.perf_counter()
        child.send_signal(signal.SIGINT)
        assert child.wait(20) == 0  # not -6, which is what Python makes of a thread that still holds stdin
        assert time.perf_counter() - start < 10  # a second on a machine that is idle
        assert child.stdout.read() == "left\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_hears_signals_while_it_learns(tmp_path: Path, number: int) -> None:
    pipe = [sys.executable, "-m", "regard", "tokenize", "--train", "--out", str(tmp_path / "out")]
    with subprocess.Popen(pipe, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stderr is not None
        child.stdin.write("a line\n" * 200_000)  # more than a pipe holds: it has begun to read
        child.stdin.flush()
        child.send_signal(number)
        assert child.wait(20) == 128 + number
        assert child.stderr.read() in ("error: interrupted\n", "error: terminated\n")
