"""Configurations are filled strictly: what is wrong is named by its path, with what was found and what was expected."""

import contextlib
import json
import math
import sys
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faults.refusal import refused
from regard.config import build, read_toml, require, set_values, to_dict, to_toml
from regard.errors import UserError
from regard.files import read_json, read_json_object, write_json
from regard.models.registry import FAMILIES
from regard.runlog import RunLog, read_log


@dataclass(frozen=True)
class Inner:
    size: int = 3
    share: float = 0.5


@dataclass(frozen=True)
class Outer:
    name: str
    count: int = 1
    rate: float = 0.1
    flag: bool = False
    kind: Literal["red", "green"] = "red"
    limit: int | None = None
    either: int | str = 0
    ids: tuple[int, ...] = ()
    pair: tuple[int, int] = (1, 2)
    words: list[str] = field(default_factory=list)
    table: dict[str, float] = field(default_factory=dict)
    inner: Inner = Inner()
    place: Path = Path("here")
    anything: Any = None


# Building


def test_a_configuration_is_built_from_plain_data() -> None:
    data = {
        "name": "x",
        "count": 5,
        "ids": [1, 2],
        "pair": [3, 4],
        "inner": {"size": 7},
        "place": "there",
        "limit": None,
    }
    expected = Outer("x", count=5, ids=(1, 2), pair=(3, 4), inner=Inner(size=7), place=Path("there"))
    assert build(Outer, data) == expected


def test_what_is_not_given_has_its_default() -> None:
    assert build(Outer, {"name": "x"}) == Outer("x")


@pytest.mark.parametrize(
    ("key", "value", "parts"),
    [
        ("count", "5", ["count is '5'", "a whole number"]),
        ("count", 5.5, ["count is 5.5", "a whole number"]),
        ("count", True, ["count is True", "a whole number"]),
        ("count", None, ["count is None"]),
        ("count", [5], ["count is [5]"]),
        ("count", math.nan, ["count is nan"]),
        ("count", math.inf, ["count is inf"]),
        ("rate", "0.1", ["rate is '0.1'", "a finite number"]),
        ("rate", math.nan, ["rate is nan", "a finite number"]),
        ("rate", -math.inf, ["rate is -inf"]),
        ("rate", 10**400, ["rate is a huge number"]),
        ("rate", False, ["rate is False"]),
        ("flag", 1, ["flag is 1", "true or false"]),
        ("flag", "yes", ["flag is 'yes'"]),
        ("name", 5, ["name is 5", "text"]),
        ("kind", "blue", ["kind is 'blue'", "'red', 'green'"]),
        ("kind", ["red"], ["kind is ['red']"]),
        ("limit", "x", ["limit is 'x'"]),
        ("either", [1], ["either is [1]"]),
        ("ids", 5, ["ids is 5", "a list"]),
        ("ids", "12", ["ids is '12'", "a list"]),
        ("ids", [1, "x"], ["ids[1] is 'x'"]),
        ("pair", [1], ["pair is [1]", "a list of 2"]),
        ("pair", [1, 2, 3], ["pair is [1, 2, 3]", "a list of 2"]),
        ("words", [1], ["words[0] is 1"]),
        ("table", [1], ["table is [1]", "a table"]),
        ("table", {"a": "x"}, ["table.a is 'x'"]),
        ("inner", 5, ["inner is 5", "a table"]),
        ("inner", {"size": "x"}, ["inner.size is 'x'"]),
        ("place", 5, ["place is 5", "a path"]),
    ],
    ids=str,
)
def test_a_value_of_another_type_is_refused_by_its_path(key: str, value: Any, parts: list[str]) -> None:
    with refused(*parts):
        build(Outer, {"name": "x", key: value})


def test_an_unknown_key_is_refused_and_the_nearest_one_offered() -> None:
    with refused("unknown key 'cuont'", "did you mean 'count'?"):
        build(Outer, {"name": "x", "cuont": 5})
    with refused("unknown key 'inner.sise'", "did you mean 'size'?"):
        build(Outer, {"name": "x", "inner": {"sise": 5}})


def test_an_unknown_key_like_no_other_is_refused_with_all_known_ones() -> None:
    with refused("unknown key 'zzz'", "known keys", "count", "inner", "rate"):
        build(Outer, {"name": "x", "zzz": 5})


def test_a_key_without_a_default_must_be_given_and_is_named() -> None:
    with refused("model.outer has no name"):
        build(Outer, {}, "model.outer")


def test_the_path_starts_where_the_caller_says() -> None:
    with refused("run.toml.count is 'x'"):
        build(Outer, {"name": "x", "count": "x"}, "run.toml")


