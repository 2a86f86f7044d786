"""Figures and tables as one HTML file: no script, no network, so any browser and any notebook's frame shows it."""

from collections.abc import Sequence
from html import escape

from regard.inspection.figures.drawing import COLOURS
from regard.inspection.figures.letters import clean

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"Nothing can be fetched, whatever a text in the figure tries."
LIGHT, DARK = ({ink: pair[side] for ink, pair in COLOURS.items()} for side in (0, 1))
STYLE = f"""\
:root {{ color-scheme: light dark }}
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 1.5em; background: {LIGHT["paper"]}; color: {LIGHT["ink"]} }}
figure {{ margin: 1em 0; overflow-x: auto }}
table {{ border-collapse: collapse; font: 13px ui-monospace, monospace }}
th, td {{ padding: 0.15em 0.7em; text-align: left; border-bottom: 1px solid {LIGHT["grid"]}; white-space: nowrap }}
td.number {{ text-align: right }}
.scroll {{ overflow-x: auto; max-height: 30em }}
@media (prefers-color-scheme: dark) {{
  body {{ background: {DARK["paper"]}; color: {DARK["ink"]} }}
  th, td {{ border-color: {DARK["grid"]} }}
}}"""


def page(title: str, parts: Sequence[str], *, text: str = "") -> str:
    """`parts` are HTML: figures by `figure`, tables by `html_table`; `title` and `text` are plain."""
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{_html(title)}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>",
            f"<h1>{_html(title)}</h1>",
            *([f"<p>{_html(text)}</p>"] if text else []),
            *parts,
            "</body>\n</html>\n",
        ]
    )


def figure(svg: str) -> str:
    return f"<figure>\n{svg}</figure>"


def html_table(rows: Sequence[Sequence[object]], caption: str = "") -> str:
    """The first row is the header."""
    head, *body = rows
    lines = ['<div class="scroll"><table>', f"<caption>{_html(caption)}</caption>" if caption else ""]
    lines.append("<tr>" + "".join(f'<th scope="col">{_html(str(cell))}</th>' for cell in head) + "</tr>")
    lines += ["<tr>" + "".join(map(_cell, row)) + "</tr>" for row in body]
    return "\n".join([*filter(None, lines), "</table></div>"])


def _cell(cell: object) -> str:
    if isinstance(cell, float):
        return f'<td class="number">{cell:.6g}</td>'
    return f"<td>{_html(str(cell))}</td>"


def frame(html: str, height: float) -> str:
    """For a notebook: the page in a sandbox, so that neither touches the other."""
    return (
        f'<iframe sandbox="" srcdoc="{escape(html)}" title="figure" '
        f'style="width: 100%; height: {height:.0f}px; border: 0"></iframe>'
    )


def _html(text: str) -> str:
    return escape(clean(text))
