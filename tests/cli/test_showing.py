"""What a person sees fits the terminal and cannot steer it."""

import pytest

from regard.cli.showing import bar, flat, percent, shortened


@pytest.mark.parametrize(
    ("share", "drawn"), [(0, ""), (1, "█" * 4), (0.5, "██"), (0.28125, "█▏"), (7, "████"), (-1, "")]
)
def test_a_bar_is_as_long_as_its_share_and_always_as_wide(share: float, drawn: str) -> None:
    assert bar(share, 4) == drawn.ljust(4)


def test_a_share_is_a_percentage() -> None:
    assert [percent(share) for share in (0, 0.0567, 1)] == ["  0.0 %", "  5.7 %", "100.0 %"]


def test_a_text_stays_in_its_field_and_on_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert flat("a\tb\r\nc\n\n") == "a b c "
    monkeypatch.setenv("COLUMNS", "20")
    assert shortened("a\n\x1b[2J") == "a \\x1b[2J"
    assert shortened("x" * 20) == "x" * 20
    assert shortened("x" * 21) == "x" * 19 + "…"
