"""Rows come out of every kind of file as they were written, or the file is refused with its place."""

import csv
import gzip
import io
import json
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.words import Writer
from faults.refusal import refused
from regard.data import corpus
from regard.data.corpus import Source, read_rows

ROWS = [("Olá, mundo!", 'She said "hi".'), ("um dois", "one\u2028two\x00three"), (" ", "汉字 😀")]
QUOTED = io.StringIO()
csv.writer(QUOTED).writerows(ROWS)
CONTENTS = {
    "a.tsv": "\n".join("\t".join(row) for row in ROWS),
    "a.csv": QUOTED.getvalue(),
    "a.jsonl": "\n".join(json.dumps({"pt": row[0], "en": row[1]}) for row in ROWS),
}


def rows_of(source: Source, *columns: str) -> list[tuple[str, ...]]:
    return list(read_rows(source, columns=columns or None))


@pytest.mark.parametrize("gz", ["", ".gz"])
@pytest.mark.parametrize("name", CONTENTS)
def test_a_table_gives_the_rows_that_were_written(write: Writer, name: str, gz: str) -> None:
    assert rows_of(write(name + gz, CONTENTS[name])) == ROWS


@pytest.mark.parametrize("gz", ["", ".gz"])
def test_text_files_are_the_columns_of_one_table(write: Writer, gz: str) -> None:
    paths = [write(f"a.{lang}{gz}", "\n".join(row[i] for row in ROWS) + "\n") for i, lang in enumerate(["pt", "en"])]
    assert rows_of(paths) == ROWS
    assert rows_of(paths[:1]) == rows_of(paths[0]) == [row[:1] for row in ROWS]


def test_tables_given_together_follow_each_other(write: Writer) -> None:
    assert rows_of([write("a.tsv", "a\tb\n"), write("b.csv", "c,d\n")]) == [("a", "b"), ("c", "d")]


@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
def test_named_columns_are_picked_by_the_header_in_the_order_asked_for(write: Writer, name: str) -> None:
    text = "id,en,pt\n1,one,um\n\n2,two,dois\n".replace(",", "\t" if name == "a.tsv" else ",")
    assert rows_of(write(name, text), "pt", "en") == [("um", "one"), ("", ""), ("dois", "two")]


def test_json_values_become_text(write: Writer) -> None:
    path = write("a.jsonl", '{"text": "a", "n": 1, "f": 0.5, "b": true, "no": null, "more": [1]}\n\n')
    assert rows_of(path, "text", "n", "f", "b", "no") == [("a", "1", "0.5", "true", ""), ("", "", "", "", "")]
    with refused(path, "line 1", "'more'", "list"):
        rows_of(path, "more")


def test_only_a_newline_ends_a_line(write: Writer) -> None:
    inside = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\x00h\ri"
    assert rows_of(write("a.txt", inside + "\nnext")) == [(inside,), ("next",)]
    assert rows_of(write("a.tsv", inside + "\tz\n")) == [(inside, "z")]


def test_windows_line_ends_and_a_byte_order_mark_are_taken_off(write: Writer) -> None:
    assert rows_of(write("a.txt", b"\xef\xbb\xbfone\r\n\r\ntwo\r\n")) == [("one",), ("",), ("two",)]
    assert rows_of(write("a.csv", b"\xef\xbb\xbfen,pt\r\none,um\r\n"), "en") == [("one",)]


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl"])
def test_blank_lines_are_rows_of_empty_fields_wherever_they_stand(write: Writer, name: str) -> None:
    full = {"a.tsv": "a\tb", "a.csv": "a,b", "a.jsonl": '{"x": "a", "y": "b"}'}[name]
    assert rows_of(write(name, f"\n\n{full}\n\n{full}\n\n")) == [
        ("", ""), ("", ""), ("a", "b"), ("", ""), ("a", "b"), ("", "")
    ]  # fmt: skip


