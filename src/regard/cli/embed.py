"""`regard embed`: sentences in, vectors out."""

import json
from collections.abc import Iterator
from itertools import islice

import click

from regard.cli.opening import open_task, opening
from regard.cli.records import records

CHUNK = 512
"Lines read before the first vector comes out: enough to sort by length, few enough for a pipe."

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
    with opening(model, "Embedder"):
        from regard.tasks.embedder import Embedder

        embed = open_task(model, Embedder)
    for number, chunk in enumerate(chunks(records(texts))):
        for vector in embed(chunk, first=1 + number * CHUNK):
            click.echo(json.dumps([round(float(x), 7) for x in vector]))


def chunks(lines: Iterator[str]) -> Iterator[list[str]]:
    while chunk := list(islice(lines, CHUNK)):
        yield chunk
