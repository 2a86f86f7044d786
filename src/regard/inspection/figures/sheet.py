"""An explanation on a bare terminal: the table of the lecture, with blocks for weights and small bars for vectors."""

from collections.abc import Iterator

from rich.cells import cell_len

from regard.inspection.explanation import Explanation
from regard.inspection.figures.letters import fit
from regard.inspection.figures.shades import LONGEST, bar, strip
from regard.inspection.positions import Positions

MOST = 40
"Keys that are printed; of more, those with the largest weights, in their order."
SHOWN = 32
"Components of a vector that are printed."


def explanation_text(found: Explanation, width: int = 80) -> str:
    lines = [found.title, "", *_keys(found, width), "", *_vectors(found, width)]
    if found.ending is not None:
        tops = zip(found.ending.names, found.ending.probabilities, strict=True)
        said = ", ".join(f"{fit(name, min(LONGEST, cell_len(name))).strip()} {share:.3f}" for name, share in tops)
        lines += ["", f"{found.ending.what}: {said}"]
    return "\n".join([*lines, "", f"computed again, the output differs from the model's own by {found.error:.1e}"])


def _keys(found: Explanation, width: int) -> Iterator[str]:
    weights = found.weights.tolist()
    shown = sorted(sorted(range(len(weights)), key=lambda i: -weights[i])[:MOST])
    side = min(LONGEST, max((cell_len(found.keys[i]) for i in shown), default=3))
    why = any(found.reasons[i] for i in shown)
    room = max(8, width - side - 33 - (20 if why else 0))
    yield f"{fit('key', side)}  {'q·k':>9} {found.scaled_name:>9}  {'weight':>7}"
    for i in shown:
        numbers = f"{float(found.scores[i]):9.3f} {float(found.scaled[i]):9.3f}  {weights[i]:7.4f}"
        closed = f"  closed: {found.reasons[i]}" if found.reasons[i] else f"  {bar(weights[i], min(24, room))}"
        yield f"{fit(found.keys[i], side)}  {numbers}{closed}".rstrip()
    if len(weights) > len(shown):
        rest = 1 - sum(weights[i] for i in shown)
        yield f"({len(weights) - len(shown)} more keys with {rest:.4f} together)"


def _vectors(found: Explanation, width: int) -> Iterator[str]:
    rows = found.vectors()
    side = max(len(name) for name, _ in rows)
    room = min(SHOWN, max(8, width - side - 24))
    for name, values in rows:
        some = values[:room].tolist()
        mark = "…" if values.numel() > room else ""
        largest = max(map(abs, some), default=1.0)
        yield f"{name:{side}}  {strip(some, largest)}{mark}  up to ±{largest:.3g}"


def positions_text(found: Positions, width: int = 80) -> str:
    room = max(8, width - 12)
    rows = found.values[:16, :room]
    noun = "head" if found.kind == "relative" else "position"
    largest = float(rows.abs().max())
    lines = [f"{found.title}: {len(found.values)} x {found.values.size(1)}, the largest ±{largest:.3g}", ""]
    lines += [f"{noun:>8} {i:<2} {strip(row, largest)}" for i, row in enumerate(rows.tolist())]
    if len(found.values) > len(rows):
        lines.append(f"(and {len(found.values) - len(rows)} more)")
    if found.kind != "relative":
        curve = found.curve[:room].tolist()
        ends = f"{curve[0]:.2f} at no distance, {curve[-1]:.2f} at {len(curve) - 1} steps"
        lines += ["", f"   alike    {strip(curve, 1.0)}", f"{'':12}cosine by distance: {ends}"]
    if found.map_error is not None:
        lines += ["", f"PE(t+{found.step}) = M PE(t) with one M for all t: largest error {found.map_error:.1e}"]
    return "\n".join(lines)
