"""What a ladder has come to: a line, a table in Markdown, and a figure."""

from pathlib import Path
from typing import Any

from regard.files import write_bytes
from regard.inspection.figures.bars import bars
from regard.inspection.figures.drawing import Drawing, below
from regard.inspection.figures.svg import svg
from regard.inspection.summary import human
from regard.lab.ladder import RUNGS, Done, Ladder
from regard.training.energy import EVERYDAY, Energy, scaled

HEADER = ("rung", "BLEU", "95 %", "parameters", "steps", "minutes", "energy", "changed")


def describe(done: Done) -> str:
    row = dict(zip(HEADER, cells(done), strict=True))
    effort = f", {row['minutes']} minutes, {row['energy']}" if "minutes" in done else ""
    return f"{row['rung']}: BLEU {row['BLEU']} {row['95 %']}, {row['parameters']} parameters{effort}"


def cells(done: Done) -> list[str]:
    interval = "" if done["low"] is None else f"[{max(0.0, done['low']):.1f}, {done['high']:.1f}]"
    changed = ", ".join(f"`{each}`" if "=" in each else each for each in done["changed"])
    if "minutes" not in done:
        return [done["title"], f"{done['bleu']:.1f}", interval, human(done["parameters"]), "", "", "", changed]
    effort = [f"{done['steps']:,}", f"{done['minutes']:.1f}", f"{scaled(done['joules'] / 3600)}Wh"]
    return [done["title"], f"{done['bleu']:.1f}", interval, human(done["parameters"]), *effort, changed]


def markdown(ladder: Ladder) -> str:
    rows = [HEADER, ["---"] * len(HEADER), *map(cells, ladder.done)]
    lines = ["# The ladder", "", *("| " + " | ".join(row) + " |" for row in rows), ""]
    wanted, trained = ladder.wanted, [done for done in ladder.done if "minutes" in done]
    time = f"{wanted.steps:,} steps" if wanted.steps else f"the steps that {wanted.minutes:g} minutes have at its pace"
    untrained = " and ".join(done["title"] for done in ladder.done if "minutes" not in done)
    lines.append(f"Each rung that trains has had {time}; the seed is {wanted.seed}.")
    lines += [f"Nothing is trained for {untrained}."] if untrained else []
    if trained:
        energy = Energy(sum(done["joules"] for done in trained), trained[-1]["energy"], trained[-1]["how"])
        lines += [f"In all {energy}", f"{energy.beside()}.", "", f"`{ladder.done[-1]['signature']}`"]
    return "\n".join(lines) + "\n"


def drawing(ladder: Ladder) -> Drawing:
    done = ladder.done
    said = ", ".join(f"{each['title']} {each['bleu']:.1f}" for each in done)
    scores = bars([each["title"] for each in done], [each["bleu"] for each in done], title="BLEU", text=said)
    spent: dict[str, Any] = {each["title"]: each["joules"] / 3600 for each in done if "joules" in each}
    names = ("a phone charge", "an hour of a 9 W bulb", "a kettle boiled")
    beside = dict(zip(names, (joules / 3600 for joules in EVERYDAY.values()), strict=True))
    energy = bars([*spent, *beside], [*spent.values(), *beside.values()], title="Watt hours, beside everyday things")
    return below([scores, energy], f"The ladder: {len(done)} of {len(RUNGS)} rungs")


def write_report(ladder: Ladder) -> list[Path]:
    places = {ladder.folder / "ladder.md": markdown(ladder), ladder.folder / "ladder.svg": svg(drawing(ladder))}
    for path, text in places.items():
        write_bytes(path, text.encode("utf-8", "backslashreplace"))
    return list(places)