def test_quotes_belong_to_csv_alone(write: Writer) -> None:
    assert rows_of(write("a.tsv", '"a\tb"\n')) == [('"a', 'b"')]
    assert rows_of(write("a.csv", '"a,\n""x""",b\n')) == [('a,\n"x"', "b")]


@pytest.mark.parametrize("name", ["a.txt", "a.tsv", "a.csv", "a.jsonl", "a.txt.gz"])
def test_an_empty_file_has_no_rows(write: Writer, name: str) -> None:
    assert rows_of(write(name, "")) == []


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r\ufeff"), min_size=1)


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1))
def test_any_text_comes_back(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]) -> None:
    folder = tmp_path_factory.mktemp("rows")
    (folder / "a.tsv").write_bytes("".join(f"{a}\t{b}\n" for a, b in rows).encode())
    with gzip.open(folder / "a.csv.gz", "wt", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    assert rows_of(folder / "a.tsv") == rows_of(folder / "a.csv.gz") == rows


# ---- what is wrong is refused, with its place


def test_bytes_that_are_not_utf8_are_named_by_file_and_line(write: Writer) -> None:
    for name in ("a.txt", "a.tsv.gz", "a.csv", "a.jsonl"):
        path = write(name, b"{}\n{}\nab\xe7\n")
        with refused(path, "line 3", "byte 3", "0xe7", "UTF-8"):
            rows_of(path)


def test_parallel_files_of_unequal_length_are_refused_with_both_counts(write: Writer) -> None:
    paths = [write("a.pt", "1\n2\n3\n"), write("a.en", "1\n2\n3\n4\n5")]
    with refused(f"{paths[0]} 3", f"{paths[1]} 5"):
        rows_of(paths)


def test_rows_of_unequal_width_are_refused_with_their_line(write: Writer) -> None:
    path = write("a.tsv", "a\tb\na\tb\tc\n")
    with refused(path, "line 2", "3 fields", "expected 2"):
        rows_of(path)
    with refused(path, "line 2", "3 fields", "header"):
        rows_of(path, "a")
    with refused("b.tsv", "line 1", "1 fields", "expected 2"):
        rows_of([write("ok.tsv", "a\tb\n"), write("b.tsv", "a\n")])


def test_a_missing_column_is_named_with_those_that_exist(write: Writer) -> None:
    for path in (write("a.csv", "en,pt\n"), write("a.tsv", "en\tpt\n"), write("a.jsonl", '{"en": "", "pt": ""}')):
        with refused(path, "'de'", "en, pt"):
            rows_of(path, "de")
    with refused("'de'", "none"):
        rows_of(write("empty.csv", ""), "de")
    path = write("b.jsonl", '{"en": "a"}\n{"pt": "b"}')
    with refused(path, "line 2", "'en'", "pt"):
        rows_of(path)


def test_a_text_file_has_no_named_columns(write: Writer) -> None:
    with refused("a.txt", "columns"):
        rows_of(write("a.txt", "a"), "en")


@pytest.mark.parametrize("size", [1, 20, 300, 2000])
def test_a_gzip_file_cut_short_is_refused(tmp_path: Path, size: int) -> None:
    whole = gzip.compress("\n".join(str(number**3) for number in range(5000)).encode())
    for name in ("a.txt.gz", "a.tsv.gz", "a.csv.gz"):
        (tmp_path / name).write_bytes(whole[:size])
        with refused(name, "gzip", "cut short"):
            rows_of(tmp_path / name)


def test_a_gzip_file_that_is_none_or_was_changed_is_refused(tmp_path: Path) -> None:
    whole = bytearray(gzip.compress(b"some text\n" * 1000))
    whole[20] ^= 0xFF
    for data in (b"plain text", bytes(whole)):
        (tmp_path / "a.txt.gz").write_bytes(data)
        with refused("a.txt.gz", "gzip"):
            rows_of(tmp_path / "a.txt.gz")


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.tsv.gz", "a.csv.gz", "a.jsonl.gz"])
def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path: Path, name: str) -> None:
    size = 4 * corpus.MAX_LINE
    with gzip.open(tmp_path / name, "wb", 1) if name.endswith(".gz") else (tmp_path / name).open("wb") as file:
        for _ in range(64):
            file.write(b"a" * (size // 64))
    tracemalloc.start()
    with refused(name, "line 1", f"{corpus.MAX_LINE:,} bytes"):
        rows_of(tmp_path / name)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3.5 * corpus.MAX_LINE


def test_a_quote_left_open_does_not_swallow_the_file(write: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    with refused("a.csv", "line", "quote"):
        rows_of(write("a.csv", 'a,b\n"c,d\n' + "e,f\n" * 100_000))
    with refused("b.csv", "quote"):
        rows_of(write("b.csv", 'a,b\n"c,d\n'))
    monkeypatch.setattr(corpus, "MAX_LINE", 1000)
    with refused("c.csv", "does not end", "quote"):  # many short fields, each with a newline
        rows_of(write("c.csv", '"' + 'a\n","' * 1000))


def test_broken_json_is_named_by_its_line(write: Writer) -> None:
    for line in ('{"a": ', "[" * 10_000, '{"a": 1, "a": 2}', '{"a": NaN}', '{"a": ' + "9" * 5000 + "}"):
        with pytest.raises(corpus.UserError, match=r"a\.jsonl, line 2"):
            rows_of(write("a.jsonl", '{"a": "x"}\n' + line))
    with refused("line 1", "list", "object"):
        rows_of(write("a.jsonl", "[1]"))


def test_what_is_no_file_is_refused(write: Writer, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing.txt", Path("/dev/null")):
        with refused(path, "not a file"):
            rows_of(path)
    with refused("no file"):
        rows_of([])
    with refused("a.json", ".jsonl"):
        rows_of(write("a.json", "{}"))
    with refused("a.tsv", "b.txt", "one kind"):
        rows_of([write("a.tsv", ""), write("b.txt", "")])


def test_a_file_is_read_as_it_is_asked_for(tmp_path: Path) -> None:
    with (tmp_path / "a.txt").open("wb") as file:
        for _ in range(10):
            file.write(b"some words\n" * 10_000)
    tracemalloc.start()
    assert sum(1 for _ in read_rows(tmp_path / "a.txt")) == 100_000
    grown = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert grown < 1 << 18


# ---- parquet, where pyarrow is installed


def test_parquet_without_pyarrow_names_what_to_install(write: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with refused("a.parquet", "pyarrow", "pip install pyarrow"):
        rows_of(write("a.parquet", "x"))


@pytest.mark.parametrize("gz", ["", ".gz"])
def test_parquet_gives_the_rows_that_were_written(write: Writer, tmp_path: Path, gz: str) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {"pt": [row[0] for row in ROWS], "n": [1, None, 3], "en": [row[1] for row in ROWS]}
    parquet.write_table(arrow.table(columns), tmp_path / "b", row_group_size=2)
    path = write("a.parquet" + gz, (tmp_path / "b").read_bytes())
    assert rows_of(path, "pt", "en") == ROWS
    assert [row[1] for row in rows_of(path)] == ["1", "", "3"]
    with refused(path, "'de'", "pt, n, en"):
        rows_of(path, "de")


def test_parquet_with_anything_but_plain_values_is_refused(write: Writer, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"x": [b"\x80\x04"], "y": [[1]]}), tmp_path / "a.parquet")
    for name, kind in (("x", "binary"), ("y", "list")):
        with refused("a.parquet", f"'{name}'", kind):
            rows_of(tmp_path / "a.parquet", name)
    whole = (tmp_path / "a.parquet").read_bytes()
    for data in (b"", b"PAR1", whole[: len(whole) // 2], b"x" * 1000):
        with refused("b.parquet", "parquet"):
            rows_of(write("b.parquet", data))
