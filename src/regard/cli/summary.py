"""`regard summary`: a model's parts, size, memory and cost."""

import click

from regard.errors import UserError

EXAMPLES = """\b
Examples:
  regard summary gpt2
  regard summary path/to/model
  regard summary model.gguf --json
"""


@click.command(epilog=EXAMPLES)
@click.argument("model")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(model: str, as_json: bool) -> None:
    """Show a model's parameters by part, its memory and its cost per token.

    MODEL is a directory, a .gguf file, hf:owner/name or a preset (`regard list presets`).
    """
    raise UserError("`regard summary` is not ready yet")
