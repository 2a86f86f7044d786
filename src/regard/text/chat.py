"""Chat templates: the Jinja text inside a checkpoint that turns messages into one prompt.

Templates come with downloaded models, so they run in the sandbox of `chat_sandbox.py`, where time and size
are bounded. The language is the one Hugging Face templates are written in: blocks trimmed, `tojson`,
`raise_exception`, `strftime_now`, loop controls, {% generation %}.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache, lru_cache
from typing import Any

from jinja2 import Template, TemplateError

from regard.errors import QUOTED, UserError, cut
from regard.text.chat_budget import MAX_SECONDS, Budget, TooMuch, budget
from regard.text.chat_sandbox import Meter, MeteredEnvironment

MAX_TEMPLATE = 128 * 1024
"Characters in a template; the longest in use have about 20,000."

_ASK = "give the prompt as plain text instead, or use another template"


def render(
    template: str,
    messages: Sequence[Mapping[str, str]],
    *,
    special: Mapping[str, str],
    add_generation_prompt: bool = True,
    seconds: float = MAX_SECONDS,
) -> str:
    """The prompt for `messages` ({"role": ..., "content": ...}); `special` is a tokenizer's `special`.

    UserError if the template is wrong, refuses the messages, or wants more than `seconds`.
    """
    values = {f"{role}_token": token for role, token in special.items()}
    _environment()  # out here, where our own mistakes stay tracebacks
    token = budget.set(Budget(seconds))
    try:
        plain = [
            {str(key): None if value is None else str(value) for key, value in message.items()} for message in messages
        ]
        budget.get().measure(plain)
        return _compiled(template).render(
            messages=plain, tools=None, documents=None, add_generation_prompt=add_generation_prompt, **values
        )
    except TooMuch as error:
        raise UserError(f"the chat template was stopped: {error}", _ASK) from None
    except TemplateError as error:
        raise UserError(f"the chat template says: {cut(error.message or str(error), QUOTED)}", _hint(error)) from error
    except (RecursionError, MemoryError):
        raise UserError("the chat template goes too deep", _ASK) from None
    except Exception as error:  # any type: it comes from code that a stranger wrote
        raise UserError(f"the chat template failed: {type(error).__name__}: {cut(str(error), QUOTED)}", _ASK) from error
    finally:
        budget.reset(token)


def _hint(error: TemplateError) -> str:
    line = getattr(error, "lineno", None)
    return f"line {line} of the template" if line else "check the roles and the order of the messages"


@lru_cache(maxsize=16)
def _compiled(text: str) -> Template:
    if len(text) > MAX_TEMPLATE:
        raise TooMuch(f"it has {len(text):,} characters, more than {MAX_TEMPLATE:,}")
    environment = _environment()
    tree = Meter().visit(environment.parse(text))
    return Template.from_code(environment, environment.compile(tree), environment.make_globals(None))


@cache
def _environment() -> MeteredEnvironment:
    environment = MeteredEnvironment()
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Without Jinja's escapes for HTML, and with the options that templates use."""
    if indent is not None and not 0 <= int(indent) <= 16:
        raise TooMuch(f"an indent of {indent}")
    budget.get().measure(value)
    text = json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    return str(budget.get().measure(text))


def _raise_exception(message: str) -> None:
    raise TemplateError(str(message))


def _strftime_now(format: str) -> str:
    if len(format) > 100 or any(char.isdigit() for char in format):
        raise TooMuch("a date format that long")
    return datetime.now().strftime(format)
