"""`regard summary`: a model's parts, size, memory and cost."""

import difflib
import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

from regard.cli.listing import find
from regard.cli.opening import check_name, find_model
from regard.cli.terminal import columns
from regard.cli.waiting import waiting
from regard.errors import UserError
from regard.pretrained.bundled import is_name

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

    MODEL is a directory, a .gguf file, hf:owner/name, pt-en or a preset (`regard list presets`). No weight is read.
    """
    if is_place(model):
        check_name(model)
    else:
        check_preset(model)
    with waiting(f"opening {model}"):
        from regard.inspection.summary import summarise
        from regard.models.registry import build_preset
        from regard.weights.store import load_model

        if is_place(model):
            summary = summarise(load_model(find_model(model), device="meta"))
        else:
            summary = summarise(build_preset(model, device="meta"))
    click.echo(json.dumps({"model": model, **summary.to_dict()}) if as_json else describe(model, summary))


def is_place(model: str) -> bool:
    """Whether it must be something on the disk or the hub: it is there, or no preset could be called so."""
    try:
        return is_name(model) or ":" in model or "/" in model or "\\" in model or Path(model).expanduser().exists()
    except (OSError, RuntimeError):  # a name too long, an unknown ~user
        return True


def check_preset(model: str) -> None:
    """A name that is none is answered with those that begin alike, else with those that look alike."""
    presets, lower = list(find("presets")), model.lower()
    if model in presets:
        return
    alike = [name for name in presets if name == lower] or [name for name in presets if name.startswith(lower)]
    near = (alike or difflib.get_close_matches(lower, presets))[:5]
    hint = "give a directory, a .gguf file, hf:owner/name, or a preset: `regard list presets` names them"
    if near:
        hint = f"did you mean {' or '.join(filter(None, (', '.join(near[:-1]), near[-1])))}?"
    raise UserError(f"there is no preset and no file called {model!r}", hint)


def describe(model: str, summary: "Summary") -> str:
    from regard.inspection.summary import human

    n = summary.n_parameters
    rows = [f"{model}: layout {summary.layout}, {human(n)} parameters ({n:,})", ""]
    for part, count in summary.parts.items():
        rows.append(f"  {part:16} {count:>16,}  {bar(count / n)}")
    sizes = ", ".join(f"{human(size, 'B')} as {name}" for name, size in summary.bytes_by_precision.items())
    rows += ["", wrapped("memory", f"{sizes}; {human(summary.training_bytes, 'B')} to train with Adam")]
    work = human(summary.flops_per_token, "FLOP"), human(summary.attention_flops_per_token, "FLOP")
    rows.append(wrapped("work", f"{work[0]} a token, and {work[1]} for each token of context"))
    if summary.memory_here is not None:
        here = human(summary.memory_here, "B")
        needs = human(summary.bytes_by_precision["float32"], "B")
        verdict = f"fits in the {here} here" if summary.fits else f"needs {needs}: would not fit here ({here})"
        rows.append(wrapped("here", verdict))
    chosen = (name if value is True else f"{name} {plain(value)}" for name, value in summary.choices.items())
    # A no-break space keeps a name and its value on one line.
    return "\n".join([*rows, "", wrapped("", ", ".join(each.replace(" ", "\xa0") for each in chosen))])


def plain(value: object) -> str:
    """A list without brackets, rotary scaling by its kind."""
    if isinstance(value, float):
        return f"{value:g}"  # a file in float32 has 9.999999747378752e-06 for 1e-05
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(getattr(value, "kind", value))


def wrapped(label: str, text: str) -> str:
    """As wide as the terminal, 80 columns where there is none; what follows the first line stands under it."""
    first = f"  {label:10}" if label else "  "
    width = max(40, columns())
    lines = textwrap.wrap(text, width, initial_indent=first, subsequent_indent=" " * len(first), break_on_hyphens=False)
    return "\n".join(lines).replace("\xa0", " ")


def bar(share: float, width: int = 24) -> str:
    return f"{'█' * round(share * width):{width}} {share:6.1%}"
