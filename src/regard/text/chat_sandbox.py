"""A Jinja environment for templates written by strangers: no way out, no endless work, no flood of memory.

Jinja's ImmutableSandboxedEnvironment keeps a template away from Python's inside. It bounds neither time nor
size, so here every pass of a loop, call, filter, operator, list and piece of output pays from a budget
that also looks at the clock, and whatever could make something huge in one step is checked before it
starts. This is plain Python: it works in any thread on any system, and needs no signal or process.

Its limit: between two payments runs one step over values of at most MAX_SIZE, so the clock may be
overrun by that step, well under a second.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Any

from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

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
            _check_size(total)
            if isinstance(one, int):
                _check_bits(one.bit_length())
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

_STRING_METHODS = frozenset(
    (
        *("strip", "lstrip", "rstrip", "removeprefix", "removesuffix", "replace", "join", "format"),
        *("split", "rsplit", "splitlines", "partition", "rpartition"),
        *("startswith", "endswith", "find", "rfind", "index", "rindex", "count"),
        *("upper", "lower", "title", "capitalize", "casefold", "swapcase"),
        *("isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "islower", "isnumeric"),
        *("isspace", "istitle", "isupper"),
    )
)
_DROPPED_FILTERS = ("center", "format", "pprint", "random", "striptags", "urlize", "wordwrap", "xmlattr")
_WIDTH = re.compile(r"%[^a-zA-Z%]*(\d{3}|\*)|\{[^{}]*(\d{3}|\{)")


def _check_arguments(values: Iterable[Any]) -> None:
    for value in values:
        if isinstance(value, Namespace):
            raise TooMuch("a namespace is no value to work on")
        if isinstance(value, int | float) and abs(value) > MAX_ARGUMENT:
            raise TooMuch(f"the number {value:.3g} is too large for an argument")


def _check_size(size: int) -> None:
    if size > MAX_SIZE:
        raise TooMuch("a value grows too large")


def _check_bits(bits: int) -> None:
    if bits > MAX_BITS:
        raise TooMuch("a number grows too large")


def _check_replace(text: Any, old: Any = "", new: Any = "", *_: Any, **__: Any) -> None:
    text, old, new = str(text), str(old), str(new)
    _check_size(len(text) + text.count(old) * len(new))


def _check_join(separator: Any, parts: Any) -> list[Any]:
    items = list(parts)
    _check_size(
        sum(len(item) if isinstance(item, str) else 1 for item in items) + len(str(separator)) * len(items)
    )
    return items


def _check_format(text: str) -> None:
    if _WIDTH.search(text):
        raise TooMuch("a format with a width of more than two digits")


def _check_binary(operator: str, left: Any, right: Any) -> None:
    if operator == "%" and isinstance(left, str):
        _check_format(left)
    elif operator == "*":
        for value, times in ((left, right), (right, left)):
            if isinstance(value, str | list | tuple) and isinstance(times, int):
                _check_size(len(value) * times)
    elif operator == "**" and isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() * abs(right))


# ---- the environment


class MeteredEnvironment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_Generation, loopcontrols],
            finalize=lambda value: budget.get().measure(value),
        )
        for name in _DROPPED_FILTERS:
            del self.filters[name]
        self.filters = {name: _metered(name, filter) for name, filter in self.filters.items()}
        self.filters |= {
            _PASSES: _passes,
            _MEASURED: lambda value: budget.get().measure(value),
            _JOINED: _joined,
        }
        del self.globals["lipsum"]
        self.globals["dict"] = lambda *args, **named: dict(*args, **named)  # not the class, which has methods
        self.globals["namespace"] = _SafeNamespace
        self.concat = _concatenated  # type: ignore[method-assign]

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, str) and attr not in _STRING_METHODS:
            return False
        return super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Called for every attribute; the sandbox replaces str.format by its own."""
        wrapped = super().wrap_str_format(value)
        if wrapped is not None:
            _check_format(str(value.__self__))
        return wrapped

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        # Odd names, as in Jinja: a template may pass arguments named self or obj.
        if isinstance(__obj, Macro):  # the template's own; may share a namespace
            return budget.get().measure(super().call(__context, __obj, *args, **kwargs))
        _check_arguments((*args, *kwargs.values()))
        owner, name = getattr(__obj, "__self__", None), getattr(__obj, "__name__", "")
        if isinstance(owner, str) and name == "replace":
            _check_replace(owner, *args)
        elif isinstance(owner, str) and name == "join" and len(args) == 1:
            args = (_check_join(owner, args[0]),)
        result = super().call(__context, __obj, *args, **kwargs)
        return result if isinstance(result, Namespace) else budget.get().measure(result)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        _check_arguments((left, right) if operator == "%" else ())
        _check_binary(operator, left, right)
        return budget.get().measure(super().call_binop(context, operator, left, right))


