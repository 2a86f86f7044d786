"""Whatever is sent, a field gives a value within its bounds or a refusal that names it; nothing else is ever raised."""

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.studio import fields
from regard.studio.app import ROUTES
from regard.studio.fields import decoded, from_query, parsed, schema_of
from regard.studio.problem import Problem, encoded

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = {
    "text": fields.text(10, least=1),
    "count": fields.whole(1, 9, default=4),
    "share": fields.number(0, 1, above=True, default=None),
    "on": fields.flag(),
    "kind": fields.choice("a", "b", default="a"),
    "ids": fields.ids(3, default=[]),
    "stop": fields.either(fields.many(fields.text(5), 2), fields.text(5), default=None),
    "message": fields.record({"role": fields.choice("user")}, default=None),
}


def refused(data: Any) -> Problem:
    with pytest.raises(Problem) as found:
        decoded(FIELDS, data)
    assert found.value.status == 422
    assert found.value.hint
    return found.value


@pytest.mark.parametrize(
    ("data", "param"),
    [
        ({}, "text"),
        ({"text": ""}, "text"),
        ({"text": "x" * 11}, "text"),
        ({"text": 1}, "text"),
        ({"text": "\ud800"}, "text"),
        ({"text": "a", "count": 10}, "count"),
        ({"text": "a", "count": True}, "count"),
        ({"text": "a", "count": 2.0}, "count"),
        ({"text": "a", "share": 0}, "share"),
        ({"text": "a", "share": math.inf}, "share"),
        ({"text": "a", "share": math.nan}, "share"),
        ({"text": "a", "on": 1}, "on"),
        ({"text": "a", "kind": "c"}, "kind"),
        ({"text": "a", "ids": [1, 2, 3, 4]}, "ids"),
        ({"text": "a", "ids": [1, -2]}, "ids[1]"),
        ({"text": "a", "stop": ["a", "b", "c"]}, "stop"),
        ({"text": "a", "message": {"role": "root"}}, "message.role"),
        ({"text": "a", "message": {"rol": "user"}}, "message.rol"),
        ({"text": "a", "cuont": 3}, "cuont"),
    ],
)
def test_every_number_and_list_has_its_bounds(data: dict[str, Any], param: str) -> None:
    assert refused(data).param == param


def test_a_misspelt_key_is_answered_with_the_right_one() -> None:
    assert "count" in refused({"text": "a", "cuont": 3}).hint


@given(JSON)
def test_anything_else_is_refused_and_nothing_breaks(data: Any) -> None:
    found, problem = tried(lambda: decoded(FIELDS, data))
    if problem is not None:
        assert problem.status == 422
        assert json.loads(problem.body())["error"]["message"]
    else:
        assert 1 <= len(found["text"]) <= 10
        assert 1 <= found["count"] <= 9


def tried(call: Callable[[], Any]) -> tuple[Any, Problem | None]:
    try:
        return call(), None
    except Problem as problem:
        return None, problem


@given(st.binary(max_size=200))
def test_bytes_that_are_no_json_are_refused_as_that(body: bytes) -> None:
    _, problem = tried(lambda: parsed(body))
    assert problem is None or problem.status == 400


@pytest.mark.parametrize(
    "body", [b"{", b"\xff", b'{"a":' * 100_000, b"[" * 100_000, b"NaN", b'{"a":1,"a":2}', b"9" * 5000]
)
def test_deep_broken_and_endless_json_is_refused(body: bytes) -> None:
    with pytest.raises(Problem) as found:
        parsed(body)
    assert found.value.status == 400


def test_a_query_is_read_by_the_same_rules() -> None:
    rules = {"after": fields.whole(0, 10, default=0), "name": fields.text(5, default=None)}
    assert from_query(rules, [("after", "7"), ("name", "7")]) == {"after": 7, "name": "7"}
    for pairs in (
        [("after", "11")],
        [("after", "x")],
        [("after", "1"), ("after", "2")],
        [("more", "1")],
        [("after", "1" * 30)],
    ):
        with pytest.raises(Problem):
            from_query(rules, pairs)


def test_what_is_no_number_is_null_and_half_a_character_is_escaped() -> None:
    assert json.loads(encoded({"a": [math.inf, math.nan, 1.5], "b": "\ud800"})) == {
        "a": [None, None, 1.5],
        "b": "\ud800",
    }


def _bounded(schema: dict[str, Any]) -> bool:
    kind = schema.get("type")
    if kind == "array":
        return "maxItems" in schema and _bounded(schema["items"])
    if kind == "object":
        return schema["additionalProperties"] is False and all(map(_bounded, schema["properties"].values()))
    if kind == "string":
        return "maxLength" in schema or "enum" in schema
    if kind in ("integer", "number"):
        return "maximum" in schema
    return all(map(_bounded, schema.get("anyOf", [])))


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.path)
def test_no_route_takes_a_number_a_text_or_a_list_without_a_largest(route: Any) -> None:
    assert _bounded(schema_of(route.fields))