@pytest.mark.parametrize("value", [5, 5.0])
def test_a_whole_number_may_be_written_with_a_point(value: float) -> None:
    count = build(Outer, {"name": "x", "count": value}).count
    assert count == 5
    assert isinstance(count, int)


def test_what_is_built_already_is_taken_as_it_is() -> None:
    assert build(Outer, {"name": "x", "inner": Inner(9)}).inner == Inner(9)


def test_the_value_in_a_message_is_short_however_large_it_is() -> None:
    deep: Any = []
    for _ in range(sys.getrecursionlimit() * 2):
        deep = [deep]
    for value in ["x" * 10**6, [1] * 10**6, {str(i): i for i in range(10**4)}, 10**10_000, -(10**10_000), deep]:
        with pytest.raises(UserError) as caught:
            build(Outer, {"name": "x", "flag": value})
        assert len(str(caught.value)) < 300


def test_a_condition_between_keys_is_an_error_of_the_user() -> None:
    require(True, "never shown")
    with refused("width 7", "make it even"):
        require(False, "width 7 is odd", "make it even")


# --set


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5), ("-0.5", -0.5), ("1e-4", 1e-4), ("true", True), ("[1, 2]", [1, 2]), ('"5"', "5"), ("red", "red"),
        ("a b", "a b"), ("", ""), ("'x = y'", "x = y"), ("a=b", "a=b"), ("{a = 1}", {"a": 1}), ("None", "None"),
        ("nan", math.nan), ("[1,", "[1,"), ("5 # five", 5), ("/a/path", "/a/path"), ("ü", "ü"),
    ],
    ids=str,
)  # fmt: skip
def test_set_reads_a_value_as_toml_and_else_as_text(text: str, value: Any) -> None:
    found = set_values({}, [f"key={text}"])["key"]
    assert found == value or (isinstance(value, float) and math.isnan(value) and math.isnan(found))


def test_set_reaches_into_sections_and_makes_those_that_are_not_there() -> None:
    assert set_values({"a": {"b": 1, "c": 2}}, ["a.b=5", "x.y.z=7"]) == {"a": {"b": 5, "c": 2}, "x": {"y": {"z": 7}}}


def test_set_leaves_what_it_was_given_alone() -> None:
    data = {"a": {"b": 1}}
    set_values(data, ["a.b=5"])
    assert data == {"a": {"b": 1}}


def test_the_last_assignment_wins() -> None:
    assert set_values({}, ["a=1", "a=2"]) == {"a": 2}


@pytest.mark.parametrize("text", ["", "key", "=5", ".a=5", "a.=5", "a..b=5", " =5"])
def test_what_is_no_assignment_is_refused(text: str) -> None:
    with refused("is not an assignment", "--set section.key=value"):
        set_values({}, [text])


def test_a_value_is_no_section() -> None:
    with pytest.raises(UserError, match="'a' is a value"):
        set_values({"a": 5}, ["a.b=1"])


@pytest.mark.parametrize("text", ["9" * 5000, "[" * 5000, "1e999", "[" * 100 + "]" * 100], ids=lambda t: t[:8])
def test_values_beyond_all_bounds_are_no_reason_to_fall(text: str) -> None:
    assert "key" in set_values({}, [f"key={text}"])