class _SafeNamespace(Namespace):
    """Jinja's namespace without underscore names, which could shadow the inside of the object."""

    def __setitem__(self, name: str, value: Any) -> None:
        if str(name).startswith("_"):
            raise TooMuch("a namespace may not hold names that begin with an underscore")
        super().__setitem__(name, value)


class _Generation(Extension):
    """{% generation %} ... {% endgeneration %} marks what the model said; here it means nothing more."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _metered(name: str, filter: Callable[..., Any]) -> Callable[..., Any]:
    """The filter, its arguments checked and its result paid for."""
    check = _FILTER_CHECKS.get(name)

    def run(*args: Any, **kwargs: Any) -> Any:
        _check_arguments((*args, *kwargs.values()))
        if check is not None:
            first = 1 if args and isinstance(args[0], _GIVEN) else 0
            args = (*args[:first], *check(*args[first:], **kwargs), *args[first + 1 :])
        return budget.get().measure(filter(*args, **kwargs))

    run.__dict__.update(filter.__dict__)  # Jinja marks there what a filter is given before its value
    return run


_GIVEN = (nodes.EvalContext, Context, ImmutableSandboxedEnvironment)


def _before_join(value: Any, d: Any = "", *_: Any, **__: Any) -> tuple[Any]:
    return (_check_join(d, budget.get().measure(list(value))),)


def _before_replace(value: Any, old: Any = "", new: Any = "", *_: Any, **__: Any) -> tuple[Any]:
    _check_replace(value, old, new)
    return (value,)


def _before_indent(value: Any, width: Any = 4, *_: Any, **__: Any) -> tuple[Any]:
    text = str(budget.get().measure(value))
    _check_size(len(text) + (text.count("\n") + 1) * (width if isinstance(width, int) else len(str(width))))
    return (text,)


# Filters whose result can be far larger than what they are given; each check returns the value to use.
_FILTER_CHECKS: dict[str, Callable[..., tuple[Any]]] = {
    "join": _before_join,
    "replace": _before_replace,
    "indent": _before_indent,
}


_PASSES, _MEASURED, _JOINED = "_passes", "_measured", "_joined"


def _passes(iterable: Iterable[Any]) -> Iterator[Any]:
    for item in iterable:
        budget.get().pay()
        yield item


def _joined(parts: list[Any]) -> str:
    return "".join(str(part) for part in budget.get().measure(parts))


def _concatenated(parts: Iterable[str]) -> str:
    """Joins the output of a macro, block or template."""
    total, kept = 0, []
    for part in parts:
        total += len(part)
        _check_size(total)
        budget.get().pay(len(part))
        kept.append(part)
    return "".join(kept)


class Meter(NodeTransformer):
    """Puts the payments into a template's syntax tree, where Jinja has no other hook."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        node.iter = _filtered(node.iter, _PASSES)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _filtered(nodes.List(node.nodes, lineno=node.lineno), _JOINED)

    def visit_List(self, node: nodes.List) -> nodes.Node:
        return _filtered(self.generic_visit(node), _MEASURED)

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:
        return _filtered(self.generic_visit(node), _MEASURED)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
        self.generic_visit(node)
        return node if node.ctx == "store" else _filtered(node, _MEASURED)

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        return _filtered(node, _MEASURED) if isinstance(node.arg, nodes.Slice) else node


def _filtered(node: nodes.Node, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)
