"""`regard tokenize` as it is used: texts in, tokens out; files in, a vocabulary out."""

import io
import json
import sys
from pathlib import Path

import pytest

from regard.cli.main import run
from regard.text.load import load
from regard.text.tokenizer import Tokenizer

LECTURE = "Aragorn told Frodo to mind Lothlorien"
TEXT = f"{LECTURE}\nFrodo told Aragorn\nno mind to do it\n" * 3


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    assert run(["tokenize", "--train", str(folder / "text.txt"), "--vocab-size", "320", "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def tokenizer(directory: Path) -> Tokenizer:
    return load(directory)


def type_in(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


# ---- splitting


@pytest.mark.parametrize("option", ["--model", "--tokenizer"])
def test_a_text_is_shown_as_its_tokens_and_ids(
    directory: Path, tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    place = directory if option == "--model" else directory / "tokenizer.json"
    assert run(["tokenize", option, str(place), "Frodo told it", "mind"]) == 0
    shown = capsys.readouterr()
    first, second = shown.out.splitlines()
    tokens, ids = first.split("\t")
    assert tokens.split("|") == tokenizer.encode("Frodo told it").tokens
    assert [int(id) for id in ids.split()] == tokenizer.encode("Frodo told it").ids
    assert second.startswith("▁mind|</s>\t")
    assert shown.err == ""


def test_stdin_is_read_a_text_a_line(
    directory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    type_in(monkeypatch, b"mind\n\ntold\n")
    assert run(["tokenize", "--model", str(directory)]) == 0
    assert [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()] == [
        "▁mind|</s>",
        "</s>",
        "▁told|</s>",
    ]


@pytest.mark.parametrize("steps", [False, True])
def test_json_is_one_object_a_text(
    directory: Path, tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str], steps: bool
) -> None:
    assert run(["tokenize", "--json", *(["--explain"] if steps else []), "--model", str(directory), LECTURE, "é"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    ours = tokenizer.encode(LECTURE)
    assert (first["text"], first["ids"], first["tokens"]) == (LECTURE, ours.ids, ours.tokens)
    assert [tuple(span) for span in first["offsets"]] == ours.offsets
    assert ("words" in first) is steps
    assert second["tokens"] == ["▁", "<0xC3>", "<0xA9>", "</s>"]


@pytest.mark.parametrize(("no_color", "painted"), [("", True), ("1", False)])
def test_tokens_are_painted_on_a_terminal_unless_no_color_is_set(
    directory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, no_color: str, painted: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert run(["tokenize", "--model", str(directory), "told mind"]) == 0
    shown = capsys.readouterr().out
    if painted:
        assert "\x1b[30m\x1b[106m▁told\x1b[0m\x1b[30m\x1b[103m▁mind\x1b[0m" in shown
    else:
        assert shown.startswith("▁told|▁mind|</s>\t")
    assert ("\x1b" in shown) is painted


def test_merges_are_shown_one_by_one(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tokenize", "--explain", "--model", str(directory), "told"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:4] == ["", "▁told", "  ▁ t o l d"]
    assert all(line.startswith("  merge ") for line in lines[4:])
    assert lines[-1].endswith(" ▁told")


def test_the_other_algorithms_are_shown_too(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind, purpose, sign in (("wordpiece", "masked", "longer tried"), ("unigram", "causal", " = ▁")):
        out, text = str(tmp_path / kind), str(directory / "text.txt")
        assert run(["tokenize", "--train", text, "--kind", kind, "--purpose", purpose, "--out", out]) == 0
        assert run(["tokenize", "--explain", "--model", out, "told"]) == 0
        assert sign in capsys.readouterr().out


def test_what_cannot_be_printed_is_escaped(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tokenize", "--model", str(directory), "\x1b[31m\n"]) == 0
    assert capsys.readouterr().out.count("\n") == 1


# ---- learning


def test_a_learnt_vocabulary_is_saved_and_told_on_stderr(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new"
    text = str(directory / "text.txt")
    assert run(["tokenize", "--train", text, text, "--vocab-size", "300", "--out", str(out)]) == 0
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", f"{out}: bpe, 300 ids\n")
    assert sorted(path.name for path in out.iterdir()) == ["tokenizer.json", "tokenizer_config.json"]


def test_a_vocabulary_is_learnt_from_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    type_in(monkeypatch, TEXT.encode())
    assert run(["tokenize", "--train", "--kind", "char", "--out", str(tmp_path / "new")]) == 0
    assert load(tmp_path / "new").encode("told").tokens == [*"told", "</s>"]


def test_an_older_vocabulary_is_not_replaced(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (directory / "tokenizer.json").read_bytes()
    assert run(["tokenize", "--train", str(directory / "text.txt"), "--out", str(directory)]) == 3
    assert "has a tokenizer.json already" in capsys.readouterr().err
    assert (directory / "tokenizer.json").read_bytes() == before


# ---- mistakes


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["--train", "x.txt"], 2, "--train and --out belong together"),
        (["--out", "x", "text"], 2, "--train and --out belong together"),
        (["--model", "x", "--tokenizer", "y", "text"], 2, "--model and --tokenizer exclude each other"),
        (["--kind", "bp", "text"], 2, "'bp' is not one of"),
        (["--kind", "bpe", "text"], 2, "--kind is for --train"),
        (["--vocab-size", "8000", "text"], 2, "--vocab-size is for --train"),
        (["--purpose", "causal", "text"], 2, "--purpose is for --train"),
        (["--train", "x.txt", "--out", "new", "--explain"], 2, "--explain does not go with --train"),
        (["--train", "x.txt", "--out", "new", "--model", "x"], 2, "--model does not go with --train"),
        (["--train", "x.txt", "--out", "new", "--tokenizer", "x"], 2, "--tokenizer does not go with --train"),
        (["--train", "x.txt", "--out", "new", "--json"], 2, "--json does not go with --train"),
        (["--train", "no-such.txt", "--out", "new"], 3, "no-such.txt is not a file"),
        (["--tokenizer", "no-such.json", "text"], 3, "no-such.json"),
        (["--model", "no-such-model", "text"], 3, "there is no model at"),
    ],
)
def test_mistakes_are_named(
    args: list[str],
    code: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["tokenize", *args]) == code
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_vocabulary_that_is_too_small_says_how_large_it_must_be(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, out = str(directory / "text.txt"), tmp_path / "new"
    assert run(["tokenize", "--train", text, "--vocab-size", "265", "--out", str(out)]) == 3
    assert "give at least 27" in capsys.readouterr().err
    assert not out.exists()


def test_a_model_that_is_installed_splits_without_being_named(
    smollm2_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert smollm2_file.is_file()
    assert run(["tokenize", LECTURE]) == 0
    assert capsys.readouterr().out.startswith("A|rag|orn|▁told|▁Fro|do|▁to|▁mind|▁L|oth|lor|ien\t49 1808")


def test_words_that_were_left_out_are_told_in_one_plain_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.txt").write_text(f"{TEXT}{'ab' * 3000}\n", encoding="utf-8")
    args = ["--train", str(tmp_path / "text.txt"), "--vocab-size", "320", "--out", str(tmp_path / "out")]
    assert run(["tokenize", *args]) == 0
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("warning: 1 word of more than 1,000 characters")
    assert second.startswith(str(tmp_path / "out"))
