"""`regard generate`: continue a text or answer a question."""

import click

from regard.cli.opening import open_task, opening
from regard.cli.records import records

EXAMPLES = """\b
Examples:
  regard generate "What is the capital of France?"
  regard generate --raw --model path/to/model --max-new 50 "Once upon a time"
"""


@click.command(epilog=EXAMPLES)
@click.argument("prompts", nargs=-1)
@click.option("--model", help="A directory, a .gguf file or hf:owner/name; by default an installed one.")
@click.option("--max-new", type=click.IntRange(min=1), default=100, show_default=True, help="Tokens to add.")
@click.option("--raw", is_flag=True, help="Continue the text as it stands, without the model's chat template.")
def command(prompts: tuple[str, ...], model: str | None, max_new: int, raw: bool) -> None:
    """Answer or continue each prompt, in order, as the words come.

    With no PROMPTS, or for `-`, reads stdin, one prompt a line.
    """
    with opening(model, "Generator"):
        from regard.tasks.generator import Generator

        generate = open_task(model, Generator)
    for prompt in records(prompts):
        for piece in generate.stream(prompt, limit=max_new, raw=raw):
            click.echo(piece, nl=False)
        click.echo()
