"""The command line answers at once, forgives typing mistakes and says what went wrong."""

import os
import pkgutil
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import click
import pytest

import regard
from regard.cli import main as cli
from regard.errors import UserError

resource = pytest.importorskip("resource", reason="processor time of a child is measured on POSIX only")

VERBS = list(cli.VERBS)


def call(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The real command in a process of its own."""
    command = [sys.executable, "-m", "regard", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **env})


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Gives the command a verb `fail` that raises what it is told to."""

    def add(error: BaseException) -> None:
        def fail() -> None:
            raise error

        module = types.ModuleType("a_failing_verb")
        module.command = click.command(fail)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(cli.VERBS, "fail", cli.Verb("use", module.__name__, "Fails."))

    return add


# Help


def test_help_takes_less_than_150_ms_of_processor_time() -> None:
    def seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert call("--help").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    seconds()  # the first call may have to write bytecode
    assert min(seconds() for _ in range(5)) < 0.150  # the least disturbed one


@pytest.mark.parametrize(
    "args",
    [
        *(["--help"], ["--version"], ["lst"], ["list"], ["list", "recipes"], ["summary"], ["summary", "gpt-nil"]),
        *(["translate", "--model", "nowhere", "x"], ["generate", "--model", "nowhere", "x"], ["verify", "nowhere"]),
        *(
            ["classify", "--model", "nowhere", "x"],
            ["classify", "x"],
            ["fill", "--model", "nowhere", "x"],
            ["fill", "x"],
        ),
        *(["embed", "--model", "nowhere", "x"], ["convert", "nowhere", "new"], ["resume", "nowhere"]),
        *(["train", "nowhere", "--out", "run"], ["train", "multi30k-de-en", "--out", "run"]),
        ["train", "multi30k-de-en", "--out", "run", "--set", "train.stepz=3"],
        *([verb, "--help"] for verb in VERBS),
    ],
    ids=str,
)
def test_torch_is_not_imported_to_help_or_to_refuse(args: list[str], tmp_path: Path) -> None:
    script = f"import sys\nfrom regard.cli.main import run\nrun({args})\nassert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, timeout=60, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_no_file_of_the_command_line_imports_torch() -> None:
    folder = str(Path(cli.__file__).parent)
    names = ", ".join(f"regard.cli.{module.name}" for module in pkgutil.iter_modules([folder]))
    script = f"import sys, {names}\nassert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_help_shows_every_verb_under_its_heading() -> None:
    shown = call("--help").stdout
    for name, verb in cli.VERBS.items():
        assert verb.heading in cli.HEADINGS
        section = shown.split(f"{verb.heading.capitalize()}:\n")[1].split("\n\n")[0]
        assert f"  {name} " in section
        assert verb.help in section


def test_no_arguments_show_the_help() -> None:
    assert call().stdout == call("--help").stdout
    assert call().returncode == 0


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_a_verb_ends_with_examples(verb: str) -> None:
    shown = call(verb, "--help").stdout
    examples = shown.split("Examples:\n")[1].splitlines()
    assert examples
    whole = "\n".join(examples).replace("\\\n", " ").splitlines()  # a long one goes on below
    assert all(line.startswith("    ") and f"regard {verb}" in line for line in whole)


@pytest.mark.parametrize("verb", VERBS)
def test_help_fits_a_terminal_of_80_columns(verb: str) -> None:
    assert max(map(len, call(verb, "--help", COLUMNS="80").stdout.splitlines())) <= 80


def test_a_narrow_terminal_without_colour_still_shows_the_help() -> None:
    shown = call("--help", COLUMNS="20", NO_COLOR="1", TERM="dumb")
    assert shown.returncode == 0
    assert "\x1b" not in shown.stdout
    assert all(name in shown.stdout for name in VERBS)


def test_version_is_the_package_s() -> None:
    assert call("--version").stdout == f"regard {regard.__version__}\n"


# Mistakes


@pytest.mark.parametrize(
    ("args", "message", "hint"),
    [
        (["sumary"], "unknown command 'sumary'", "did you mean `regard summary`?"),
        (["qqq"], "unknown command 'qqq'", "run `regard --help`"),
        (["--verson"], "no such option '--verson'", "did you mean --version?"),
        (["list", "--jsno"], "no such option '--jsno'", "did you mean --json?"),
        (["list", "--qqq"], "no such option '--qqq'", "run `regard list --help`"),
        (["list", "preset"], "'preset' is not one of 'families', 'presets'", "did you mean 'presets'?"),
        (["list", "colours"], "'colours' is not one of 'families', 'presets'", "run `regard list --help`"),
        (["summary"], "missing argument 'MODEL'", "run `regard summary --help`"),
        (["probe"], "missing argument '{bias|injection|limits}'", "run `regard probe --help`"),
        (["summary", "a", "b"], "unexpected extra argument", "run `regard summary --help`"),
    ],
)
def test_a_usage_mistake_is_answered_with_a_hint(args: list[str], message: str, hint: str) -> None:
    done = call(*args)
    assert done.returncode == 2
    assert done.stdout == ""
    first, second = done.stderr.splitlines()
    assert first.startswith("error: ")
    assert message in first
    assert second.startswith("  ")
    assert hint in second


TORCH_CPU = "[enforce fail at alloc_cpu.cpp:125] DefaultCPUAllocator: can't allocate memory: you tried ..."


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (UserError("bad file", "mend it"), 3, "error: bad file\n  mend it\n"),
        (UserError("no such thing", exit_code=2), 2, "error: no such thing\n"),
        (KeyboardInterrupt(), 130, "error: interrupted\n"),
        (click.FileError("a.txt", "it is gone"), 1, "error: Could not open file 'a.txt': it is gone\n"),
        (MemoryError(), 4, "error: out of memory: no message\n  try a smaller model"),
        (RuntimeError(TORCH_CPU), 4, "error: out of memory: [enforce fail"),
        (type("OutOfMemoryError", (RuntimeError,), {})("CUDA is full"), 4, "error: out of memory: CUDA is full"),
        (PermissionError(13, "Permission denied", "a.txt"), 1, "error: [Errno 13] Permission denied: 'a.txt'\n"),
        (KeyError("x"), 1, "error: KeyError: 'x' (this is a bug in regard; run again with --debug to see where)\n"),
        (RuntimeError("a\nb"), 1, "error: RuntimeError: a (this is a bug"),
        (click.exceptions.Exit(1), 1, ""),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_has_its_exit_code_and_no_traceback(
    verb: Callable[[BaseException], None],
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    said: str,
) -> None:
    verb(error)
    assert cli.run(["fail"]) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(said)
    assert "Traceback" not in shown.err


@pytest.mark.parametrize("error", [UserError, click.ClickException, KeyError])
def test_a_message_of_a_file_neither_steers_the_terminal_nor_fills_it(
    verb: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str], error: type[Exception]
) -> None:
    verb(error("the tensor \x1b]0;pwned\x07 " + "x" * 3_000_000))
    cli.run(["fail"])
    shown = capsys.readouterr().err
    assert "\\x1b]0;pwned\\x07" in shown
    assert "\x1b" not in shown
    assert "more characters)" in shown
    assert len(shown) < 10_000


