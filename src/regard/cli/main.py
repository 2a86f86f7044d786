"""The command `regard`: a table of verbs, each imported when it is called, and one place for errors.

Results go to stdout, everything else to stderr. Nothing here, and nothing at the top of a verb's file,
may import torch: help and mistakes in the arguments answer at once.
"""

import difflib
import gc
import importlib
import io
import os
import re
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, NoReturn

import click

from regard import __version__
from regard.cli.terminal import discard, tell
from regard.errors import FAILURE, INTERRUPTED, MAX_MESSAGE, OUT_OF_MEMORY, TERMINATED, USAGE, Notice, UserError, cut

BROKEN_PIPE = 141  # what a shell reports for a program that a closed pipe ended
HEADINGS = ("use", "train", "look", "judge", "change")


class Verb(NamedTuple):
    heading: str
    module: str
    help: str


VERBS = {
    "translate": Verb("use", "regard.cli.translate", "Translate sentences, files and pipes."),
    "generate": Verb("use", "regard.cli.generate", "Continue a text or answer a question."),
    "fill": Verb("use", "regard.cli.fill", "Find words for the gaps of a text."),
    "classify": Verb("use", "regard.cli.classify", "Label texts, pairs of texts, or pictures."),
    "tag": Verb("use", "regard.cli.tag", "Find names and mark the words of a text."),
    "answer": Verb("use", "regard.cli.answer", "Answer questions with a piece of a text."),
    "embed": Verb("use", "regard.cli.embed", "Turn sentences into vectors, and search them."),
    "analogy": Verb("use", "regard.cli.analogy", "Add and subtract words, and find those near them."),
    "caption": Verb("use", "regard.cli.caption", "Say what is on a picture."),
    "tokenize": Verb("use", "regard.cli.tokenizing", "Split texts into tokens and show how, or learn to."),
    "get": Verb("train", "regard.cli.get", "Fetch public data or a public model by its name."),
    "train": Verb("train", "regard.cli.train", "Train a model from a recipe, a TOML file or a table."),
    "resume": Verb("train", "regard.cli.resume", "Go on with a run as if it had never stopped."),
    "evaluate": Verb("train", "regard.cli.evaluate", "Score a model on sentences it has not seen."),
    "explain": Verb("look", "regard.cli.explain", "Show every number of an attention, and which head does what."),
    "studio": Verb("look", "regard.cli.studio", "Open the page: translate, write and look inside, live."),
    "summary": Verb("look", "regard.cli.summary", "Show a model's parts, size, memory and cost."),
    "list": Verb("look", "regard.cli.listing", "List what exists: families, presets, recipes, data, models."),
    "verify": Verb("judge", "regard.cli.verifying", "Check every promised equality on your own model."),
    "bench": Verb("judge", "regard.cli.bench", "Measure a model's speed, memory and energy here."),
    "probe": Verb("judge", "regard.cli.probe", "Probe what a model prefers, obeys and cannot do."),
    "race": Verb("judge", "regard.cli.race", "Race RNN, LSTM and Transformer, question by question."),
    "ladder": Verb("judge", "regard.cli.ladder", "Climb from an RNN to a Transformer, one change at a time."),
    "convert": Verb("change", "regard.cli.convert", "Rewrite a checkpoint as a safetensors directory."),
}


class Settings:
    """What the whole command shares, however deep the verb that set it."""

    debug: bool = False


