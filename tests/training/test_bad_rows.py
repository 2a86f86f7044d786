"""Rows and settings that cannot be learnt from: named by their place, before the first step, and nothing is left."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.cli.main import run
from regard.data.corpus import Part
from regard.runlog import read_log
from training.toys import tiny_model

GOOD = "".join(f"the film {i} is good,yes\nthe film {i} is bad,no\n" for i in range(20))
TAGGED = "".join(f"the\tO\nred\tB-X\ndog{i}\tI-X\n\n" for i in range(30))
SPEECH = "".join(f"the\tDET\nred\tADJ\ndog{i}\tNOUN\n.\tPUNCT\n\n" for i in range(30))
ANSWERED = "question,context,answer\n" + "".join(f"who?,the dog {i} is red .,red\n" for i in range(20))
Train = Callable[..., int]
Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def inits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An encoder and a decoder to go on from."""
    folder = tmp_path_factory.mktemp("init")
    return {task: tiny_model(folder / task, task) for task in ("classify", "generate")}


@pytest.fixture
def train(tmp_path: Path, inits: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> Train:
    monkeypatch.chdir(tmp_path)

    def start(task: str, name: str, text: str | bytes, *more: str, init: str | None = "classify") -> int:
        (tmp_path / name).write_bytes(text.encode() if isinstance(text, str) else text)
        given = [] if init is None else ["--init", str(inits[init])]
        sets = ["--set", "train.steps=2", "--set", "data.max_len=32"]
        return run(["train", "--task", task, "--data", name, *given, "--out", "run", *sets, *more])

    return start


ROWS: list[tuple[str, str, str | bytes, str]] = [
    ("classify", "a.csv", f"text,label\n{GOOD},yes\nx,\n", "a.csv, line 43: there is no label"),
    ("classify", "a.csv", f"text,label\n{GOOD}alone\n", "a.csv, line 42 has 1 fields"),
    ("classify", "a.csv", b"text,label\ncaf\xe9,yes\n" + GOOD.encode(), "a.csv, line 2: byte 4 (0xe9) is not UTF-8"),
    ("classify", "a.csv", f"text,text,label\nx,{GOOD}", "a.csv has 2 columns called 'text'"),
    ("classify", "a.csv", "text,label\n", "no rows with labels"),
    ("classify", "a.csv", "", "no rows with labels"),
    ("classify", "a.csv", f"text,label\n{GOOD}".replace("\n", "\r"), "its lines end in CR alone"),
    ("classify", "a.csv", "text,label\na,yes\nb,yes\n", "no labels but 'yes'"),
    ("classify", "a.csv", "text,label\n" + "".join(f"film,l{i}\n" for i in range(10_000)), "10,000 different labels"),
    ("classify", "a.txt", "one\ntwo\n", "a.txt, line 1: a row has 1 columns"),
    ("tag", "a.txt", "one\ntwo\n", "a row has 1 columns"),
    ("tag", "a.conll", TAGGED + "a\tPER\n", "line 121 has the tag 'PER' in its last column, and 'B-X' before"),
    ("tag", "a.conll", SPEECH + "a\tB-X\n", "line 151 has the tag 'B-X' in its last column, and 'DET' before"),
    ("tag", "a.conll", TAGGED.replace("B-X", "O").replace("I-X", "O"), "no tags but 'O'"),
    ("tag", "a.csv", "words,tags\nthe dog,O B-\nthe cat,O O\n", "the training data have the tag 'B-'"),
    ("tag", "a.csv", "words,tags\nthe dog,O B-X\nthe cat,O\n", "a.csv, line 3: there are 2 words and 1 tags"),
    ("answer", "a.txt", "one\ntwo\n", "a.txt, line 1: a row has 1 columns"),
    ("answer", "a.csv", ANSWERED + "who?,the dog is red .,blue\n", "a.csv, line 22: the answer 'blue' does not stand"),
]  # fmt: skip


@pytest.mark.parametrize(("task", "name", "text", "message"), ROWS)
def test_rows_that_cannot_be_learnt_are_refused_and_nothing_is_left(
    train: Train, tmp_path: Path, capsys: Captured, task: str, name: str, text: str | bytes, message: str
) -> None:
    more = ("--set", "data.hold_out=0") if "10,000" in message else ()
    assert train(task, name, text, *more) == 3
    said = capsys.readouterr().err
    assert message in said
    assert "bug in regard" not in said
    assert not (tmp_path / "run").exists()


NUMBERS = "text,label\n" + "".join(f"film {i},{i}\n" for i in range(20))


@pytest.mark.parametrize("number", ["nan", "inf", "1e999", "1e300", "two"])
def test_what_is_no_finite_number_is_refused_with_its_line(train: Train, capsys: Captured, number: str) -> None:
    assert train("classify", "a.csv", f"{NUMBERS}x,{number}\n", "--set", "data.numbers=true") == 3
    assert f"a.csv, line 22: '{number}' is not a number that can be learnt" in capsys.readouterr().err


SETTINGS = [
    ("data.hold_out=0.999", "no rows with labels", "data.hold_out"),
    ("data.max_len=2", "a.csv, line 4: of 2 tokens 2 stand around each text", "raise data.max_len"),
    ('data.names={9="nine"}', "renames no label", "their labels are"),
    ('data.names={yes="no"}', "no labels but 'no'", "two are the least"),
    ('data.columns=["text", "text"]', "data.columns names text twice", "name each column once"),
    ("valid.metric=Mathews", "valid.metric is 'Mathews'", "measured are accuracy, F1, Matthews"),
    ('train.freeze=["encoder", "pooler", "heads"]', "leaves nothing that learns", "that of the head"),
    ("model.d_model=64", "[model] makes it [", "leave out of [model]"),
]


@pytest.mark.parametrize(("setting", "message", "hint"), SETTINGS)
def test_settings_that_cannot_be_are_refused_before_the_first_step(
    train: Train, tmp_path: Path, capsys: Captured, setting: str, message: str, hint: str
) -> None:
    assert train("classify", "a.csv", f"text,label\n{GOOD}", "--set", setting) == 3
    said = capsys.readouterr().err
    assert message in said.partition("error:")[2]
    assert hint in said.partition("error:")[2]
    assert "step 1" not in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("setting", ["train.class_weights=balanced", "valid.metric=accuracy"])
def test_a_setting_that_would_do_nothing_for_the_task_is_refused(train: Train, capsys: Captured, setting: str) -> None:
    assert train("tag", "a.conll", TAGGED, "--set", setting) == 3
    assert setting.partition("=")[0] in capsys.readouterr().err.partition("error:")[2]


@pytest.mark.parametrize(
    ("task", "init", "offered"),
    [
        ("tag", "generate", "--init minilm"),
        ("fill", "generate", "--init minilm"),
        ("generate", "classify", "--init smollm2"),
        ("classify", None, "--init minilm"),
        ("generate", None, "--init smollm2"),
    ],
)
def test_a_model_that_cannot_learn_the_task_is_answered_with_one_that_can(
    train: Train, capsys: Captured, task: str, init: str | None, offered: str
) -> None:
    name, text = ("a.conll", TAGGED) if task == "tag" else ("a.csv", f"text,label\n{GOOD}")
    assert train(task, name, text, init=init) == 3
    said = capsys.readouterr().err.partition("error:")[2]
    assert ("nothing says which model" if init is None else f"cannot learn the task '{task}'") in said
    assert offered in said


def test_a_question_of_a_document_has_a_number_and_no_line(train: Train, capsys: Captured) -> None:
    asked = [{"id": str(i), "question": "why " * i, "answers": [{"text": "red", "answer_start": 0}]} for i in (1, 90)]
    text = json.dumps({"data": [{"paragraphs": [{"context": "red dog", "qas": asked}]}]})
    assert train("answer", "a.json", text, "--valid", "a.json") == 3
    assert "a.json, row 2: the model reads 32 tokens at once" in capsys.readouterr().err


def test_a_text_of_which_nothing_can_be_hidden_is_refused_before_the_first_step(
    train: Train, tmp_path: Path, capsys: Captured
) -> None:
    assert train("fill", "a.txt", "the red dog\n" * 40, "--set", "data.max_len=2") == 3
    assert "data.max_len is 2, and 2 tokens stand around each text" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_task_without_rows_is_told_what_is_missing(capsys: Captured) -> None:
    assert run(["train", "--task", "classify", "--init", "minilm", "--out", "run"]) == 2
    assert "--task needs --data" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        b"\xef\xbb\xbf" + f"text,label\n{GOOD}".replace("\n", "\r\n").encode(),
        f"text,label\n{GOOD}a\0b,yes\n\u202ex\u0301,no\n",
        f"text,label\n{GOOD}{'a' * 10**6},yes\n{'word ' * 200_000},no\n",
        "text,label\n" + GOOD.replace("yes", "1.5").replace(",no", ",2"),
    ],
)
def test_odd_texts_are_learnt_from(train: Train, tmp_path: Path, text: str | bytes) -> None:
    """A byte order mark and Windows' line ends, NUL and combining marks, texts of a megabyte, labels like numbers."""
    assert train("classify", "a.csv", text) == 0
    config = json.loads((tmp_path / "run" / "model" / "config.json").read_text())
    assert sorted(config["id2label"].values()) in (["no", "yes"], ["1.5", "2"])


