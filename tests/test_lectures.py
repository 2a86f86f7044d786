"""Every claim of the lectures has a command that exists, and the notebook is the one its script writes."""

import json
import re
import runpy
from pathlib import Path

import pytest

from regard.cli.main import VERBS

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "lectures.md").read_text(encoding="utf-8")
CLAIMS = re.findall(r"^\| (\d\.\d+) \| (.*?) \| (.*?) \| (.*?) ?\|$", PAGE, re.MULTILINE)
COMMANDS = re.findall(r"`regard ([a-z]+)([^`]*)`", PAGE)


def test_the_five_lectures_are_all_there() -> None:
    numbers = [claim[0] for claim in CLAIMS]
    assert numbers == sorted(numbers, key=lambda number: [int(part) for part in number.split(".")])
    assert {number[0] for number in numbers} == set("01234")
    assert len(CLAIMS) == len(set(numbers)) >= 100


@pytest.mark.parametrize("claim", CLAIMS, ids=[claim[0] for claim in CLAIMS])
def test_every_claim_has_a_command_or_a_cell(claim: tuple[str, ...]) -> None:
    assert "`regard " in claim[2] or "**nb**" in claim[2]


def test_every_command_exists() -> None:
    assert {verb for verb, _ in COMMANDS} <= VERBS.keys()


def test_every_recipe_exists() -> None:
    named = {rest.split()[0] for verb, rest in COMMANDS if verb == "train" and rest.strip()} - {"--task"}
    shipped = {path.stem for path in (ROOT / "src" / "regard" / "recipes").glob("*.toml")}
    assert named <= shipped


def test_every_page_that_is_named_exists() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", PAGE) if not link.startswith("http")]
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []


def test_the_notebook_holds_the_cells_of_its_script() -> None:
    cells = runpy.run_path(str(ROOT / "tools" / "lectures.py"))["CELLS"]
    book = json.loads((ROOT / "examples" / "lectures.ipynb").read_text(encoding="utf-8"))
    sources = ["".join(cell["source"]) for cell in book["cells"]]
    assert sources == [part for cell in cells for part in cell]
    code = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] for cell in code[1:])  # the first imports
