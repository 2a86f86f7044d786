"""`regard bench`: a card with a model's speed, memory and energy, and all that they depend on."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli.counting import Count
from regard.cli.opening import check_name, find_model, precision_option
from regard.cli.waiting import waiting
from regard.config import to_dict
from regard.files import expanded, write_json

if TYPE_CHECKING:
    from regard.lab.card import Card, Speed

EXAMPLES = """\b
Examples:
  regard bench smollm2
  regard bench path/to/model --batch 8 --precision int8 --out card.json
  regard bench path/to/model --batch 8 --precision int8 --against card.json
"""


@click.command(epilog=EXAMPLES)
@click.argument("model")
@precision_option
@click.option("--batch", type=click.IntRange(min=1), default=1, show_default=True, help="Texts at once.")
@click.option("--length", type=click.IntRange(min=1), default=64, show_default=True, help="Tokens read of each text.")
@click.option("--new", type=click.IntRange(min=2), default=64, show_default=True, help="Tokens written to each.")
@click.option("--threads", type=click.IntRange(min=1), help="By default as many as torch takes by itself.")
@click.option("--rounds", type=click.IntRange(min=1), default=7, show_default=True, help="The same work so many times.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the card here, for --against.")
@click.option("--against", type=click.Path(path_type=Path), help="Compare with an earlier card of the same settings.")
def command(model: str, as_json: bool, out: Path | None, against: Path | None, **wanted: Any) -> None:
    """Measure how fast MODEL reads and writes here.

    MODEL is a directory, a .gguf file, hf:owner/name, or a name such as smollm2. Texts are random and have no end, so
    that every round does the same work. With --against, cards that differ in precision, threads, batch, lengths or
    machine are refused with exit code 3.
    """
    check_name(model)
    from regard.lab.card import compare, read_card, refuse_unlike

    earlier = None if against is None else read_card(expanded(against))
    with waiting(f"opening {model}"):
        from regard.lab.bench import Bench, Wanted

        bench = Bench(find_model(model), model, Wanted(**wanted))
    if earlier is not None:
        refuse_unlike(earlier, bench.settings, bench.computer)
    count = Count("rounds", bench.settings.rounds)
    with waiting(f"measuring {model}"):
        card = bench.run(count.heard)
    count.close()
    ratios = None if earlier is None else compare(earlier, card)
    said = json.dumps(to_dict(card) | ({} if ratios is None else {"against": ratios})) if as_json else describe(card)
    click.echo(said)
    if earlier is not None and ratios is not None and not as_json:
        click.echo(line("against", f"{earlier.model}, {earlier.date}, regard {earlier.versions.get('regard', '?')}"))
        click.echo(line("", ", ".join(f"{name.replace('_', ' ')} {value:.2f}x" for name, value in ratios.items())))
    if out is not None:
        write_json(expanded(out), to_dict(card))


def describe(card: "Card") -> str:
    from regard.inspection.summary import human
    from regard.training.energy import WATTS_PER_CORE

    given, computer = card.settings, card.computer
    rows = [f"{card.model}: {given.task}, layout {card.layout}, {human(card.parameters)} parameters", ""]
    lengths = f"{given.length} tokens read" + (f" and {given.new} written" if given.new else "")
    rows.append(line("settings", f"{given.precision}, threads {given.threads}, batch {given.batch}, {lengths}"))
    rows.append(line("", f"median of {given.rounds} rounds, and the middle half of them"))
    rows.append(line("reading", speed(card.read)))
    if card.write is not None:
        rows.append(line("writing", speed(card.write)))
    if card.first_token_seconds is not None:
        middle, low, high = (f"{1000 * each:,.1f}" for each in vars(card.first_token_seconds).values())
        rows.append(line("first token", f"{middle} ms ({low} to {high})"))
    if card.peak_bytes is not None and card.above_import_bytes is not None:
        peak, above = human(card.peak_bytes, "B"), human(card.above_import_bytes, "B")
        rows.append(line("memory", f"{peak} at most, {above} of it since the libraries were imported"))
    if card.joules_per_token is not None:  # cards of earlier versions have none where there was no meter
        how = card.energy if card.energy == "measured" else f"estimated, {WATTS_PER_CORE:.0f} W a busy core"
        rows.append(line("energy", f"{1000 * card.joules_per_token:.3g} J for 1,000 tokens ({how})"))
    here = "" if computer.memory_bytes is None else f", {human(computer.memory_bytes, 'B')}"
    rows.append(line("machine", f"{computer.cpu}, {computer.instructions}, {computer.cores} cores{here}"))
    rows.append(line("kernels", computer.kernels))
    rows.append(line("versions", ", ".join(f"{name} {version}" for name, version in card.versions.items())))
    return "\n".join(rows)


def line(label: str, text: str) -> str:
    return f"  {label:12} {text}"


def speed(found: "Speed") -> str:
    middle, low, high = (
        f"{each:,.0f}" if each >= 100 else f"{each:.1f}" for each in vars(found.tokens_per_second).values()
    )
    return f"{middle} tokens/s ({low} to {high})"
