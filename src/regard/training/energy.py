"""Energy and grams of CO2 of a run: measured where the machine has a meter, else estimated, and always labelled so."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

RAPL = Path("/sys/class/powercap")
WATTS_PER_CORE = 10.0
"Estimate for a busy core of a laptop or server, with its share of memory and cooling; state it wherever it is used."
GRAMS_PER_KWH = 400.0
"World average of electricity, rounded; a country's own differs by a factor of ten either way."

EVERYDAY = {"phone charges": 15 * 3600.0, "hours of a 9 W bulb": 9 * 3600.0, "kettles boiled": 4186.0 * 80}
"Joules: a battery of 4,000 mAh at 3.8 V; an LED; a litre of water from 20 to 100 degrees, the kettle's own loss aside."


@dataclass(frozen=True)
class Energy:
    joules: float
    kind: Literal["measured", "estimated"]
    how: str
    "The meter, or the assumption."

    @property
    def grams_co2(self) -> float:
        return self.joules / 3.6e6 * GRAMS_PER_KWH

    def beside(self) -> str:
        """Next to everyday things, for whoever has no feeling for watt hours."""
        return "= " + ", ".join(f"{_digits(self.joules / each)} {name}" for name, each in EVERYDAY.items())

    def __str__(self) -> str:
        amount = f"{scaled(self.joules / 3600)}Wh, {scaled(self.grams_co2)}g CO2"
        return f"{amount} ({self.kind}: {self.how}; {GRAMS_PER_KWH:.0f} g/kWh)"


def _digits(value: float) -> str:
    if value < 0.001:
        return "<0.001"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def scaled(value: float) -> str:
    """Three digits and the prefix of a unit: 0.0914 is "91.4 m"."""
    prefix, factor = next(
        (each for each in (("k", 1e3), ("", 1.0)) if value >= 0.9995 * each[1]),
        ("m", 1e-3),  # less is not told apart from nothing by any meter
    )
    number = value / factor
    return f"{number:,.0f} {prefix}" if number >= 99.95 else f"{number:.3g} {prefix}"


class Meter:
    """Counts from the moment it is made. `before` carries the joules of earlier sittings of the same run."""

    def __init__(self, before: float = 0.0) -> None:
        self.before = before
        self.counters = _rapl_counters()
        self.start = {path: value for path in self.counters if (value := _read(path)) is not None}
        self.seen, self.total = dict(self.start), 0.0
        self.cpu_start = time.process_time()

    def read(self) -> Energy:
        if self.start:
            for path, last in self.seen.items():
                now = _read(path)
                if now is not None:
                    span = _read(path.with_name("max_energy_range_uj")) or 0
                    self.total += (now - last if now >= last else now - last + span) / 1e6  # the counter wraps
                    self.seen[path] = now
            return Energy(self.before + self.total, "measured", "RAPL, whole processor package")
        busy = time.process_time() - self.cpu_start  # seconds of all cores together
        return Energy(self.before + busy * WATTS_PER_CORE, "estimated", f"{WATTS_PER_CORE:.0f} W a busy core")


def _rapl_counters() -> list[Path]:
    """Top-level packages only: their sub-zones are counted in them."""
    try:
        return [zone / "energy_uj" for zone in sorted(RAPL.glob("intel-rapl:*")) if zone.name.count(":") == 1]
    except OSError:
        return []


def _read(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