def test_parts_of_speech_are_learnt_and_scored_by_word(train: Train, tmp_path: Path, capsys: Captured) -> None:
    sets = ["--set", "train.steps=40", "--set", "train.lr=0.01", "--set", "train.warmup=0"]
    assert train("tag", "a.conll", SPEECH, *sets) == 0
    last = [event for event in read_log(tmp_path / "run" / "log.jsonl") if event["kind"] == "valid"][-1]
    assert last["accuracy"] > 90
    assert "span-F1" not in last
    capsys.readouterr()
    assert run(["evaluate", "--model", "run/model", "--data", "a.conll", "--json"]) == 0
    (score,) = json.loads(capsys.readouterr().out)["scores"]
    assert (score["name"], score["value"] > 90) == ("accuracy", True)
    assert run(["tag", "--model", "run/model", "--conll", "the red dog1 ."]) == 0
    assert capsys.readouterr().out == "the\tDET\nred\tADJ\ndog1\tNOUN\n.\tPUNCT\n\n"


def test_evaluate_finds_the_columns_that_train_finds_and_names_a_wrong_row(
    train: Train, tmp_path: Path, capsys: Captured
) -> None:
    assert train("classify", "a.csv", f"text,label\n{GOOD}") == 0
    capsys.readouterr()
    assert run(["evaluate", "--model", "run/model", "--data", "a.csv"]) == 0
    shown = capsys.readouterr()
    assert "columns: text, label\n40 rows" in shown.err
    assert "positive:yes" in shown.out
    (tmp_path / "b.csv").write_text(f"text,label\n{GOOD}x,maybe\n")
    assert run(["evaluate", "--model", "run/model", "--data", "b.csv"]) == 3
    assert "b.csv, line 42: the label is 'maybe'" in capsys.readouterr().err


