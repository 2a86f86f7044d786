"""`regard generate`: continue a text or answer a question."""

import click

from regard.errors import UserError

EXAMPLES = """\b
Examples:
  regard generate "What is the capital of France?"
  regard generate --model path/to/model --max-new 50 "Once upon a time"
"""


@click.command(epilog=EXAMPLES)
@click.argument("prompts", nargs=-1)
@click.option("--model", help="A directory, a .gguf file or hf:owner/name; by default an installed one.")
@click.option("--max-new", type=click.IntRange(min=1), default=100, show_default=True, help="Tokens to add.")
def command(prompts: tuple[str, ...], model: str | None, max_new: int) -> None:
    """Answer or continue each prompt, in order.

    With no PROMPTS, or for `-`, reads stdin, one prompt a line.
    """
    raise UserError("`regard generate` is not ready yet")
