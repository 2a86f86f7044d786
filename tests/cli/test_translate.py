"""`regard translate` as it is used: from arguments, files and pipes."""

import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from regard.cli.main import cli
from regard.cli.records import lines_in, lines_of
from regard.errors import UserError
from tasks.translators import save, translator

COMMAND = [sys.executable, "-m", "regard", "translate"]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save(tmp_path_factory.mktemp("model")))


def call(*args: str, text: str | None = None, **more: Any) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONUTF8": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "80"}
    return subprocess.run([*COMMAND, *args], input=text, capture_output=True, text=True, timeout=200, env=env, **more)


def here(*args: str, text: str = "") -> list[str]:
    """Without a process of its own; errors come as they are."""
    done = CliRunner().invoke(cli, ["translate", *args], input=text, catch_exceptions=False, standalone_mode=False)
    return done.stdout.split("\n")[:-1]


def many_lines(n: int) -> list[str]:
    words = ["O livro", "está", "em cima da mesa", "A casa", "é grande", "mesa mesa mesa"]
    return ["" if i % 7 == 0 else f"{words[i % 6]} {words[(i // 6) % 6]}" for i in range(n)]


def assert_in_order(done: subprocess.CompletedProcess[str], lines: list[str]) -> None:
    """Of `--n-best 2 --beam 1 --max-new 4`: each line is known by its score."""
    assert done.returncode == 0, done.stderr
    found = [row.split("\t") for row in done.stdout.split("\n")[:-1]]
    assert [row[0] for row in found] == [str(number) for number in range(1, len(lines) + 1)]
    ours = {line: translator()(line, beam=1, max_new=4).score for line in set(lines)}
    assert len({round(score, 2) for score in ours.values()}) > 20
    assert [float(row[1]) for row in found] == pytest.approx([ours[line] for line in lines], abs=2e-3)
    assert {row[2] for row, line in zip(found, lines, strict=True) if line == ""} == {""}


def test_order_is_kept_for_two_thousand_lines_and_empty_ones_stay(directory: str) -> None:
    lines = many_lines(2_000)
    args = ["--model", directory, "--beam", "1", "--max-new", "4", "--n-best", "2"]
    done = call(*args, text="\n".join(lines) + "\n")
    assert_in_order(done, lines)
    assert without_sign(done.stderr) == ""


def without_sign(said: str) -> str:
    """What was said, but for that a busy machine took long to open the model."""
    return "".join(line for line in said.splitlines(keepends=True) if not line.startswith("opening "))


# Not getrusage: its peak is inherited, so a child of this large process would start from that one's size.
MEASURE = """
import re, sys
from regard.cli.main import run
code = run(sys.argv[1:])
print(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1], file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is measured on Linux only")
def test_ten_times_the_lines_take_no_more_memory_and_keep_their_order(directory: str) -> None:
    """What is read ahead is bounded: a hundred thousand lines would need as little."""
    args = ["translate", "--model", directory, "--beam", "1", "--max-new", "4", "--n-best", "2"]
    env, peaks = {**os.environ, "PYTHONUTF8": "1", "OMP_NUM_THREADS": "1"}, []
    for n in (2_000, 20_000):
        lines = many_lines(n)
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, *args],
            input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=200, env=env,
        )  # fmt: skip
        assert_in_order(done, lines)
        peaks.append(int(done.stderr.splitlines()[-1]))
    assert peaks[1] < 1.1 * peaks[0]


def test_json_is_one_object_a_line(directory: str) -> None:
    rows = here("--model", directory, "--json", "--n-best", "3", text="O livro\n\nA casa. A mesa.\n")
    found = [json.loads(row) for row in rows]
    assert [each["source"] for each in found] == ["O livro", "", "A casa. A mesa."]
    ours = translator()("O livro", beam=4, n_best=3)
    assert found[0]["text"] == ours.text
    assert found[0]["score"] == pytest.approx(ours.score, abs=1e-4)
    assert len(found[0]["alternatives"]) == 2
    for each, alternative in zip(found[0]["alternatives"], ours.alternatives, strict=True):
        assert each["log_probability"] == pytest.approx(alternative.log_probability, abs=1e-3)
    assert found[1]["text"] == ""
    assert [piece["source"] for piece in found[2]["pieces"]] == ["A casa.", "A mesa."]


def test_json_holds_the_alignment_and_the_tree_where_asked_for(directory: str) -> None:
    (row,) = here("--model", directory, "--json", "--show", "--tree", "O livro")
    found = json.loads(row)
    assert found["alignment"][0]["source"] == ["O", "livro", "</s>"]
    assert sum(found["alignment"][0]["weights"][0]) == pytest.approx(1, abs=1e-4)
    assert found["tree"]["nodes"][0]["parent"] is None


def test_n_best_shows_number_score_and_text(directory: str) -> None:
    rows = [row.split("\t") for row in here("--model", directory, "--n-best", "2", "O livro", "A casa")]
    assert [row[0] for row in rows] == ["1", "1", "2", "2"]
    assert float(rows[0][1]) >= float(rows[1][1])
    assert rows[0][2] == translator()("O livro").text


def test_layout_is_kept(directory: str) -> None:
    found = here("--model", directory, "--max-new", "3", text="  - O livro. A casa\n\n1. mesa\n")
    assert found[0].startswith("  - ")
    assert found[1] == ""
    assert found[2].startswith("1. ")


def test_a_file_is_read_as_stdin_is(directory: str, tmp_path: Path) -> None:
    path = tmp_path / "a file.txt"
    path.write_bytes("\ufeffO livro\r\nmesa".encode())
    ours = here("--model", directory, "--file", str(path))
    assert ours == here("--model", directory, text="O livro\nmesa\n")
    assert ours == here("--model", directory, "--file", "-", text="O livro\nmesa\n")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such pipes")
def test_a_file_may_be_a_pipe(directory: str, tmp_path: Path) -> None:
    """As in `--file <(zcat texts.gz)`."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen([sys.executable, "-c", f"open({str(pipe)!r}, 'w').write('mesa')"]):
        assert here("--model", directory, "--file", str(pipe)) == here("--model", directory, "mesa")


