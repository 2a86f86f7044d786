"""Prepared text is what the tokenizer says, appears whole or not at all, and is made again only when it must be."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from data.words import END, UNKNOWN, Writer, ids_of, make_tokenizer, pairs, prepared, tsv
from faults.refusal import refused
from regard.data import shards as module
from regard.data.examples import TooLong
from regard.data.shards import Shards
from regard.text.load import load
from regard.text.tokenizer import Tokenizer


def lists(shards: Shards) -> list[list[list[int]]]:
    return [[ids.tolist() for ids in shards.row(i)] for i in range(len(shards))]


def test_every_row_is_what_the_tokenizer_says(write: Writer, tokenizer: Tokenizer, tmp_path: Path) -> None:
    rows = pairs(2_500)
    heard: list[int] = []
    shards = prepared(
        write("a.tsv", tsv(rows)), [tokenizer, tokenizer], tmp_path / "out", max_len=50, progress=heard.append
    )
    assert lists(shards) == [[ids_of(source), ids_of(target)] for source, target in rows]
    assert shards.row(-1)[0].tolist() == ids_of(rows[-1][0])
    assert shards.lengths.tolist() == [[len(ids_of(side)) for side in row] for row in rows]
    assert isinstance(shards.lengths, np.memmap)
    assert shards.lengths.dtype == np.int32
    assert heard == [0, 1_000, 2_000, 2_500]
    with pytest.raises(IndexError):
        shards.row(2_500)


def test_gather_gives_any_rows_in_the_order_asked_for(write: Writer, tokenizer: Tokenizer, tmp_path: Path) -> None:
    rows = pairs(500)
    shards = prepared(write("a.tsv", tsv(rows)), [tokenizer, tokenizer], tmp_path / "out", max_len=50)
    wanted = np.array([499, 0, 17, 17, 250])
    for column, (ids, lengths) in enumerate(shards.gather(wanted)):
        theirs = [ids_of(rows[i][column]) for i in wanted]
        assert ids.tolist() == [id for one in theirs for id in one]
        assert lengths.tolist() == [len(one) for one in theirs]


def test_further_columns_are_left_alone(write: Writer, tokenizer: Tokenizer, tmp_path: Path) -> None:
    shards = prepared(write("a.tsv", "w1\tw2\tignored\n"), [tokenizer], tmp_path / "out", max_len=9)
    assert lists(shards) == [[[4, END]]]


def test_where_every_row_is_too_long_the_shortest_length_is_named(
    write: Writer, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    rows = write("a.tsv", "w1 w2 w3\tw1 w2 w3 w4\nw1 w2\tw1 w2 w3\n\t\n")
    with refused("3 rows, 1 empty, 2 too long", "data.max_len is 3", "the shortest row has 4 tokens"):
        prepared(rows, [tokenizer, tokenizer], tmp_path / "out", max_len=3)
    prepared(rows, [tokenizer, tokenizer], tmp_path / "out", max_len=4)
    with refused("is it the right file?"):
        prepared(write("b.tsv", "\t\n"), [tokenizer, tokenizer], tmp_path / "empty", max_len=3)


def test_too_few_columns_are_refused(write: Writer, tokenizer: Tokenizer, tmp_path: Path) -> None:
    with refused("a.txt", "1 columns", "expected 2"):
        prepared(write("a.txt", "w1\n"), [tokenizer, tokenizer], tmp_path / "out", max_len=9)


def test_rows_with_an_empty_side_are_dropped_and_counted(write: Writer, tokenizer: Tokenizer, tmp_path: Path) -> None:
    source = write("a.tsv", "w1\tw2\n\nw1\t\n \tw2\n\t\nw3\tw4\n")
    stats = prepared(source, [tokenizer, tokenizer], tmp_path / "out", max_len=9).stats
    assert (stats.rows, stats.kept, stats.empty, stats.too_long, stats.tokens) == (6, 2, 4, 0, (4, 4))


def test_long_rows_are_dropped_cut_or_refused(write: Writer, tokenizer: Tokenizer, tmp_path: Path) -> None:
    source = write("a.tsv", "w1\tw1\nw1 w2 w3 w4\tw1\nw5\tw5\n")

    def made(policy: TooLong) -> Shards:
        return prepared(source, [tokenizer, tokenizer], tmp_path / policy, max_len=3, too_long=policy)

    assert [row[0] for row in lists(made("drop"))] == [[4, END], [8, END]]
    assert [row[0] for row in lists(made("cut"))] == [[4, END], [4, 5, END], [8, END]]
    assert made("drop").stats.too_long == made("cut").stats.too_long == 1
    with refused("a.tsv, line 2", "5 tokens", "max_len"):
        made("error")
    assert not (tmp_path / "error").exists()


def test_a_text_that_ends_without_a_special_token_is_cut_at_max_len(write: Writer, tmp_path: Path) -> None:
    shards = prepared(write("a", "w1 w2 w3\n"), [make_tokenizer(end=False)], tmp_path / "o", max_len=2, too_long="cut")
    assert lists(shards) == [[[4, 5]]]


def test_ids_take_two_bytes_until_a_vocabulary_needs_four(write: Writer, tokenizer: Tokenizer, tmp_path: Path) -> None:
    source, large = write("a.tsv", "w1\tw2\n"), make_tokenizer(n_extra=70_000)
    prepared(source, [tokenizer, tokenizer], tmp_path / "small", max_len=9)
    shards = prepared(source, [tokenizer, large], tmp_path / "large", max_len=9)
    assert (tmp_path / "small" / "ids.bin").stat().st_size == 8
    assert (tmp_path / "large" / "ids.bin").stat().st_size == 16
    assert lists(shards) == [[[4, END], [5, END]]]


def test_a_set_with_nothing_in_it_is_refused(write: Writer, tokenizer: Tokenizer, tmp_path: Path) -> None:
    for name, text in {"none.tsv": "", "blank.tsv": "\n\n\n", "holes.tsv": "w1\t\n", "long.tsv": "w1 w1\tw1\n"}.items():
        with refused(name):
            prepared(write(name, text), [tokenizer] * (1 if name == "blank.tsv" else 2), tmp_path / "out", max_len=2)
        assert not (tmp_path / "out").exists()


def test_one_row_is_enough(write: Writer, tokenizer: Tokenizer, tmp_path: Path) -> None:
    assert len(prepared(write("a.txt", "w1"), [tokenizer], tmp_path / "out", max_len=2)) == 1


def test_a_text_that_cannot_be_tokenised_is_named_by_its_row(
    write: Writer, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    lines = ['{"text": "w1"}'] * 1500 + ['{"text": "w1 \\ud800"}', '{"text": "w1"}']
    with refused("a.jsonl, line 1501", "surrogate"):
        prepared(write("a.jsonl", "\n".join(lines)), [tokenizer], tmp_path / "out", max_len=9)


# ---- made once


def test_the_same_text_is_not_tokenised_twice(write: Writer, tokenizer: Tokenizer, tmp_path: Path) -> None:
    source = write("a.tsv", tsv(pairs(10)))
    first = prepared(source, [tokenizer, tokenizer], tmp_path / "out", max_len=50)
    made = (tmp_path / "out" / "ids.bin").stat().st_mtime_ns
    elsewhere = write("b.tsv", tsv(pairs(10)))
    tokenizer.save(tmp_path / "tokenizer")
    again = load(tmp_path / "tokenizer")
    second = prepared(elsewhere, [again, again], tmp_path / "out", max_len=50)
    assert first.fingerprint == second.fingerprint
    assert (tmp_path / "out" / "ids.bin").stat().st_mtime_ns == made


def test_every_change_that_matters_changes_the_fingerprint(write: Writer, tokenizer: Tokenizer, tmp_path: Path) -> None:
    text = "w1\tw2\nw3\tw4\n"
    source, both = write("a.tsv", text), [tokenizer, tokenizer]
    found = [prepared(source, both, tmp_path / "out", max_len=9)]
    found.append(prepared(source, both, tmp_path / "out", max_len=8))
    found.append(prepared(source, both, tmp_path / "out", max_len=9, too_long="cut"))
    found.append(prepared(source, [tokenizer, make_tokenizer(n_extra=1)], tmp_path / "out", max_len=9))
    found.append(prepared(source, both, tmp_path / "out", max_len=9, columns=["w2", "w1"]))
    found.append(prepared(write("a.tsv", text + "w5\tw6\n"), both, tmp_path / "out", max_len=9))
    assert len({one.fingerprint for one in found}) == len(found)
    assert lists(Shards(tmp_path / "out"))[-1] == [[8, END], [9, END]]
    assert lists(found[0]) == [[[4, END], [5, END]], [[6, END], [7, END]]], "an open reader keeps what it opened"


@pytest.mark.parametrize("harm", ["cut", "gone", "version", "meta"])
def test_a_damaged_folder_is_refused_and_made_again(
    write: Writer, tokenizer: Tokenizer, tmp_path: Path, harm: str
) -> None:
    source, out = write("a.tsv", tsv(pairs(10))), tmp_path / "out"
    whole = lists(prepared(source, [tokenizer, tokenizer], out, max_len=50))
    meta = json.loads((out / "meta.json").read_text())
    if harm == "cut":
        (out / "ids.bin").write_bytes((out / "ids.bin").read_bytes()[:-2])
    if harm == "gone":
        (out / "index.bin").unlink()
    if harm == "version":
        (out / "meta.json").write_text(json.dumps(meta | {"version": 99}))
    if harm == "meta":
        (out / "meta.json").write_text("{")
    with refused(out):
        Shards(out)
    assert lists(prepared(source, [tokenizer, tokenizer], out, max_len=50)) == whole


@pytest.mark.parametrize(
    ("name", "place", "value"), [("ids", 6, 60_000), ("index", 8, 2), ("index", 9, 60_000), ("index", 11, 0x8000)]
)
def test_an_id_or_a_length_that_cannot_be_is_named_by_its_row(
    write: Writer, tokenizer: Tokenizer, tmp_path: Path, name: str, place: int, value: int
) -> None:
    prepared(write("a.tsv", "w1\tw2\nw3\tw4\n"), [tokenizer, tokenizer], tmp_path / "out", max_len=9)
    words = np.fromfile(tmp_path / "out" / f"{name}.bin", dtype=np.uint16)
    words[place] += value
    words.tofile(tmp_path / "out" / f"{name}.bin")
    shards = Shards(tmp_path / "out")
    shards.gather(np.array([0]))
    with refused("row 1", tmp_path / "out", "damaged"):
        shards.gather(np.array([0, 1]))


def test_an_unknown_word_is_no_hole(write: Writer, tokenizer: Tokenizer, tmp_path: Path) -> None:
    assert lists(prepared(write("a.txt", "nie"), [tokenizer], tmp_path / "out", max_len=9)) == [[[UNKNOWN, END]]]


# ---- whole or not at all


def test_a_folder_that_is_not_ours_is_left_alone(write: Writer, tokenizer: Tokenizer, tmp_path: Path) -> None:
    source = write("a.tsv", "w1\tw2\n")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").write_text("dear")
    (tmp_path / "file").write_text("dear")
    (tmp_path / "empty").mkdir()
    for name in ("home", "file"):
        with refused(name, "no prepared text"):
            prepared(source, [tokenizer, tokenizer], tmp_path / name, max_len=9)
    assert (tmp_path / "home" / "letter.txt").read_text() == "dear"
    assert len(prepared(source, [tokenizer, tokenizer], tmp_path / "empty", max_len=9)) == 1


def test_a_failure_midway_leaves_what_was_there(write: Writer, tokenizer: Tokenizer, tmp_path: Path) -> None:
    good = prepared(write("a.tsv", "w1\tw2\n"), [tokenizer, tokenizer], tmp_path / "out", max_len=9)
    bad = write("a.tsv", tsv(pairs(3_000)).encode() + b"\xff\n")
    with refused("line 3001"):
        prepared(bad, [tokenizer, tokenizer], tmp_path / "out", max_len=50)
    assert Shards(tmp_path / "out").fingerprint == good.fingerprint
    assert {path.name for path in tmp_path.iterdir()} == {"a.tsv", "out"}


CHILD = """
import sys
from pathlib import Path
from data.words import make_tokenizer, prepared
from regard.errors import UserError

