"""`regard tokenize`: how a text is split into tokens and why; or a vocabulary learnt from files."""

import json
import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import get_args

import click
from click.core import ParameterSource

from regard.cli.opening import opening
from regard.cli.records import records
from regard.cli.terminal import tell
from regard.errors import UserError
from regard.pretrained.bundled import USUAL, by_name
from regard.text.explain import Explanation, explain, readable
from regard.text.load import load
from regard.text.settings import Settings
from regard.text.tokenizer import Tokenizer
from regard.text.tokenizer_json import load_tokenizer_json
from regard.text.train import Kind, Purpose, TokenizerConfig, train

LEARNING = {"kind": "--kind", "vocab_size": "--vocab-size", "purpose": "--purpose"}
SPLITTING = {"model": "--model", "file": "--tokenizer", "steps": "--explain", "as_json": "--json"}
"Parameters that only one of the two jobs looks at, and how they are typed."
BACKGROUNDS = ("bright_cyan", "bright_yellow")
EXAMPLES = """\b
Examples:
  regard tokenize "Aragorn told Frodo to mind Lothlorien"
  regard tokenize --explain --model path/to/model Lothlorien
  regard tokenize --json --tokenizer tokenizer.json < lines.txt
  regard tokenize --train a.txt b.tsv.gz --kind bpe --vocab-size 8000 \\
                  --out my-tokenizer
"""


@click.command(epilog=EXAMPLES)
@click.argument("texts", metavar="[TEXT]...", nargs=-1)
@click.option("--model", help="A directory, a .gguf file or hf:owner/name; by default an installed one.")
@click.option("--tokenizer", "file", type=click.Path(path_type=Path), help="A tokenizer.json, instead of a model.")
@click.option("--explain", "steps", is_flag=True, help="Show how each word is split, step by step.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a text.")
@click.option("--train", "from_files", is_flag=True, help="Learn a vocabulary from files, named as TEXT.")
@click.option(
    "--kind",
    type=click.Choice(get_args(Kind)),
    default="bpe",
    show_default=True,
    help="For --train: how words are split.",
)
@click.option("--vocab-size", type=int, default=8000, show_default=True, help="For --train: ids at most.")
@click.option(
    "--purpose",
    type=click.Choice(get_args(Purpose)),
    default="translation",
    show_default=True,
    help="For --train: what the model will do, which decides the special tokens.",
)
@click.option("--out", type=click.Path(path_type=Path), help="For --train: the directory to write.")
def command(
    texts: tuple[str, ...],
    model: str | None,
    file: Path | None,
    steps: bool,
    as_json: bool,
    from_files: bool,
    kind: Kind,
    vocab_size: int,
    purpose: Purpose,
    out: Path | None,
) -> None:
    """Split each TEXT into tokens: the tokens, a tab, their ids.

    With no TEXT, or for `-`, reads stdin, one text a line.
    """
    check_given(from_files)
    if from_files != bool(out):
        raise click.UsageError("--train and --out belong together")
    if model and file:
        raise click.UsageError("--model and --tokenizer exclude each other")
    if out:
        learn(texts, TokenizerConfig(kind, vocab_size), purpose, out)
        return
    tokenizer = open_tokenizer(model, file)
    for text in records(texts):
        show(tokenizer, text, steps=steps, as_json=as_json)


def check_given(from_files: bool) -> None:
    """An option that would not be looked at is a mistake of the one who typed it."""
    context = click.get_current_context()
    strange = SPLITTING if from_files else LEARNING
    typed = ParameterSource.COMMANDLINE
    given = [option for name, option in strange.items() if context.get_parameter_source(name) is typed]
    if given:
        raise click.UsageError(f"{given[0]} {'does not go with' if from_files else 'is for'} --train")


def learn(files: tuple[str, ...], config: TokenizerConfig, purpose: Purpose, out: Path) -> None:
    from regard.data.corpus import read_rows

    if (out / "tokenizer.json").exists():
        raise UserError(f"{out} has a tokenizer.json already", "give another directory")
    texts = (text for file in files for row in read_rows(Path(file)) for text in row) if files else records(())
    tokenizer = train(texts, config, purpose=purpose)
    tokenizer.save(out)
    tell(f"{out}: {config.kind}, {tokenizer.vocab_size:,} ids")


def open_tokenizer(model: str | None, file: Path | None) -> Tokenizer:
    if file:
        return load_tokenizer_json(file, Settings(file.parent))
    folder = Path(model or "")
    if model and folder.is_dir() and not (folder / "adapter_config.json").exists():
        return load(folder)  # without the second that torch takes
    with opening(model, "Generator"):
        from regard.weights.store import locate
        from regard.weights.vocabulary import tokenizers_of

        return tokenizers_of(locate(by_name(model or USUAL["Generator"])))[0]


def show(tokenizer: Tokenizer, text: str, *, steps: bool, as_json: bool) -> None:
    encoding = tokenizer.encode(text)
    explanation = explain(tokenizer, text) if steps else None
    if as_json:
        more = explanation.to_dict() if explanation else {}
        click.echo(json.dumps({"text": text, **vars(encoding), **more}, ensure_ascii=False))
        return
    names, ids = [readable(tokenizer, token) for token in encoding.tokens], " ".join(map(str, encoding.ids))
    if sys.stdout is not None and sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        painted = (click.style(name, fg="black", bg=BACKGROUNDS[at % 2]) for at, name in enumerate(names))
        click.echo("".join(painted) + "\n" + ids)
    else:
        click.echo("|".join(names) + "\t" + ids)
    for line in described(explanation, tokenizer) if explanation else ():
        click.echo(line)


def described(explanation: Explanation, tokenizer: Tokenizer) -> Iterator[str]:
    name = partial(readable, tokenizer)
    reason = "merge {:,}" if explanation.algorithm == "BPE" else "{} longer tried"
    for word in explanation.words:
        yield f"\n{name(word.text)}\n  " + " ".join(map(name, word.symbols or word.tokens))
        for step in word.steps:
            done, after = "+".join(map(name, step.parts)), " ".join(map(name, step.symbols))
            yield f"  {reason.format(step.rank):16} {done:20} {after}"
        for split in word.splits:
            scored = (f"{name(piece)} {score:.2f}" for piece, score in zip(split.pieces, split.scores, strict=True))
            yield f"  {split.total:.2f} = {' + '.join(scored)}"
