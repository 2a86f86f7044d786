"""`regard embed`: sentences in, vectors out."""

import click

from regard.errors import UserError

EXAMPLES = """\b
Examples:
  regard embed "A cat sat on the mat." "A dog lay on the rug."
  regard embed --model path/to/model < sentences.txt > vectors.jsonl
"""


@click.command(epilog=EXAMPLES)
@click.argument("texts", nargs=-1)
@click.option("--model", help="A directory or hf:owner/name; by default an installed one.")
def command(texts: tuple[str, ...], model: str | None) -> None:
    """Turn each text into a vector: one JSON array a line, in order.

    With no TEXTS, or for `-`, reads stdin, one text a line.
    """
    raise UserError("`regard embed` is not ready yet")