if len(sys.argv) > 3:
    import resource, signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    both = [make_tokenizer()] * 2
    prepared(Path(sys.argv[1]), both, Path(sys.argv[2]), max_len=50, progress=lambda n: print(n, flush=True))
except UserError as error:
    sys.exit(str(error))
"""


def child(*arguments: Path | str) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)}
    command = [sys.executable, "-c", CHILD, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def test_killed_at_any_moment_it_leaves_nothing_or_everything(
    write: Writer, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pairs(20_000)
    source, out = write("a.tsv", tsv(rows)), tmp_path / "out"
    for lines in (1, 10, 20):
        process = child(source, out)
        assert process.stdout is not None
        for _ in range(lines):
            process.stdout.readline()
        process.kill()
        process.communicate(timeout=60)
        assert not out.exists() or len(Shards(out)) == len(rows)
        shutil.rmtree(out, ignore_errors=True)
    monkeypatch.setattr(module, "STALE_SECONDS", 0)
    time.sleep(0.01)
    assert len(prepared(source, [tokenizer, tokenizer], out, max_len=50)) == len(rows)
    assert {path.name for path in tmp_path.iterdir()} == {"a.tsv", "out"}, "what was left is swept away"


def test_a_full_disk_is_said_and_leaves_nothing(write: Writer, tmp_path: Path) -> None:
    pytest.importorskip("resource", reason="file sizes are limited on POSIX only")
    source = write("a.tsv", tsv(pairs(20_000)))
    process = child(source, tmp_path / "out", "limited")
    _, error = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"cannot write {tmp_path / 'out'}" in error
    assert "Traceback" not in error
    assert {path.name for path in tmp_path.iterdir()} == {"a.tsv"}
