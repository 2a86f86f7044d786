"""Every claim of the lectures has a command that exists, and the notebook is the one its script writes."""

import importlib
import json
import re
import runpy
import shlex
from pathlib import Path

import pytest

from regard.cli.main import VERBS
from regard.lab.verify import CHECKS
from regard.models.registry import find_preset

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


def test_every_option_exists() -> None:
    for verb, rest in COMMANDS:
        command = importlib.import_module(VERBS[verb].module).command
        known = {name for each in command.params for name in each.opts} | {"--help"}
        asked = {word for word in shlex.split(rest) if re.fullmatch(r"--[a-z-]+", word)}
        assert asked <= known, f"regard {verb}{rest}"


def test_every_preset_and_every_row_of_verify_exists() -> None:
    for verb, rest in COMMANDS:
        if verb == "summary":
            find_preset(rest.strip())
    named = {name for rows in re.findall(r"rows? (\*[^|;]*\*)", PAGE) for name in re.findall(r"\*([^*]+)\*", rows)}
    assert named == {"fused = readable", "causal", "padding left = right = none", "beam 1 = greedy"}
    assert named <= CHECKS.keys()


def test_every_place_on_a_page_exists() -> None:
    for page, place in re.findall(r"\]\(([^)#]*)#([^)]+)\)", PAGE):
        text = (ROOT / "docs" / page).read_text(encoding="utf-8") if page else PAGE
        titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
        assert place in {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


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


def test_every_claim_of_the_notebook_has_a_cell_with_its_number_and_no_other_has() -> None:
    texts = [text for text, _ in runpy.run_path(str(ROOT / "tools" / "lectures.py"))["CELLS"]]
    named = {
        number for text in texts for group in re.findall(r"^\*\*([\d., E]+)\*\*", text) for number in group.split(", ")
    }
    promised = {claim[0] for claim in CLAIMS if "**nb**" in claim[2] + claim[3]}
    assert {number for number in named if not number.startswith("E")} == promised
    assert all(f"| {number} |" in PAGE for number in named)
