"""What a chat template may spend: time, characters and items, counted as it runs.

`Budget.pay` and `Budget.measure` are called by every step of a template (`chat_sandbox.py`); the checks below
are asked before a step that could make something huge at once.
"""

import re
import time
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any

from jinja2.utils import Namespace

MAX_SECONDS = 2.0
MAX_SIZE = 4_000_000
"Characters and items in any one value, and in the whole output."
MAX_WORK = 64_000_000
"Characters and items in all values together."
MAX_BITS = 4096
"Largest whole number."
MAX_ARGUMENT = 1_000_000
"Largest number handed to a function or filter; widths and counts are such numbers."


class TooMuch(Exception):
    """The template asked for more than a template needs."""


class Budget:
    def __init__(self, seconds: float = MAX_SECONDS, work: int = MAX_WORK) -> None:
        self._deadline = time.monotonic() + seconds
        self._left = work

    def pay(self, units: int = 1) -> None:
        self._left -= units
        if self._left < 0:
            raise TooMuch("it makes too much text")
        if time.monotonic() > self._deadline:
            raise TooMuch("it takes too long")

    def measure(self, value: Any) -> Any:
        """`value` itself, paid for by its size as if written out: shared parts count each time."""
        total, waiting = 0, [value]
        while waiting:
            one = waiting.pop()
            size = len(one) if isinstance(one, str | list | tuple | dict | set) else 1
            total += size
            self.pay(size + 1)
            check_size(total)
            if isinstance(one, int):
                check_bits(one.bit_length())
            if isinstance(one, list | tuple | set):
                waiting.extend(one)
            elif isinstance(one, dict):
                waiting.extend(one.keys())
                waiting.extend(one.values())
            elif isinstance(one, Namespace):  # its parts cannot be seen, and it may hold itself
                raise TooMuch("a namespace is no value to write or keep in a list")
        return value


budget: ContextVar[Budget] = ContextVar("budget")
"The budget of the rendering under way; set by chat.render."


# ---- what is asked before a step that could be huge

_PERCENT_WIDTH = re.compile(r"%[^a-zA-Z%]*(\d{3}|\*)")
_BRACE_WIDTH = re.compile(r"\{[^{}]*(\d{3}|\{)")


def check_value(value: Any) -> None:
    if isinstance(value, Namespace):
        raise TooMuch("a namespace is no value to work on")


def check_arguments(values: Iterable[Any]) -> None:
    for value in values:
        check_value(value)
        if isinstance(value, int | float) and abs(value) > MAX_ARGUMENT:
            raise TooMuch(f"the number {value:.3g} is too large for an argument")


def check_size(size: int) -> None:
    if size > MAX_SIZE:
        raise TooMuch("a value grows too large")


def check_bits(bits: int) -> None:
    if bits > MAX_BITS:
        raise TooMuch("a number grows too large")


def check_replace(text: Any, old: Any = "", new: Any = "", *_: Any, **__: Any) -> None:
    text, old, new = str(text), str(old), str(new)
    check_size(len(text) + text.count(old) * len(new))


def check_join(separator: Any, parts: Any) -> list[Any]:
    items = list(parts)
    check_size(sum(len(item) if isinstance(item, str) else 1 for item in items) + len(str(separator)) * len(items))
    return items


def check_format(text: str, *, braces: bool) -> None:
    if (_BRACE_WIDTH if braces else _PERCENT_WIDTH).search(text):
        raise TooMuch("a format with a width of more than two digits")


def check_binary(operator: str, left: Any, right: Any) -> None:
    if operator == "%" and isinstance(left, str):
        check_value(right)
        check_format(left, braces=False)
    elif operator == "*":
        for value, times in ((left, right), (right, left)):
            if isinstance(value, str | list | tuple) and isinstance(times, int):
                check_size(len(value) * times)
    elif operator == "**" and isinstance(left, int) and isinstance(right, int):
        check_bits(left.bit_length() * abs(right))
