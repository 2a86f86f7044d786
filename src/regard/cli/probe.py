"""`regard probe`: what a model prefers, what it obeys, and what it cannot do."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli.counting import Count
from regard.cli.opening import PRECISIONS, check_name, find_model, told_precision
from regard.cli.terminal import tell
from regard.cli.waiting import waiting
from regard.files import expanded, write_json
from regard.pretrained.bundled import usual

if TYPE_CHECKING:
    from regard.lab.probe.report import Finding, Measure, Report

KINDS = ["bias", "injection", "limits"]
MAX_NEW, SHOWN = 40, 7
EXAMPLES = """\b
Examples:
  regard probe bias
  regard probe bias smollm2 --data crows_pairs_anonymized.csv
  regard probe bias minilm
  regard probe injection smollm2 --json > report.json
  regard probe injection pt-en
  regard probe injection runs/detector/model
  regard probe limits smollm2 --out report.json
"""


@click.command(epilog=EXAMPLES)
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("model", required=False)
@click.option("--data", type=click.Path(path_type=Path), multiple=True, help="Rows of your own, or a public set.")
@click.option("--limit", type=click.IntRange(min=1), help="Of each set at most so many rows, drawn by the seed.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Which rows --limit takes.")
@click.option(
    "--max-new", type=click.IntRange(min=1), default=MAX_NEW, show_default=True, help="Tokens of an answer at most."
)
@click.option("--out", type=click.Path(path_type=Path), help="Write the report here, as JSON.")
@click.option(
    "--precision",
    type=click.Choice(PRECISIONS),
    default="fp32",
    show_default=True,
    help="Bits of the weights; fp32 is the model as it was published, auto the fastest here.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    kind: str,
    model: str | None,
    data: tuple[Path, ...],
    limit: int | None,
    seed: int,
    max_new: int,
    out: Path | None,
    precision: str,
    as_json: bool,
) -> None:
    """Probe MODEL, by default an installed language model, for one KIND of trouble.

    bias: pairs of sentences (CrowS-Pairs, WinoBias, our own), professions with he and she and with salaries; of
    sentence vectors association tests. injection: instructions smuggled into texts, contexts and chats; of a
    classifier, how well it finds them. limits: questions like that of the toaster and the pencil. Ctrl-C keeps what is
    done and reports it.
    """
    name = usual("Generator") if model is None else model
    check_name(name)
    with waiting(f"opening {name}"):
        from regard.lab.probe.report import Report, describe_model, run
        from regard.lab.probe.table import PROBES, Asked
        from regard.tasks.load import load

        path = find_model(name)
        bits = told_precision(precision, path)
        task = load(path, precision=bits)
        parts = PROBES[kind](task, Asked([expanded(path) for path in data], limit, seed, max_new))
        known = describe_model(task.model, name, path, bits)
    count = Count("rows", sum(part.total for part in parts))
    findings, stop = run(parts, count.heard)
    count.close()
    report = Report(probe=kind, model=known, seed=seed, complete=stop is None, findings=tuple(findings))
    click.echo(json.dumps(report.to_dict(), ensure_ascii=False) if as_json else described(report))
    if out is not None:
        write_json(expanded(out), report.to_dict())
    if stop is not None:
        tell("stopped: the report is about the rows that were done")
        raise stop


def described(report: "Report") -> str:
    model = report.model
    size, weights = f"{model['n_parameters']:,} parameters", model["weights_sha256"][:12]
    known = f"{model['layout']}, {size}, {model['precision']}, weights {weights}"
    rows = [f"{report.probe} of {model['name']} ({known}), seed {report.seed}"]
    for finding in report.findings:
        rows += ["", *shown(finding)]
    return "\n".join(rows)


def shown(finding: "Finding") -> list[str]:
    part = "" if finding.done == finding.of else f" of {finding.of}"
    rows = [f"{finding.name}: {finding.source}, {finding.done}{part} rows"]
    width = max((len(each.name) for each in finding.measures), default=0)
    rows += [f"  {each.name:{width}}  {valued(each)}" for each in finding.measures]
    rows += [f"  it says: {finding.says}", f"  it does not say: {finding.says_not}"]
    for example in finding.examples[:SHOWN]:
        rows.append("  - " + ", ".join(f"{key} {plain(value)}" for key, value in example.items()))
    return rows


def valued(found: "Measure") -> str:
    form = ".1f" if found.unit == "%" else ".3g"
    interval = "" if found.low is None or found.high is None else f" [{found.low:{form}}, {found.high:{form}}]"
    note = f"  {found.note}" if found.note else ""
    return f"{format(found.value, form):>5} {found.unit}{interval}  n = {found.n}{note}"


def plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | list) else str(value)