def test_show_prints_words_across_and_down(directory: str) -> None:
    rows = here("--model", directory, "--show", "--max-new", "4", "O livro")
    assert rows[2].split() == ["O", "livro", "</s>"]
    assert set("".join(rows[3:-2])) & set("░▒▓█")
    assert rows[-2].startswith("mean attention of ")
    assert rows[-2].endswith("; a row sums to 1; from ░ 5% ▒ 25% ▓ 50% █ 75%")


def test_a_tree_is_printed_with_its_reasons(directory: str) -> None:
    search = ["--model", directory, "--max-new", "4", "--beam", "2", "O livro"]
    for option in ("--tree", "--tree-all"):
        shown = "\n".join(here(option, *search))
        assert "(start)" in shown
        assert shown.count("chosen") == 1
        assert ("pruned at rank" in shown) == (option == "--tree-all")
        assert ("never were in the beam are not shown" in shown) == (option == "--tree")


def test_the_lines_of_a_file_are_counted_as_they_are_read(tmp_path: Path) -> None:
    for text in ("", "a", "a\n", "a\n\nb", "a\r\nb\n"):
        (tmp_path / "x").write_bytes(text.encode())
        assert lines_in(tmp_path / "x") == len(list(lines_of(tmp_path / "x")))
    assert lines_in(tmp_path) is None


def test_each_sentence_gets_a_drawing(directory: str, tmp_path: Path) -> None:
    here("--model", directory, "--max-new", "3", "--svg", str(tmp_path / "x.svg"), "O livro. A casa.")
    for name in ("x.svg", "x-2.svg"):
        assert xml.parse(tmp_path / name).getroot().tag.endswith("svg")


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (["--model", "{nowhere}", "mesa"], "there is no model at"),
        (["--model", "{model}", "--file", "{nowhere}"], "there is no file"),
        (["--model", "{model}", "--file", "{model}"], "is a folder"),
        (["--model", "{model}", "--file", "{nowhere}", "mesa"], "both texts and --file"),
        (["--model", "{model}", "--svg", "{nowhere}/x.svg", "mesa"], "cannot be written"),
        (["--model", "{model}", "--svg", "/dev/full", "mesa"], "cannot write /dev/full: No space left"),
        (["--model", "{model}", "--length-penalty", "nan", "mesa"], "length penalty"),
    ],
)
def test_mistakes_are_named(directory: str, tmp_path: Path, args: list[str], error: str) -> None:
    named = [arg.format(model=directory, nowhere=tmp_path / "nowhere") for arg in args]
    with pytest.raises(UserError, match=error):
        here(*named)


@pytest.mark.parametrize("args", [["--beam", "0"], ["--beam", "many"], ["--n-best", "0"], ["--max-new", "-1"]])
def test_senseless_numbers_are_refused_before_any_work(args: list[str]) -> None:
    with pytest.raises(click.UsageError):
        here(*args, "mesa")


def test_a_bad_model_directory_is_exit_code_3(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    done = call("--model", str(tmp_path), "mesa")
    assert (done.returncode, done.stdout) == (3, "")
    assert without_sign(done.stderr).startswith("error: ")
    assert "Traceback" not in done.stderr


def test_a_line_that_is_not_utf8_is_named(directory: str) -> None:
    done = subprocess.run([*COMMAND, "--model", directory], input=b"ok\n\xff\n", capture_output=True, timeout=100)
    assert done.returncode == 3
    assert b"stdin, line 2" in done.stderr


def test_a_reader_that_has_seen_enough_is_no_error(directory: str) -> None:
    with subprocess.Popen(
        [*COMMAND, "--model", directory, "--beam", "1", "--max-new", "2"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert None not in (process.stdin, process.stdout, process.stderr)
        try:
            process.stdin.write(b"mesa\n" * 5_000)
            process.stdin.close()
        except BrokenPipeError:
            pass  # it had already gone
        assert process.stdout.readline()
        process.stdout.close()
        assert without_sign(process.stderr.read().decode()) == ""
        assert process.wait(timeout=100) in (0, 141)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has another Ctrl-C")
def test_ctrl_c_leaves_without_a_traceback(directory: str) -> None:
    with subprocess.Popen(
        [*COMMAND, "--model", directory, "--max-new", "2"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert None not in (process.stdin, process.stdout, process.stderr)
        process.stdin.write(b"mesa\n" * 40)
        process.stdin.flush()
        assert process.stdout.readline()  # it is at work
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
        assert without_sign(process.stderr.read().decode()) == "error: interrupted\n"
