"""Questions come with all their answers, each at its place in the context, or the document is refused."""

import copy
import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.words import Writer
from faults.refusal import refused
from regard.data import squad
from regard.data.corpus import read_rows
from regard.data.squad import Answer, Question, read_squad
from regard.files import MIB

CONTEXT = "Peça «Os Lusíadas» 😀 de Camões, 1572."
DOCUMENT: dict[str, Any] = {
    "version": "v2.0",
    "data": [
        {
            "title": "Camões",
            "paragraphs": [
                {
                    "context": CONTEXT,
                    "qas": [
                        {
                            "id": "q1",
                            "question": "Who wrote it?",
                            "is_impossible": False,
                            "answers": [
                                {"text": "Camões", "answer_start": 24},
                                {"text": "de Camões", "answer_start": 21},
                            ],
                        },
                        {
                            "id": "q2",
                            "question": "Where?",
                            "is_impossible": True,
                            "answers": [],
                            "plausible_answers": [{"text": "1572", "answer_start": 32}],
                        },
                    ],
                }
            ],
        }
    ],
}
ROWS = [
    ("Who wrote it?", CONTEXT, "Camões", "24", "q1", "Camões"),
    ("Where?", CONTEXT, "", "", "q2", "Camões"),
]  # fmt: skip


def changed(**values: Any) -> str:
    """The document with other values in the first question; None takes the key away."""
    return json.dumps(_with(("data", 0, "paragraphs", 0, "qas", 0), values))


def _with(way: tuple[Any, ...], values: dict[str, Any]) -> Any:
    found = whole = copy.deepcopy(DOCUMENT)
    for step in way:
        found = found[step]
    found.update(values)
    for key in [key for key, value in values.items() if value is None]:
        del found[key]
    return whole


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_a_question_is_a_row_with_its_first_answer(write: Writer, name: str) -> None:
    path = write(name, json.dumps(DOCUMENT))
    assert list(read_rows(path)) == ROWS
    assert list(read_rows([path, path])) == ROWS * 2
    assert (
        list(read_rows(write("b" + name, b"\xef\xbb\xbf" + json.dumps(DOCUMENT, ensure_ascii=False).encode()))) == ROWS
    )


def test_all_answers_are_there_to_score_against(write: Writer) -> None:
    first, second = read_squad(write("a.json", json.dumps(DOCUMENT)))
    assert first == Question("Who wrote it?", CONTEXT, (Answer("Camões", 24), Answer("de Camões", 21)), "q1", "Camões")
    assert second.answers == ()


def test_columns_are_picked_by_name_as_in_other_tables(write: Writer) -> None:
    path = write("a.json", json.dumps(DOCUMENT))
    assert list(read_rows(path, columns=["id", "answer"])) == [("q1", "Camões"), ("q2", "")]
    with refused(path, "'answers'", "question, context, answer, start, id, title"):
        list(read_rows(path, columns=["answers"]))


def test_titles_may_lack_and_ids_be_numbers(write: Writer) -> None:
    whole = _with(("data", 0), {"title": None})
    whole["data"][0]["paragraphs"][0]["qas"][0]["id"] = 7
    assert [(found.id, found.title) for found in read_squad(write("a.json", json.dumps(whole)))] == [
        ("7", ""),
        ("q2", ""),
    ]


def test_the_real_file_reads_to_its_end(data_dir: Path) -> None:
    path = data_dir / "squad_v1.1_dev" / "squad-36-articles.json.gz"
    questions = list(read_squad(path))
    assert len(questions) == len({found.id for found in questions}) == 8001
    assert max(len(found.answers) for found in questions) > 3
    for found, row in zip(questions, read_rows(path), strict=True):
        assert row == found.row
        assert row[1][int(row[3]) :].startswith(row[2])


@given(st.text(min_size=1), st.data())
def test_starts_count_characters_whatever_the_text(
    tmp_path_factory: pytest.TempPathFactory, context: str, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(context) - 1))
    text = context[start : data.draw(st.integers(start + 1, len(context)))]
    qas = [{"id": "q", "question": "?", "answers": [{"text": text, "answer_start": start}]}]
    path = tmp_path_factory.mktemp("squad") / "a.json"
    path.write_text(json.dumps({"data": [{"paragraphs": [{"context": context, "qas": qas}]}]}))
    assert list(read_rows(path)) == [("?", context, text, str(start), "q", "")]


# ---- what is wrong is refused, with its place


