"""What forms have in common: numbers, names that are typed, and an action that is tried."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from flask import request

from console.context import session
from console.rules.found import Failed, Found
from lakequeue.errors import InvalidRequest, LakequeueError

T = TypeVar("T")
_MOST_DIGITS = 18


def must_be_typed(name: str, what: str) -> None:
    """Raises `InvalidRequest` unless the form has the name, typed. What it guards stays undone."""
    if request.form.get("confirm", "") != name:
        raise InvalidRequest(f"the name that was typed is not that of the {what}", hint=name)


def whole_number(text: str) -> int:
    """A number of a form. Raises `InvalidRequest`."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > _MOST_DIGITS:
        raise InvalidRequest(f"{text[:40]!r} is no whole number", hint="write one, as in 42")
    return int(text)


def tried(what: str, read: Callable[[], Callable[[], T]], within_s: float) -> Found[T]:
    """What came of an action, in words if it was refused or takes too long.

    `read` reads the form, and returns what is to be done; that runs in a thread of its own.
    """
    try:
        act = read()
    except LakequeueError as error:
        return Found(None, Failed(error.detail, error.hint or ""))
    return session().desk.patience.ask(what, act, within_s)
