"""`regard convert`: rewrite a checkpoint as a safetensors directory."""

from pathlib import Path

import click

from regard.errors import UserError

EXAMPLES = """\b
Examples:
  regard convert model.gguf my-model
  regard convert old-model new-model --allow-pickle
"""


@click.command(epilog=EXAMPLES)
@click.argument("src")
@click.argument("dst", type=click.Path(path_type=Path))
@click.option("--allow-pickle", is_flag=True, help="Read .bin files: only from a source you trust.")
@click.option("--overwrite", is_flag=True, help="Replace DST where it exists.")
def command(src: str, dst: Path, allow_pickle: bool, overwrite: bool) -> None:
    """Read the checkpoint SRC and write it as the directory DST.

    SRC is a directory, a .gguf file or hf:owner/name. DST gets config.json, model.safetensors and
    tokenizer.json, as Hugging Face lays them out.
    """
    raise UserError("`regard convert` is not ready yet")
