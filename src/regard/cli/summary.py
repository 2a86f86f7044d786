"""`regard summary`: a model's parts, size, memory and cost."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from regard.inspection.summary import Summary

EXAMPLES = """\b
Examples:
  regard summary gpt3
  regard summary path/to/model
  regard summary model.gguf --json
"""


@click.command(epilog=EXAMPLES)
@click.argument("model")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(model: str, as_json: bool) -> None:
    """Show a model's parameters by part, its memory and its cost per token.

    MODEL is a directory, a .gguf file, hf:owner/name or a preset (`regard list presets`). No weight is read.
    """
    from regard.inspection.summary import summarise
    from regard.models.registry import build_preset
    from regard.weights.store import load_model

    is_path = model.startswith("hf:") or Path(model).expanduser().exists()
    summary = summarise(load_model(model, device="meta") if is_path else build_preset(model, device="meta"))
    click.echo(json.dumps({"model": model, **summary.to_dict()}) if as_json else describe(model, summary))


def describe(model: str, summary: "Summary") -> str:
    from regard.inspection.summary import human

    rows = [f"{model}: {summary.family}, {human(summary.n_parameters)} parameters ({summary.n_parameters:,})", ""]
    for part, count in summary.parts.items():
        rows.append(f"  {part:16} {count:>16,}  {bar(count / summary.n_parameters)}")
    sizes = ", ".join(f"{human(size, 'B')} as {name}" for name, size in summary.bytes_by_precision.items())
    rows += ["", f"  memory    {sizes}; {human(summary.training_bytes, 'B')} to train with Adam"]
    rows.append(
        f"  work      {human(summary.flops_per_token, 'FLOP')} a token, and "
        f"{human(summary.attention_flops_per_token, 'FLOP')} for each token of context"
    )
    if summary.memory_here is not None:
        here = human(summary.memory_here, "B")
        needs = human(summary.bytes_by_precision["float32"], "B")
        verdict = f"fits in the {here} here" if summary.fits else f"needs {needs}: would not fit here ({here})"
        rows.append(f"  here      {verdict}")
    rows += ["", "  " + ", ".join(f"{name} {value}" for name, value in summary.choices.items())]
    return "\n".join(rows)


def bar(share: float, width: int = 24) -> str:
    return f"{'█' * round(share * width):{width}} {share:6.1%}"