WAITING = """
import sys, time, types, click
from regard.cli import main as cli
module = types.ModuleType("a_waiting_verb")
@click.command
def command():
    try:
        print("ready", flush=True)
        time.sleep(60)
    finally:
        print("cleared away", flush=True)
module.command = command
sys.modules[module.__name__] = module
cli.VERBS["wait"] = cli.Verb("use", module.__name__, "Waits.")
cli.main(["wait"])
"""


@pytest.mark.skipif(os.name != "posix", reason="Windows ends a process without asking it")
def test_a_command_that_is_terminated_clears_away_and_leaves_with_143() -> None:
    command = [sys.executable, "-c", WAITING]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.terminate()
        out, err = child.communicate(timeout=60)
    assert (child.returncode, out, err) == (143, "cleared away\n", "error: terminated\n")


@pytest.mark.parametrize("args", [["--debug", "fail"], ["fail", "--debug"]])
@pytest.mark.parametrize("error", [KeyError("x"), UserError("bad file")])
def test_debug_shows_the_traceback_before_or_after_the_verb(
    verb: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str], error: BaseException, args: list[str]
) -> None:
    verb(error)
    cli.run(args)
    assert "Traceback" in capsys.readouterr().err


def test_debug_of_one_call_is_forgotten_by_the_next(
    verb: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    verb(KeyError("x"))
    cli.run(["--debug", "fail"])
    capsys.readouterr()
    cli.run(["fail"])
    assert "Traceback" not in capsys.readouterr().err


# Where the output goes


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["embed", "--help"]], ids=str)
def test_a_broken_pipe_is_quiet(args: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "regard", *args]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, timeout=60)
    os.close(writer)
    assert done.stderr == b""
    assert done.returncode == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device /dev/full")
def test_a_full_disk_is_an_error_and_not_a_traceback() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "regard", "--help"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == "error: [Errno 28] No space left on device\n"


def test_a_terminal_without_the_letter_gets_its_escape() -> None:
    script = "import click, regard.cli.main as m\nm._soften(m.sys.stdout)\nclick.echo('\\u0394')"
    env = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, env=env, timeout=60, check=True)
    assert done.stdout.strip() == b"\\u0394"


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
def test_a_result_that_nobody_can_get_is_a_failure() -> None:
    command = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "regard", "list", "recipes"]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1
    assert "standard output is closed" in done.stderr
