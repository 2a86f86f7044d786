"""A Jinja environment for templates written by strangers: no way out, no endless work, no flood of memory.

Jinja's ImmutableSandboxedEnvironment keeps a template away from Python's inside. It bounds neither time nor
size, so here every pass of a loop, call, filter, operator, list and piece of output pays from a budget
that also looks at the clock, and whatever could make something huge in one step is checked before it
starts. This is plain Python: it works in any thread on any system, and needs no signal or process.

Its limit: between two payments runs one step over values of at most MAX_SIZE, so the clock may be
overrun by that step, well under a second.
"""

from collections.abc import Callable, Iterable, Iterator, Sized
from functools import partial
from typing import Any

from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from regard.text.chat_budget import (
    TooMuch,
    budget,
    check_arguments,
    check_binary,
    check_format,
    check_join,
    check_replace,
    check_size,
    check_value,
)

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
        self.filters |= {_PASSES: _passes, _MEASURED: lambda value: budget.get().measure(value), _JOINED: _joined}
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
            check_format(str(value.__self__), braces=True)
        return wrapped

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        # Odd names, as in Jinja: a template may pass arguments named self or obj.
        if isinstance(__obj, Macro):  # the template's own; may share a namespace
            return budget.get().measure(super().call(__context, __obj, *args, **kwargs))
        check_arguments((*args, *kwargs.values()))
        owner, name = getattr(__obj, "__self__", None), getattr(__obj, "__name__", "")
        if isinstance(owner, str) and name == "replace":
            check_replace(owner, *args)
        elif isinstance(owner, str) and name == "join" and len(args) == 1:
            args = (check_join(owner, args[0]),)
        result = super().call(__context, __obj, *args, **kwargs)
        return result if isinstance(result, Namespace) else budget.get().measure(result)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        check_binary(operator, left, right)
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
    check: Callable[..., Any] = _FILTER_CHECKS.get(name, _any_value)

    def run(*args: Any, **kwargs: Any) -> Any:
        first = 1 if args and isinstance(args[0], _GIVEN) else 0
        if name not in ("default", "d"):
            check_arguments((*args[first + 1 :], *kwargs.values()))
        args = (*args[:first], check(*args[first:], **kwargs), *args[first + 1 :])
        return budget.get().measure(filter(*args, **kwargs))

    run.__dict__.update(getattr(filter, "__dict__", {}))  # Jinja marks there what a filter is given before its value
    return run


_GIVEN = (nodes.EvalContext, Context, ImmutableSandboxedEnvironment)


def _any_value(value: Any, *_: Any, **__: Any) -> Any:
    check_value(value)
    return value


def _before_join(value: Any, d: Any = "", *_: Any, **__: Any) -> Any:
    return check_join(d, budget.get().measure(list(value)))


def _before_replace(value: Any, old: Any = "", new: Any = "", *_: Any, **__: Any) -> Any:
    check_replace(budget.get().measure(value), old, new)
    return value


def _before_indent(value: Any, width: Any = 4, *_: Any, **__: Any) -> Any:
    text = str(budget.get().measure(value))
    check_size(len(text) + (text.count("\n") + 1) * (width if isinstance(width, int) else len(str(width))))
    return text


def _before_walk(value: Any, *_: Any, **__: Any) -> Any:
    """Each item is paid for when it is reached."""
    check_value(value)
    return _passes(value) if value else value  # what is empty or undefined stays so


def _before_work(price: int, value: Any, *_: Any, **__: Any) -> Any:
    """All items at once, before anyone can look at the clock: each at the price of what is done with it."""
    check_value(value)
    items = list(_passes(value)) if isinstance(value, Iterator) else value
    budget.get().pay(len(items) * price if isinstance(items, Sized) else 1)
    return items


_LETTER, _ITEM = 1_000, 8_000
"What a letter costs that is looked at, and an item that is compared with others."

# Filters whose result can be far larger than what they are given, or that take long over it; each check returns
# the value to use.
_FILTER_CHECKS: dict[str, Callable[..., Any]] = {
    "join": _before_join,
    "replace": _before_replace,
    "indent": _before_indent,
    **dict.fromkeys(("batch", "list", "map", "max", "min", "reject", "rejectattr"), _before_walk),
    **dict.fromkeys(("select", "selectattr", "slice", "sum", "unique"), _before_walk),
    **dict.fromkeys(("title", "urlencode", "wordcount"), partial(_before_work, _LETTER)),
    **dict.fromkeys(("dictsort", "groupby", "sort"), partial(_before_work, _ITEM)),
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
        check_size(total)
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
