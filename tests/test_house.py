"""The project's own papers agree with each other."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import regard

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINS = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]


def test_constraints_are_plain_pins_with_torch_first() -> None:
    assert PINS[0].startswith("torch==")
    assert [pin for pin in PINS if not re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", pin)] == []


@pytest.mark.parametrize("group", [None, "spm", "dev"])
def test_every_dependency_is_pinned_inside_its_range(group: str | None) -> None:
    pinned = dict(pin.split("==") for pin in PINS)
    wanted = PROJECT["optional-dependencies"][group] if group else PROJECT["dependencies"]
    for requirement in map(Requirement, wanted):
        name = canonicalize_name(requirement.name)
        assert name == "regard" or pinned[name] in requirement.specifier, requirement


def test_the_readme_has_one_test_command_and_every_pip_call_in_it_is_constrained() -> None:
    blocks = re.findall(r"<!-- test command -->\s*```\w*\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(blocks) == 1
    calls = [line for line in blocks[0].splitlines() if "pip install" in line]
    assert calls
    assert all("-c constraints.txt" in line for line in calls)
    assert "pytest" in blocks[0]


def test_the_check_script_is_sound_bash() -> None:
    subprocess.run(["bash", "-n", str(ROOT / ".ci" / "run")], check=True)


def test_public_names_are_listed_and_unknown_ones_refused() -> None:
    assert set(regard.__all__) <= set(dir(regard))
    with pytest.raises(AttributeError, match="'lod'"):
        regard.lod  # noqa: B018


@pytest.mark.parametrize("name", regard.__all__)
def test_every_public_name_exists(name: str) -> None:
    assert getattr(regard, name)


def test_the_version_is_semantic_and_in_the_changelog_as_next() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", regard.__version__)
    assert "## Unreleased" in (ROOT / "CHANGELOG.md").read_text()