def test_a_dozen_rows_and_a_label_that_is_only_held_out_can_be_learnt_from(train: Train, capsys: Captured) -> None:
    few = "".join(f"the film {i} is {'good,yes' if i % 2 else 'bad,no'}\n" for i in range(12))
    assert train("classify", "a.csv", f"text,label\n{few}") == 0
    assert "note: only 3 rows to validate by" in capsys.readouterr().err
    for number in range(40):  # one of them falls into the rows that are held out
        held = Part((), 0.0, 0.1).holds((text := f"it is film {number}",))
        if held:
            break
    assert held
    assert train("classify", "b.csv", f"text,label\n{GOOD * 20}{text},so so\n", "--out", "other") == 0


def test_rows_of_the_test_set_that_are_trained_on_are_told(train: Train, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "test.csv").write_text("text,label\nthe film 3 is good,yes\nanother,no\n")
    assert train("classify", "a.csv", f"text,label\n{GOOD}", "--test", "test.csv", "--set", "data.hold_out=0") == 0
    said = capsys.readouterr().err
    assert "note: 1 of the 2 rows of test stand in train too" in said
    assert "note: the warm-up takes 200 steps, longer than the run" in said


def test_a_folder_without_a_name_is_no_wish_to_train_here(train: Train, tmp_path: Path, capsys: Captured) -> None:
    assert train("classify", "a.csv", f"text,label\n{GOOD}", "--out", "") == 2
    assert "the name is empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_a_tuned_model_is_evaluated_on_columns_with_usual_names_or_says_so(train: Train, capsys: Captured) -> None:
    assert train("classify", "a.csv", f"text,label\n{GOOD}") == 0
    command = ["evaluate", "--model", "run/model", "--bootstrap", "0", "--data"]
    assert run([*command, "a.csv"]) == 0
    Path("other.csv").write_text(f"remark,verdict\n{GOOD}")
    assert run([*command, "other.csv"]) == 3
    assert "if line 1 names the columns, say which to use: --column" in capsys.readouterr().err
    assert run([*command, "other.csv", "--column", "remark", "--column", "verdict"]) == 0
