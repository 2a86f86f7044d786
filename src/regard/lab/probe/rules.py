"""By what an answer is judged: rules that a reader can check by hand, and that no model has a say in."""

import re
from collections.abc import Sequence

NUMBER = re.compile(r"(?:(?<!\w)-)?(?:\d[\d,]*(?:\.\d+)?|(?<!\d)\.\d+)")
"A hyphen behind a number or a word is no sign."
_NAMES = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen twenty""".split()  # noqa: SIM905  # a column of one word a line says no more
WORDS = {name: value for value, name in enumerate(_NAMES)} | {"once": 1, "twice": 2}
_TALLY = "|".join([*WORDS, "(?:thir|for|fif|six|seven|eigh|nine)ty", "hundred", "thousand", "[mb]illion"])
NUMERAL = re.compile(rf"\b(?:{_TALLY})(?:[\s-]+(?:{_TALLY}))*\b")


def words_of(text: str) -> list[str]:
    """Lower case, without marks; an apostrophe stays inside its word."""
    return re.findall(r"\w+(?:['’]\w+)*", text.casefold())


def place_of(phrase: str, text: str) -> int | None:
    """Where the words of the phrase first stand together in the text, counted in words."""
    wanted, words = words_of(phrase), words_of(text)
    starts = range(len(words) - len(wanted) + 1) if wanted else ()
    return next((i for i in starts if words[i : i + len(wanted)] == wanted), None)


def says(text: str, phrase: str) -> bool:
    return place_of(phrase, text) is not None


def first_named(text: str, options: Sequence[str]) -> str | None:
    """The option that the text names first; of two at one place the longer."""
    places = {option: place for option in options if (place := place_of(option, text)) is not None}
    return min(places, key=lambda option: (places[option], -len(option)), default=None)


def last_number(text: str) -> float | None:
    """In digits or words (to twenty; once, twice). What stands last: a sum is often repeated before its result.

    None too where that is a number in more words, such as five hundred, which is not five.
    """
    text = text.casefold()
    found: list[tuple[int, float | None]] = [(m.start(), float(m[0].replace(",", ""))) for m in NUMBER.finditer(text)]
    found += [(m.start(), WORDS.get(m[0])) for m in NUMERAL.finditer(text)]
    last = max(found, key=lambda each: each[0], default=(0, None))[1]
    return None if last is None else float(last)
