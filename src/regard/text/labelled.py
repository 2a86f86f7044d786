"""What a language model is asked to label a text: a template, the labels, and how they are compared."""

from collections.abc import Sequence
from typing import Literal, get_args

from regard.errors import USAGE, UserError

By = Literal["prior", "length", "sum"]
WAYS: dict[str, By] = {each: each for each in get_args(By)}
TEMPLATE = "Text: {text}\nTopic: {label}"


def checked_labels(labels: Sequence[str]) -> tuple[str, ...]:
    """Without the spaces around them: what stands before a label is the template's business."""
    _expect(not isinstance(labels, str), "one label was given where a list is expected", "write labels=[a, b]")
    found = tuple(label.strip() for label in labels)
    _expect(all(found), "a label is empty", "name each of them")
    _expect(len(set(found)) == len(found) >= 2, "there are not two different labels", "give each once, and at least 2")
    return found


def parts_of(template: str) -> tuple[str, str]:
    """What stands before the text, and what between it and the label."""
    before, text, rest = template.partition("{text}")
    between, label, after = rest.partition("{label}")
    hint = f"write {{text}} once and {{label}} once at the end, as in {TEMPLATE!r}"
    _expect(bool(text and label) and not after, f"the template {template!r} does not ask for a label", hint)
    _expect("{text}" not in between and "{label}" not in before, "the template names a place twice", hint)
    return before, between


def _expect(good: bool, message: str, hint: str) -> None:
    if not good:
        raise UserError(message, hint, exit_code=USAGE)
