"""Spans are seqeval's, whatever the order of the tags; BILOU and BMES are IOBES under other letters."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities

from regard.text.tags import Span, is_tag, spans_of, steps

TAGS = st.lists(
    st.sampled_from(["O", *(f"{letter}-{kind}" for letter in "BIES" for kind in ("x", "y-z"))]), max_size=12
)


@pytest.mark.parity
@given(tags=TAGS)
def test_spans_are_seqevals(tags: list[str]) -> None:
    assert spans_of(tags) == get_entities(tags)


@given(tags=TAGS)
def test_other_letters_for_the_same_scheme_mark_the_same_spans(tags: list[str]) -> None:
    bilou = [re.sub("^E", "L", re.sub("^S", "U", tag)) for tag in tags]
    bmes = [re.sub("^I", "M", tag) for tag in tags]
    assert spans_of(bilou) == spans_of(bmes) == spans_of(tags)


@given(sizes=st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["O", "per", "loc"])), max_size=6))
def test_every_scheme_says_the_spans_it_was_written_for(sizes: list[tuple[int, str]]) -> None:
    spans, iob1, iob2, iobes = [], [], [], []
    for size, kind in sizes:
        if kind == "O":
            for tags in (iob1, iob2, iobes):
                tags += ["O"] * size
            continue
        follows = bool(spans) and spans[-1] == (kind, spans[-1].first, len(iob2) - 1)
        spans.append(Span(kind, len(iob2), len(iob2) + size - 1))
        iob1 += [f"{'B' if follows else 'I'}-{kind}", *[f"I-{kind}"] * (size - 1)]
        iob2 += [f"B-{kind}", *[f"I-{kind}"] * (size - 1)]
        iobes += [f"S-{kind}"] if size == 1 else [f"B-{kind}", *[f"I-{kind}"] * (size - 2), f"E-{kind}"]
    assert spans_of(iob1) == spans_of(iob2) == spans_of(iobes) == spans


def test_what_is_no_tag_is_told_from_one() -> None:
    for tag in ("", "o", "B", "B-", "X-per", "NOUN", "B_per", "B-a b", "B-a\u00a0b", "I-per\n"):
        assert not is_tag(tag)
    assert is_tag("O")
    assert is_tag("B-per-son")


def test_tags_without_a_scheme_go_on_as_long_as_they_are_the_same() -> None:
    assert spans_of(["PER", "PER", "O", "LOC", "U-Boot"]) == [Span("PER", 0, 1), Span("LOC", 3, 3), Span("Boot", 4, 4)]


@given(st.lists(st.sampled_from(["O", "B-a", "I-a", "B-b", "I-b"]), min_size=1, max_size=8))
def test_in_allowed_steps_every_entity_begins_with_b(row: list[str]) -> None:
    known = ["O", "B-a", "I-a", "B-b", "I-b"]
    table = steps(known)
    first, *rest = (known.index(tag) for tag in row)
    allowed = table[-1][first] and all(table[one][other] for one, other in pairwise([first, *rest]))
    assert allowed == all(row[span.first].startswith("B") for span in spans_of(row))


def test_labels_that_nothing_begins_need_no_beginning() -> None:
    assert all(map(all, steps(["O", "I-a", "PER"])))
    assert steps(["O", "I-a", "B-b"])[-1] == [True, True, True]
    assert steps(["O", "I-a", "B-a"])[-1] == [True, False, True]
