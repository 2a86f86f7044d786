"""`regard resume`: go on with a run as if it had never stopped."""

import os
import shlex
from pathlib import Path

import click

from regard.cli.running import run, starting
from regard.cli.train import with_absolute_paths
from regard.errors import UserError

EXAMPLES = """\b
Examples:
  regard resume runs/multi30k
  regard resume runs/mine --set train.save_minutes=2 --set valid.patience=5
"""


@click.command(epilog=EXAMPLES)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Change a key that did not decide the numbers yet."
)
def command(folder: Path, assignments: tuple[str, ...]) -> None:
    """Go on with the run in FOLDER from its last checkpoint; the result is the same as without the break."""
    from regard.training.decided import refuse_decided
    from regard.training.folder import RUN_FILE, read_run
    from regard.training.sources import Sources

    if not (folder / RUN_FILE).is_file():
        raise UserError(f"{folder} holds no run", "start one with `regard train RECIPE --out FOLDER`")
    before = read_run(folder / RUN_FILE)
    config = with_absolute_paths(read_run(folder / RUN_FILE, assignments))
    refuse_decided(before, config)
    if "WORLD_SIZE" not in os.environ:
        Sources(config).check(("train", "valid"))
    typed = ["regard", "resume", str(folder), *(part for each in assignments for part in ("--set", each))]
    with starting(str(folder), folder, again=shlex.join(typed)) as sign:
        run(config, folder, sign, is_new=False)
