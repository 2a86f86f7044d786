"""The report counts what a plain set in memory would count, and takes no more memory for more text."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from data.words import Writer, pairs, tsv
from faults.refusal import refused
from regard.data import report as module
from regard.data.report import report

Pair = tuple[str, str]


def overlap(train: Sequence[Pair], other: Sequence[Pair]) -> tuple[tuple[int, ...], int]:
    """The same counts, the simple way."""
    sides = [{row[i] for row in train} for i in range(2)]
    counts = tuple(sum(row[i] in sides[i] for row in other) for i in range(2))
    return counts, sum(row in set(train) for row in other)


@pytest.mark.parametrize("run", [64, 1_000, 1 << 17])
def test_overlap_is_counted_on_either_side_and_on_both(
    write: Writer, monkeypatch: pytest.MonkeyPatch, run: int
) -> None:
    monkeypatch.setattr(module, "RUN", run)
    train, valid, test = pairs(3_000, longest=3), pairs(500, seed=1, longest=3), pairs(10, seed=2, longest=9)
    found = report(
        write("train.tsv", tsv(train)), {"valid": write("v.tsv", tsv(valid)), "test": write("t.tsv", tsv(test))}
    )
    for name, rows in {"valid": valid, "test": test}.items():
        assert (found.overlaps[name].columns, found.overlaps[name].rows) == overlap(train, rows)
        assert found.overlaps[name].of == len(rows)
    for name, rows in {"train": train, "valid": valid, "test": test}.items():
        assert found.sets[name].duplicates == len(rows) - len(set(rows))
        assert found.sets[name].rows == len(rows)
    assert 0 < found.overlaps["valid"].rows < min(found.overlaps["valid"].columns)


def test_lengths_are_those_of_the_text(write: Writer) -> None:
    texts = [("a" * n, "é" * (2 * n)) for n in (1, 2, 3, 10)] + [("", "x"), (" ", "")]
    random.Random(0).shuffle(texts)
    first, second = report(write("a.tsv", tsv(texts)), {}).sets["train"].columns
    assert (first.empty, first.longest, first.mean, first.median) == (2, 10, 4.0, 2)
    assert (second.empty, second.longest, second.mean, second.median) == (1, 20, 6.6, 4)


def test_holes_are_neither_duplicates_nor_overlap(write: Writer) -> None:
    found = report(write("a.tsv", "\n\na\tb\na\t\n"), {"valid": write("b.tsv", "\n\t\nc\td\n")})
    assert found.sets["train"].duplicates == 0
    assert (found.overlaps["valid"].columns, found.overlaps["valid"].rows) == ((0, 0), 0)


def test_rows_without_a_text_are_named_and_blank_lines_are_not(write: Writer) -> None:
    rows = [("text", "label"), ("good", "yes"), ("", "no"), ("", ""), *[(" ", "no")] * 4]
    found = report(write("a.tsv", tsv(rows)), {}, columns=["text", "label"], n_texts=1)
    assert found.sets["train"].n_holes == 5
    assert [hole.rpartition("/")[2] for hole in found.sets["train"].holes] == [
        "a.tsv, line 3",
        "a.tsv, line 5",
        "a.tsv, line 6",
    ]
    assert "a.tsv, line 6; 2 more" in str(found)


def test_it_reads_as_a_table_and_goes_into_json(write: Writer) -> None:
    found = report(write("a.tsv", "a\tb\na\tb\nc\td\n"), {"test": write("b.tsv", "a\tx\na\tb\n")})
    lines = str(found).splitlines()
    assert lines[0].split() == ["set", "rows", "twice", "column", "empty", "longest", "mean", "median"]
    assert lines[1].split() == ["train", "3", "1", "1", "0", "1", "1.0", "1"]
    assert [line.split() for line in lines[-2:]] == [
        ["in", "train", "too", "column", "1", "column", "2", "whole", "rows"],
        ["test", "2", "(100.0%)", "1", "(50.0%)", "1", "(50.0%)"],
    ]
    assert max(map(len, lines)) <= 80
    data = json.loads(json.dumps(found.to_dict()))
    assert data["overlaps"]["test"]["column_shares"] == [1.0, 0.5]
    assert data["overlaps"]["test"]["row_share"] == 0.5
    assert data["sets"]["train"]["columns"][0]["longest"] == 1


def test_named_columns_and_parallel_files_can_be_reported(write: Writer) -> None:
    table = write("a.csv", "id,en\n1,one\n2,one\n")
    assert report(table, {}, columns=["en"]).sets["train"].duplicates == 1
    files = [write("a.pt", "um\ndois\n"), write("a.en", "one\ntwo\n")]
    assert report(files, {"same": files}).overlaps["same"].rows == 2


def test_empty_sets_are_said_to_be_empty(write: Writer) -> None:
    empty, full = write("a.tsv", ""), write("b.tsv", "a\tb\n")
    assert report(empty, {"valid": full}).sets["train"].rows == 0
    found = report(full, {"valid": empty})
    assert (found.sets["valid"].rows, found.overlaps["valid"].rows) == (0, 0)
    assert "0" in str(found)


def test_sets_of_unlike_columns_are_refused(write: Writer) -> None:
    with refused("train has 2", "valid has 3", "columns"):
        report(write("a.tsv", "a\tb\n"), {"valid": write("b.tsv", "a\tb\tc\n")})


def test_half_characters_are_compared_too(write: Writer) -> None:
    path = write("a.jsonl", '{"x": "\\ud800"}\n{"x": "\\ud800"}\n')
    assert report(path, {}).sets["train"].duplicates == 1


def test_the_real_sets_share_nothing(data_dir: Path) -> None:
    folder = data_dir / "multi30k_de_en"
    sets = {
        name: [folder / f"{name}.{lang}.gz" for lang in ("de", "en")] for name in ("train", "val", "test_2016_flickr")
    }
    found = report(sets.pop("train"), sets)
    assert found.sets["train"].rows == 29_000
    assert [one.rows for one in found.overlaps.values()] == [0, 0]
