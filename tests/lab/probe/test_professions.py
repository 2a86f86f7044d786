"""he and she, and what they are paid: hand-made cases, and models that were taught a side."""

import math

import pytest

from lab.probe import toys
from regard.errors import UserError
from regard.evaluation.score import wilson
from regard.lab.probe.likelihood import reader_of
from regard.lab.probe.professions import Leaning, Profession, Pronouns, Salaries, Template, Wages, _money
from regard.lab.probe.sets import Rows, shipped

PROFESSIONS = shipped("professions", Profession).some(8, seed=2)
TEMPLATES = shipped("pronouns", Template).some(3, seed=0)
TEXTS = [
    template.text.replace("{profession}", who.profession).replace("{pronoun}", word)
    for who in PROFESSIONS.rows
    for template in TEMPLATES.rows
    for word in ("he", "she")
]
USUAL = [
    template.text.replace("{profession}", who.profession).replace("{pronoun}", who.usual)
    for who in PROFESSIONS.rows
    for template in TEMPLATES.rows
]
MAKERS = {"causal": toys.generator, "masked": toys.filler}


@pytest.mark.parametrize("kind", MAKERS)
def test_a_model_without_preference_has_a_ratio_of_one(kind: str) -> None:
    part = Pronouns(reader_of(toys.silenced(MAKERS[kind](TEXTS))), PROFESSIONS, TEMPLATES)
    measures = part.measures(list(part.outcomes()))
    assert [each.value for each in measures] == [50, *[pytest.approx(1)] * 9]
    assert measures[2].low == pytest.approx(1)


def test_the_ratio_is_that_of_the_two_probabilities() -> None:
    generate = toys.generator(TEXTS)
    part = Pronouns(reader_of(generate), PROFESSIONS.some(1, 0), TEMPLATES.some(1, 0))
    (found,) = part.outcomes()
    reader = reader_of(generate)
    text = TEMPLATES.some(1, 0).rows[0].text.replace("{profession}", found.profession.profession)
    chances = []
    for word in ("he", "she"):
        ids, places = reader.encode(text.split("{pronoun}")[0] + word)
        chances.append(math.exp(reader.log_chances([ids], [places[-1:]])[0][0]))
    assert found.bits == pytest.approx(math.log2(chances[0] / chances[1]), abs=1e-4)


def test_a_prejudice_that_was_taught_is_found() -> None:
    part = Pronouns(reader_of(toys.teach(toys.generator(TEXTS), USUAL)), PROFESSIONS, TEMPLATES)
    measures = part.measures(list(part.outcomes()))
    assert measures[0].value == 100
    usual = {f"  {who.profession}": who.usual for who in PROFESSIONS.rows}
    assert all((each.value > 1) == (usual[each.name] == "he") for each in measures[2:])


def test_the_order_of_professions_by_hand() -> None:
    part = Pronouns(reader_of(toys.generator(["a"])), PROFESSIONS, TEMPLATES)
    he, she = ([who for who in PROFESSIONS.rows if who.usual == usual] for usual in ("he", "she"))
    rows = [Leaning(he[0], 2.0), Leaning(he[1], 0.0), Leaning(she[0], 1.0), Leaning(she[1], 0.0)]
    order, every = part.measures(rows)[:2]
    assert order.value == 62.5  # 2 > 1, 2 > 0, 0 < 1, and 0 = 0 is half
    assert every.value == pytest.approx(2**0.75)
    assert (order.low, order.high) == wilson(1.25, 2)
    assert len(part.measures(rows[:2])) == 3  # without the other side there is no order


def test_salaries_are_compared_as_ratios() -> None:
    part = Salaries(toys.generator(["a"]), PROFESSIONS, TEMPLATES)
    rows = [
        Wages("physician", ("200,000", "100,000"), (200_000, 100_000)),
        Wages("teacher", ("30", "60"), (30, 60)),
        Wages("nurse", ("50", "much"), (50, None)),
    ]
    ratio, less = part.measures(rows)
    assert (ratio.value, ratio.n, ratio.note) == (pytest.approx(1), 2, "1 without two sums of money")
    assert (less.value, less.n) == (50, 2)
    (none,) = part.measures(rows[2:])
    assert (none.name, none.value, none.note) == ("rows with two sums of money", 0, "1 without two sums of money")


@pytest.mark.parametrize(
    ("text", "value"), [("200,000 a year", 200_000), ("45000.50.", 45000.5), ("X", None), ("0", None)]
)
def test_the_first_sum_of_an_answer_counts(text: str, value: float | None) -> None:
    assert _money(text) == value


@pytest.mark.parametrize("text", ["The {pronoun} sleeps.", "The {profession} sleeps.", "{side} {profession} {pronoun}"])
def test_a_template_says_where_its_words_go(text: str) -> None:
    with pytest.raises(UserError, match="template"):
        Template(text=text)


def test_the_rows_know_both_of_their_files() -> None:
    part = Pronouns(reader_of(toys.generator(["a"])), PROFESSIONS, TEMPLATES)
    assert isinstance(part.rows, Rows)
    assert part.rows.name == "professions.jsonl x pronouns.jsonl"
    assert part.total == 24
