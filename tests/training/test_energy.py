"""Joules are measured where there is a meter, else estimated, and the label says which."""

from pathlib import Path

import pytest

from regard.training import energy


def spin() -> None:
    sum(i * i for i in range(400_000))


def test_without_a_meter_it_is_an_estimate_from_cpu_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(energy, "RAPL", tmp_path / "absent")
    meter = energy.Meter(before=5.0)
    spin()
    found = meter.read()
    assert found.kind == "estimated"
    assert found.joules > 5.0
    assert "10 W" in str(found)
    assert "estimated" in str(found)


def test_a_meter_is_read_and_its_wrap_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    zone = tmp_path / "intel-rapl:0"
    zone.mkdir()
    (zone / "energy_uj").write_text("9000000")
    (zone / "max_energy_range_uj").write_text("10000000")
    (tmp_path / "intel-rapl:0:0").mkdir()  # a sub-zone, already in its parent
    monkeypatch.setattr(energy, "RAPL", tmp_path)
    meter = energy.Meter()
    (zone / "energy_uj").write_text("1000000")
    found = meter.read()
    assert found.kind == "measured"
    assert found.joules == pytest.approx(2.0)


def test_grams_are_joules_times_the_stated_intensity() -> None:
    assert energy.Energy(3.6e6, "measured", "x").grams_co2 == pytest.approx(energy.GRAMS_PER_KWH)


@pytest.mark.parametrize(
    ("joules", "said"),
    [
        (0, "0 mWh, 0 mg CO2"),
        (329, "91.4 mWh, 36.6 mg CO2"),
        (3600, "1 Wh, 400 mg CO2"),
        (79_200, "22 Wh, 8.8 g CO2"),
        (3.6e8, "100 kWh, 40 kg CO2"),
    ],
)
def test_units_leave_a_number_to_say(joules: float, said: str) -> None:
    assert str(energy.Energy(joules, "measured", "x")).startswith(f"{said} (measured")


def test_energy_stands_beside_everyday_things() -> None:
    """A phone's 15 Wh are 54 kJ, an hour of 9 W is 32.4 kJ, and a litre is heated by 80 degrees with 334.88 kJ."""
    said = energy.Energy(334_880, "measured", "x").beside()
    assert said == "= 6.2 phone charges, 10 hours of a 9 W bulb, 1 kettles boiled"
    assert energy.Energy(1.0, "measured", "x").beside().startswith("= <0.001 phone charges")
