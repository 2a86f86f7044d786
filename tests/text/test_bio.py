"""Tags are read as seqeval reads them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.bio import Span, spans_of, steps

KINDS = [f"{kind}{label}" for kind in "BIES" for label in ("-a", "-b", "-b-c", "")]
tags = st.lists(st.sampled_from(["O", *KINDS]), max_size=12)


@pytest.mark.parity
@given(tags)
def test_spans_equal_those_of_seqeval(row: list[str]) -> None:
    theirs = pytest.importorskip("seqeval.metrics.sequence_labeling").get_entities(list(row))
    assert [tuple(span) for span in spans_of(row)] == theirs


def test_other_names_for_the_same_tags_are_known() -> None:
    for row in (["B-x", "I-x", "E-x", "S-x"], ["B-x", "I-x", "L-x", "U-x"], ["B-x", "M-x", "E-x", "S-x"]):
        assert spans_of(row) == [Span("x", 0, 2), Span("x", 3, 3)]


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