def test_an_answer_that_is_not_at_its_start_is_refused_with_the_id_and_a_way_out(write: Writer) -> None:
    for start in (25, 23, 24 - len(CONTEXT), 10**9):
        path = write("a.json", changed(answers=[{"text": "Camões", "answer_start": start}]))
        with refused(path, "question 'q1'", "'Camões'", f"answer_start {start}", "first stands at 24"):
            list(read_rows(path))
    with refused("question 'q1'", "'Camoes'", "copy it"):
        list(read_rows(write("a.json", changed(answers=[{"text": "Camoes", "answer_start": 24}]))))
    wrong = [{"text": "Camões", "answer_start": 24}, {"text": "Camões", "answer_start": 0}]
    with refused("question 'q1'", "answer_start 0"):  # the others are golds, and must be right too
        list(read_rows(write("a.json", changed(answers=wrong))))


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        ({"answers": None}, ("question 'q1'", "no 'answers'", "empty where")),
        ({"answers": {"text": ["x"], "answer_start": [0]}}, ("question 'q1'", "'answers' of type dict", "a list")),
        ({"answers": ["Camões"]}, ("question 'q1'", "no 'text'")),
        ({"answers": [{"text": "Camões"}]}, ("question 'q1'", "no 'answer_start'")),
        ({"answers": [{"text": "Camões", "answer_start": "24"}]}, ("question 'q1'", "'answer_start' of type str")),
        ({"answers": [{"text": "e", "answer_start": True}]}, ("question 'q1'", "'answer_start' of type bool")),
        ({"answers": [{"text": "", "answer_start": 0}]}, ("question 'q1'", "empty answer", '"answers": []')),
        ({"is_impossible": True}, ("question 'q1'", "is_impossible")),
        ({"question": None}, ("question 'q1'", "no 'question'")),
        ({"id": None}, ("article 1, paragraph 1, question 1", "no 'id'")),
    ],
)
def test_a_broken_question_is_named(write: Writer, values: dict[str, Any], parts: tuple[str, ...]) -> None:
    path = write("a.json", changed(**values))
    with refused(path, *parts):
        list(read_rows(path))


def test_a_broken_article_or_paragraph_is_named(write: Writer) -> None:
    for whole, parts in (
        ({"data": ["x"]}, ("article 1", "no 'title'")),
        ({"data": [{"title": 1}]}, ("article 1", "'title' of type int")),
        ({"data": [{"paragraphs": {}}]}, ("article 1", "'paragraphs' of type dict")),
        (_with(("data", 0, "paragraphs", 0), {"context": None}), ("article 1, paragraph 1", "no 'context'")),
        (_with(("data", 0, "paragraphs", 0), {"qas": None}), ("article 1, paragraph 1", "no 'qas'")),
    ):
        with refused("a.json", *parts):
            list(read_rows(write("a.json", json.dumps(whole))))


@pytest.mark.parametrize("text", ["{}", "[]", "[1, 2]", '"data"', '{"data": {}}', '{"text": "a"}', "null"])
def test_another_json_document_is_refused_with_what_to_write(write: Writer, text: str) -> None:
    with refused("a.json", "one JSON document", ".jsonl"):
        list(read_rows(write("a.json", text)))


def test_a_broken_document_is_refused(write: Writer, tmp_path: Path) -> None:
    whole = json.dumps(DOCUMENT)
    for text in ("", whole[:-1], whole[: len(whole) // 2], "[" * 100_000, '{"data": [NaN]}', '{"data": 1, "data": []}'):
        with refused("a.json"):
            list(read_rows(write("a.json", text)))
    with refused("a.json", "more than one", ".jsonl"):
        list(read_rows(write("a.json", '{"text": "a"}\n{"text": "b"}\n')))
    with refused("a.json", "byte 3", "0xe7", "UTF-8"):
        list(read_rows(write("a.json", b"ab\xe7")))
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(whole.encode())[:-20])
    with refused("a.json.gz", "gzip", "cut short"):
        list(read_rows(tmp_path / "a.json.gz"))
    for path in (tmp_path, Path("/dev/null"), tmp_path / "nothing.json"):
        with refused(path, "not a file"):
            list(read_squad(path))


@pytest.mark.parametrize("gz", ["", ".gz"])
def test_a_small_document_takes_little_memory_and_an_endless_one_no_more_than_the_limit(
    write: Writer, monkeypatch: pytest.MonkeyPatch, gz: str
) -> None:
    small, endless = write("a.json" + gz, json.dumps(DOCUMENT)), write("b.json" + gz, b" " * (32 * MIB))
    monkeypatch.setattr(squad, "MAX_DOCUMENT", 8 * MIB)
    tracemalloc.start()
    assert len(list(read_rows(small))) == 2
    assert tracemalloc.get_traced_memory()[1] < 4 * MIB
    with refused(endless, f"{8 * MIB:,} bytes", "split"):
        list(read_rows(endless))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 * MIB


@pytest.mark.parametrize("gz", ["", ".gz"])
def test_a_document_that_is_too_large_is_refused(write: Writer, monkeypatch: pytest.MonkeyPatch, gz: str) -> None:
    text = json.dumps(DOCUMENT)
    path = write("a.json" + gz, text)
    monkeypatch.setattr(squad, "MAX_DOCUMENT", len(text))
    assert len(list(read_rows(path))) == 2
    monkeypatch.setattr(squad, "MAX_DOCUMENT", len(text) - 1)
    with refused(path, f"{len(text) - 1:,} bytes", "split"):
        list(read_rows(path))
