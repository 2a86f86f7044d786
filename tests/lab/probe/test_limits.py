"""The rules that judge an answer, each by hand; and the questions that ship can be answered."""

import pytest

from lab.probe import toys
from regard.errors import UserError
from regard.lab.probe.limits import Question, Questions
from regard.lab.probe.rules import first_named, last_number, says
from regard.lab.probe.sets import Rows, shipped


@pytest.mark.parametrize(
    ("text", "value"),
    [("17 + 25 = 42.", 42), ("There are three.", 3), ("1,234", 1234), ("-5", -5), ("3.5 kg", 3.5), ("none", None),
     ("Of 3 it has two", 2), ("twofold", None), ("It occurs twice.", 2), ("10-12", 12), ("It is .5", 0.5), ("x-2", 2),
     ("five hundred", None), ("twenty-one", None), ("sixty", None), ("one, two", 2), ("five hundred, no: 7", 7)],
)  # fmt: skip
def test_the_last_number_counts(text: str, value: float | None) -> None:
    assert last_number(text) == value


def test_the_option_named_first_counts() -> None:
    assert first_named("A pencil is heavier than a toaster.", ["toaster", "pencil"]) == "pencil"
    assert first_named("The Toaster!", ["toaster", "pencil"]) == "toaster"
    assert first_named("Pencils and toasters", ["toaster", "pencil"]) is None
    assert first_named("the 2nd place", ["second", "2nd"]) == "2nd"
    assert says("It's a Captain  Potato", "captain potato")
    assert not says("", "x")


def question(rule: str, right: list[str], wrong: tuple[str, ...] = (), ask: tuple[str, ...] = ("q",)) -> Question:
    return Question(kind="k", ask=ask, rule=rule, right=tuple(right), wrong=wrong)  # type: ignore[arg-type]


def test_every_rule_by_hand() -> None:
    assert question("number", ["42"]).is_right(["It is 42"])
    assert not question("number", ["42"]).is_right(["It is 42, or 43"])
    assert question("choice", ["toaster"], ("pencil",)).is_right(["toaster, not pencil"])
    assert not question("choice", ["toaster"], ("pencil",)).is_right(["I do not know"])
    letter = question("says", ["diagonal", "horizontal"], ("curved",))
    assert letter.is_right(["Two horizontal lines and a diagonal one"])
    assert not letter.is_right(["Two horizontal lines, curved, and a diagonal one"])
    pair = question("opposite", ["yes", "no"], ask=("a?", "not a?"))
    assert pair.is_right(["Yes.", "No, never"])
    assert not pair.is_right(["Yes.", "Yes."])
    assert not pair.is_right(["Yes.", "Perhaps"])
    assert [q.luck for q in (pair, letter, question("choice", ["a"], ("b", "c")))] == [0.5, 0, pytest.approx(1 / 3)]


def test_the_questions_that_ship_tell_right_from_wrong() -> None:
    rows = shipped("limits", Question).rows
    assert len(rows) >= 40
    assert len({row.kind for row in rows}) >= 6
    for row in rows:
        if row.rule == "opposite":
            assert row.is_right(row.right)
            continue
        rights = [" ".join(row.right)] if row.rule == "says" else row.right
        assert all(row.is_right([right]) for right in rights), row
        assert not any(row.is_right([wrong]) for wrong in (*row.wrong, "")), row
        assert not any(row.is_right([f"{rights[0]} is {word}"]) for word in row.never), row


def test_a_model_is_asked_as_the_lecture_asks() -> None:
    ask, answer = "which is heavier , a toaster or a pencil ?", "the toaster"
    rows = Rows("toy", "", (question("choice", ["toaster"], ("pencil",), (ask,)),))
    for said, value in ((answer, 100), ("the pencil", 0)):
        lines = [f"Q: {ask}\nA: {said}"]
        part = Questions(toys.teach(toys.generator([*lines, answer]), lines), rows, 3)
        finding = part.found(list(part.outcomes()))
        assert finding.measures[0].value == value
        assert finding.measures[0].note == "luck 50 %"
        assert finding.examples[0]["answered"] == [said]


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ({"rule": "opposite", "right": ["yes", "no"]}, "has 1 questions"),
        ({"rule": "choice", "right": ["a"]}, "nothing wrong"),
        ({"rule": "number", "right": ["much"]}, "'much' is no number"),
        ({"rule": "says", "right": []}, "`right` is empty"),
    ],
)
def test_questions_without_sense_are_refused(row: dict[str, list[str]], what: str) -> None:
    with pytest.raises(UserError, match=what):
        question(str(row["rule"]), row["right"])
