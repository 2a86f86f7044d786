"""`regard generate`: continue a text or answer a question."""

import json
from collections.abc import Iterator
from contextlib import closing
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli.counting import Count
from regard.cli.opening import open_task, opening, precision_option
from regard.cli.records import column_option, file_option, is_typed, rows
from regard.errors import USAGE, UserError

if TYPE_CHECKING:
    from regard.tasks.generator import Generator, Prompt

EXAMPLES = """\b
Examples:
  regard generate "What is the capital of Japan?"
  regard generate --system "Answer in one word." "What is 2 + 2?"
  regard generate --temperature 0.8 --top-p 0.9 --seed 1 "Tell me a story."
  regard generate --raw --max-new 50 --stop . "Once upon a time"
  regard generate --json < prompts.txt > answers.jsonl
  regard generate --json --file questions.csv --column question
"""


@click.command(epilog=EXAMPLES)
@click.argument("prompts", nargs=-1)
@click.option("--model", help="A directory, a .gguf file or hf:owner/name; by default an installed one.")
@file_option
@column_option
@click.option("--max-new", type=click.IntRange(min=1), default=100, show_default=True, help="Tokens to add.")
@click.option("--stop", multiple=True, metavar="TEXT", help="End before this text; may be given several times.")
@click.option("--temperature", type=click.FloatRange(min=0), help="Draw words: below 1 the likely more often. [1]")
@click.option("--top-k", type=click.IntRange(min=1), help="Draw from so many of the likeliest tokens. [all]")
@click.option(
    "--top-p",
    type=click.FloatRange(0, 1, min_open=True),
    help="Draw from the likeliest that together have this probability. [1]",
)
@click.option("--seed", type=int, help="Another number, other luck. [0]")
@click.option("--system", metavar="TEXT", help="What a chat model is told before every prompt.")
@click.option("--raw", is_flag=True, help="Continue the text as it stands, without the model's chat template.")
@click.option("--lookup", is_flag=True, help="Guess what the text repeats and only check it: sooner where it quotes.")
@precision_option
@click.option(
    "--json", "--jsonl", "as_json", is_flag=True, help="One JSON object a prompt: prompt, text, reason, n_tokens."
)
def command(
    prompts: tuple[str, ...],
    model: str | None,
    path: Path | None,
    column: str | None,
    max_new: int,
    stop: tuple[str, ...],
    temperature: float | None,
    top_k: int | None,
    top_p: float | None,
    seed: int | None,
    system: str | None,
    raw: bool,
    lookup: bool,
    precision: str,
    as_json: bool,
) -> None:
    """Answer or continue each prompt, in order, as the words come.

    Writes the likeliest words; draws them where --temperature, --top-k or --top-p is given. With no PROMPTS, or for
    `-`, reads stdin, one prompt a line.
    """
    luck = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    given: dict[str, Any] = {name: value for name, value in luck.items() if value is not None}
    check(given, stop, system=system, raw=raw, lookup=lookup)
    texts = (text for (text,) in rows(prompts, path, [] if column is None else [column]))
    with opening(model, "Generator"):
        from regard.decoding.sample import SampleSettings
        from regard.tasks.generator import Generator

        sampling = SampleSettings(**given) if given else None
        generate = open_task(model, Generator, precision)
    generate.lookup = lookup
    if system is not None and generate.tokenizer.chat_template is None:
        raise UserError("--system is for chat models, and this one has no chat template", "put it into the prompt")
    wish: dict[str, Any] = {"limit": max_new, "raw": raw, "sampling": sampling, "stop": stop}
    if as_json:
        answer(generate, texts, system, wish, typed=is_typed(prompts, path))
        return
    for number, prompt in enumerate(texts):
        for piece in generate.stream(asked(prompt, system), number=number, **wish):
            click.echo(piece, nl=False)
        click.echo()


def check(given: dict[str, Any], stop: tuple[str, ...], *, system: str | None, raw: bool, lookup: bool) -> None:
    """What can be told before the model is opened."""
    if given.keys() == {"seed"}:
        hint = "add --temperature 0.8, or leave --seed out"
        raise UserError("--seed changes nothing: the likeliest words are written", hint, exit_code=USAGE)
    if given and lookup:
        hint = "leave out one of them: --lookup writes the likeliest words"
        raise UserError(f"both --lookup and --{next(iter(given)).replace('_', '-')} were given", hint, exit_code=USAGE)
    if not all(stop):
        raise UserError("--stop is empty", "give the text before which the answer ends", exit_code=USAGE)
    if raw and system is not None:
        hint = "leave out one of them: --raw continues the text without the template that --system is for"
        raise UserError("both --raw and --system were given", hint, exit_code=USAGE)


def asked(prompt: str, system: str | None) -> "Prompt":
    if system is None:
        return prompt
    return [{"role": "system", "content": system}, {"role": "user", "content": prompt}]


def answer(
    generate: "Generator", prompts: Iterator[str], system: str | None, wish: dict[str, Any], *, typed: bool
) -> None:
    """As JSON; several prompts go through the model at once, unless someone waits for each."""
    done = 0
    with closing(Count("prompts")) as count:
        for some in ([prompt] for prompt in prompts) if typed else [prompts]:
            shown, read = tee(some)
            results = generate.many((asked(prompt, system) for prompt in read), first=done, heard=count.heard, **wish)
            for prompt, found in zip(shown, results, strict=True):
                count.make_room()
                row = {"prompt": prompt, "text": found.text, "reason": found.reason, "n_tokens": len(found.ids)}
                click.echo(json.dumps(row, ensure_ascii=False))
                done += 1
