"""What the README says is what the code says."""

from pathlib import Path

from regard.cli.main import VERBS
from regard.inspection.families import choices_table

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def test_the_table_of_families_is_the_one_made_from_the_presets() -> None:
    shown = README.partition("<!-- families -->")[2].partition("<!-- /families -->")[0]
    assert shown.strip() == choices_table()


def test_every_verb_has_a_row() -> None:
    assert {verb for verb in VERBS if f"| `regard {verb}` |" not in README} == set()


def test_every_file_of_the_reading_order_exists() -> None:
    source = Path(__file__).parent.parent / "src" / "regard"
    order = README.partition("## Reading order")[2].partition("## More")[0]
    names = [word for word in order.split("`")[1::2] if "/" in word]
    assert len(names) >= 12
    assert [name for name in names if not (source / name).is_file()] == []
