"""The numbers of docs/race.md and docs/lectures.md: every race on a machine that does nothing else.

    python benchmarks/race.py [--minutes 5]

Times in `regard race` are of the processor; still, let nothing else run meanwhile: caches and clocks are shared.
"""

import argparse
import json
from datetime import date
from pathlib import Path

from harness import RESULTS, machine

from regard.cli.terminal import tell
from regard.lab.race.race import Race, run
from regard.lab.race.racers import Size
from regard.lab.race.setting import Setting

RACES = (["race"], ["rank", "parts", "limits"])
PICTURES = Path(__file__).parent.parent / "docs/pictures"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0, help="of each race")
    minutes = parser.parse_args().minutes
    lines, numbers = [f"# race, {date.today()}", ""], []
    for asked in RACES:
        race = Race(Setting(0, Size(), told=tell), asked, minutes)
        run(race)
        for sheet in race.sheets:
            if (picture := PICTURES / f"race-{sheet.name}.svg").exists():  # the page shows some of them
                sheet.save(picture)
        flags = "".join(f" --{name}" for name in asked if name != "race")
        lines += [f"`regard race{flags} --minutes {minutes:g}`", "", "```", race.text(), "```", ""]
        numbers.append(json.loads(race.json()))
    found = {"machine": machine(()), "races": numbers}
    lines += [
        f"Command: `python benchmarks/race.py --minutes {minutes:g}`",
        "",
        "```json",
        json.dumps(found),
        "```",
        "",
    ]
    path = RESULTS / f"race_{date.today()}.md"
    path.write_text("\n".join(lines), encoding="utf-8")
    tell(f"written to {path}")


if __name__ == "__main__":
    main()
