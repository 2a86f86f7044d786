"""`regard resume`: go on with a run as if it had never stopped."""

from pathlib import Path

import click

from regard.cli.train import run
from regard.errors import UserError

EXAMPLES = """\b
Examples:
  regard resume runs/multi30k
"""


@click.command(epilog=EXAMPLES)
@click.argument("folder", type=click.Path(path_type=Path))
def command(folder: Path) -> None:
    """Go on with the run in FOLDER from its last checkpoint; the result is the same as without the break."""
    from regard.training.run import RUN_FILE, read_run

    if not (folder / RUN_FILE).is_file():
        raise UserError(f"{folder} holds no run", "start one with `regard train RECIPE --out FOLDER`")
    run(read_run(folder / RUN_FILE), folder)
