"""One file that needs nothing: no script, no address, and no text that could become one."""

import re
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from regard.inspection.figures.page import figure, frame, html_table, page


class Seen(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text(max_size=60))
def test_whatever_the_text_it_stays_text(text: str) -> None:
    seen = Seen(page(text, [html_table([[text], [text]], text)], text=text))
    allowed = {"html", "head", "meta", "title", "style", "body", "h1", "p", "div", "table", "caption", "tr", "th", "td"}
    assert {tag for tag, _ in seen.tags} <= allowed


def test_there_is_no_script_and_no_address() -> None:
    html = page("a", [figure("<svg></svg>"), html_table([["x"], [0.25]])])
    assert "<script" not in html
    assert not re.search(r"(?:src|href)=", html)
    assert "default-src 'none'" in html
    assert '<td class="number">0.25</td>' in html


def test_a_frame_holds_the_page_and_lets_nothing_out() -> None:
    html = page('"quoted" & <tagged>', [])
    ((tag, attributes),) = Seen(frame(html, 300)).tags
    assert (tag, attributes["sandbox"], attributes["srcdoc"]) == ("iframe", "", html)