def test_dates_in_a_file_survive_set(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("when = 2026-01-02\n")
    assert str(set_values(read_toml(tmp_path / "run.toml"), ["a=1"])["when"]) == "2026-01-02"


@given(st.text())
def test_no_assignment_gives_another_error(text: str) -> None:
    with contextlib.suppress(UserError):
        set_values({"a": {"b": 1}, "c": 2}, [text])


# Files


@pytest.mark.parametrize("read", [read_json_object, read_toml])
@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe\0", b"{", b"[[[", b"= 5", b"a" * 1000, b"[" * 100_000, b"a = " + b"[" * 100_000],
    ids=lambda content: repr(content[:8]),
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_named(read: Any, content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(content)
    with refused(str(tmp_path / "x"), "expected a readable"):
        read(tmp_path / "x")


@pytest.mark.parametrize("read", [read_json_object, read_toml])
@pytest.mark.parametrize("name", ["missing", ".", "x" * 300, "a\0b"], ids=lambda name: repr(name[:8]))
def test_a_file_that_is_not_there_is_named(read: Any, name: str, tmp_path: Path) -> None:
    with refused(str(tmp_path)):
        read(tmp_path / name)


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_json_object(tmp_path / "x") == {"a": 1}
    (tmp_path / "x").write_bytes(b"\xef\xbb\xbfa = 1\r\n")
    assert read_toml(tmp_path / "x") == {"a": 1}


@pytest.mark.parametrize("text", ['{"a": 1, "a": 1}', '{"b": [{"a": 1, "c": 2, "a": 3}]}'])
def test_a_key_that_stands_twice_in_json_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_text(text)
    with refused(str(tmp_path / "x"), "'a' stands twice", "keep one"):
        read_json_object(tmp_path / "x")


def test_a_key_that_stands_twice_in_toml_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("a = 1\na = 2\n")
    with refused(str(tmp_path / "x")):
        read_toml(tmp_path / "x")


@pytest.mark.parametrize("text", ["[]", "5", '"x"', "null"])
def test_json_that_is_no_object_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_text(text)
    with refused(str(tmp_path / "x"), "expected a JSON object"):
        read_json_object(tmp_path / "x")


def test_a_list_is_read_where_a_list_may_stand(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("[1, 2]")
    assert read_json(tmp_path / "x") == [1, 2]


def test_a_file_larger_than_any_configuration_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text('{"a": "' + "x" * 1000 + '"}')
    with refused(str(tmp_path / "x"), "more than 500 bytes"):
        read_json_object(tmp_path / "x", limit=500)


def test_a_number_of_five_thousand_digits_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text('{"a": ' + "9" * 5000 + "}")
    with refused(str(tmp_path / "x")):
        read_json_object(tmp_path / "x")


# There and back


finite = st.floats(allow_nan=False, allow_infinity=False)
outers = st.builds(
    Outer,
    name=st.text(),
    count=st.integers(),
    rate=finite,
    flag=st.booleans(),
    kind=st.sampled_from(["red", "green"]),
    limit=st.none() | st.integers(),
    either=st.integers() | st.text(),
    ids=st.lists(st.integers()).map(tuple),
    pair=st.tuples(st.integers(), st.integers()),
    words=st.lists(st.text()),
    table=st.dictionaries(st.text(), finite),
    inner=st.builds(Inner, size=st.integers(), share=finite),
    place=st.sampled_from([Path("a"), Path("/a/b"), Path("a b")]),
)


@given(outers)
def test_a_configuration_survives_plain_data_and_json(config: Outer) -> None:
    assert build(Outer, to_dict(config)) == config
    assert build(Outer, json.loads(json.dumps(to_dict(config)))) == config


@pytest.mark.parametrize("family", FAMILIES)
def test_every_published_size_survives_plain_data(family: str) -> None:
    for config in FAMILIES[family].presets.values():
        assert build(FAMILIES[family].config, to_dict(config)) == config


@pytest.mark.parametrize("family", FAMILIES)
def test_every_model_refuses_a_key_that_it_does_not_have(family: str) -> None:
    config = next(iter(FAMILIES[family].presets.values()))
    with refused("unknown key 'surprise'"):
        build(FAMILIES[family].config, {**to_dict(config), "surprise": 1})
    assert replace(config) == config


# What is written is read back

written = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@given(st.recursive(st.dictionaries(st.text(), written), lambda inner: st.dictionaries(st.text(), inner | written)))
def test_any_data_survives_toml(data: dict[str, Any]) -> None:
    assert tomllib.loads(to_toml(data)) == data


@pytest.mark.parametrize("number", [*range(0x20), 0x7F, 0x80, 0x9F, 0x2028, 0xFEFF, 0xFFFF, 0x1F600])
def test_any_letter_survives_toml(number: int, tmp_path: Path) -> None:
    (tmp_path / "x").write_text(to_toml({"a": f"b{chr(number)}c", chr(number): 1}), encoding="utf-8", newline="")
    assert read_toml(tmp_path / "x") == {"a": f"b{chr(number)}c", chr(number): 1}


@pytest.mark.parametrize("data", [{"out": "runs/\udcff"}, {"files": ["a", "\ud800"]}, {"\udcff": 1}], ids=ascii)
def test_a_name_that_is_not_utf8_is_refused_where_toml_cannot_hold_it(data: dict[str, Any]) -> None:
    with refused("is not UTF-8 text", "\\ud"):
        to_toml(data)


def test_json_holds_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    write_json(tmp_path / "x", {"a": "\udcff", "é": "\ud800 😀"})
    assert read_json(tmp_path / "x") == {"a": "\udcff", "é": "\ud800 😀"}
    log = RunLog(tmp_path / "log")
    log("begin", out="runs/\udcff")
    assert [event["out"] for event in read_log(tmp_path / "log")] == ["runs/\udcff"]