def set_debug(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.find_object(Settings).debug = True  # type: ignore[union-attr]  # run() always passes one


DEBUG = click.Option(
    ["--debug"],
    is_flag=True,
    is_eager=True,  # so that a mistake in a later argument shows its traceback too
    expose_value=False,
    callback=set_debug,
    help="Show the traceback of an error.",
)


class Verbs(click.Group):
    """The verbs by heading; a verb's file is imported only when that verb is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command: click.Command = importlib.import_module(VERBS[cmd_name].module).command
        if DEBUG not in command.params:  # accepted after the verb as well as before it
            command.params.append(DEBUG)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in VERBS:
            near = difflib.get_close_matches(args[0], VERBS, n=1)
            hint = f"did you mean `regard {near[0]}`?" if near else "run `regard --help` to see them all"
            raise UserError(f"unknown command '{args[0]}'", hint, exit_code=USAGE)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading in HEADINGS:
            rows = [(name, verb.help) for name, verb in VERBS.items() if verb.heading == heading]
            if rows:
                with formatter.section(heading.capitalize()):
                    formatter.write_dl(rows)


@click.group(
    cls=Verbs,
    params=[DEBUG],
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="`regard VERB --help` shows a verb's options and examples.",
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """Train, run and look inside Transformers on your own computer."""


class Terminated(KeyboardInterrupt):
    """SIGTERM: leave as after Ctrl-C, so that what is half-written is cleared away."""


def _terminate(number: int, _frame: object) -> NoReturn:
    signal.signal(number, signal.SIG_DFL)  # whoever insists is obeyed at once
    raise Terminated


def main(args: Sequence[str] | None = None) -> None:
    signal.signal(signal.SIGTERM, _terminate)
    code = run(args)
    gc.freeze()  # nothing is left to collect that the end of the process does not free: a third of a second after torch
    sys.exit(code)


def run(args: Sequence[str] | None = None) -> int:
    """Do what `args` say (the process's own by default) and return the exit code."""
    if "_REGARD_COMPLETE" in os.environ:
        cli.main(prog_name="regard")  # the shell asks click for completions
    settings = Settings()
    _soften(sys.stdout)
    code = 0
    try:
        if sys.stdout is None:  # `>&-` closes it
            hint = "send it to a file, a pipe or /dev/null"
            raise UserError("there is nowhere to write the result: standard output is closed", hint, exit_code=FAILURE)
        # Not `cli.main`: click would answer a broken pipe and Ctrl-C in its own way.
        arguments = list(sys.argv[1:] if args is None else args)
        with plain_warnings(), cli.make_context("regard", arguments or ["--help"], obj=settings) as ctx:
            cli.invoke(ctx)
    except (Exception, KeyboardInterrupt) as error:
        if settings.debug and not isinstance(error, click.exceptions.Exit):
            tell("".join(traceback.format_exception(error)).rstrip())
        code = _report(error)
    return _settle(code)


@contextmanager
def plain_warnings() -> Iterator[None]:
    """One line for each, without the place in the code that Python shows beside it."""

    def show(message: Warning | str, *_place: object) -> None:
        tell(f"warning: {cut(' '.join(str(message).splitlines()), MAX_MESSAGE)}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", Notice)
        warnings.showwarning = show  # type: ignore[assignment]  # it needs the first argument alone
        yield


def _report(error: BaseException) -> int:
    """Tell the user and name the exit code."""
    match error:
        case click.exceptions.Exit():
            return error.exit_code
        case UserError():
            return _say(str(error), error.exit_code)
        case click.UsageError():
            return _say(_usage(error), USAGE)
        case click.ClickException():
            return _say(error.format_message(), error.exit_code)
        case Terminated():
            return _say("terminated", TERMINATED)
        case KeyboardInterrupt() | click.Abort() | EOFError():
            return _say("interrupted", INTERRUPTED)
        case BrokenPipeError():  # the reader has seen enough
            return BROKEN_PIPE
        case _ if is_out_of_memory(error):
            return _say(f"out of memory: {_first_line(error)}\n  {SMALLER}", OUT_OF_MEMORY)
        case OSError():  # a full disk, no permission: the machine's trouble, not a bug
            return _say(str(error), FAILURE)
    what = f"{type(error).__name__}: {_first_line(error)}"
    return _say(f"{what} (this is a bug in regard; run again with --debug to see where)", FAILURE)


SMALLER = "try a smaller model, a smaller batch or shorter texts, or close other programs"


def is_out_of_memory(error: BaseException) -> bool:
    """Python's own error or one of torch's, told apart without importing torch."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    text = str(error).lower()
    signs = ("can't allocate memory", "not enough memory", "out of memory")
    return isinstance(error, RuntimeError) and any(sign in text for sign in signs)


def _usage(error: click.UsageError) -> str:
    path = error.ctx.command_path if error.ctx else "regard"
    hint = f"run `{path} --help` to see how it is called"
    message = error.format_message().partition(". Choose from:")[0]  # the name of the argument says them already
    if isinstance(error, click.NoSuchOption):
        message = f"no such option '{error.option_name}'"
        near = error.possibilities or []
        hint = f"did you mean {' or '.join(near)}?" if near else hint
    elif (
        isinstance(error, click.BadParameter) and error.param is not None and isinstance(error.param.type, click.Choice)
    ):
        wrong = re.search("'([^']*)' is not one of", message)
        close = difflib.get_close_matches(wrong[1], map(str, error.param.type.choices), n=1) if wrong else []
        hint = f"did you mean '{close[0]}'?" if close else hint
    return f"{message[:1].lower()}{message[1:].rstrip('.')}\n  {hint}"


def _say(message: str, code: int) -> int:
    tell(f"error: {cut(message, 2 * MAX_MESSAGE)}")  # a UserError has cut both of its parts already
    return code


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or "no message").splitlines()[0]


def _soften(stream: object) -> None:
    """Where the terminal cannot show a letter, show its escape: never a crash."""
    if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
        stream.reconfigure(errors="backslashreplace")


def _settle(code: int) -> int:
    """Hand over what is still buffered: only now may a pipe prove closed or a disk full."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        discard(sys.stdout)
        return code or _report(error)
    return code
