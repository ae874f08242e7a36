"""What runs a generator that asks for things: written once, for blocking code and for asyncio.

The generator yields what it asks for, and is sent the answer, or thrown the error. Only the answer
of `ask` may suspend, so blocking code runs the same coroutine to its end with one `send`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar

Asked = TypeVar("Asked")
T = TypeVar("T")


async def drive(
    steps: Generator[Asked, Any, T],
    ask: Callable[[Asked], Awaitable[Any]],
    thrown: type[BaseException],
) -> T:
    """The result of `steps`. It meets the errors of `ask` that are `thrown`; any other ends it."""
    answer: Any = None
    failure: BaseException | None = None
    # Closed at once when this is interrupted: what it has to undo is not left to the garbage.
    with contextlib.closing(steps):
        while True:
            try:
                asked = steps.send(answer) if failure is None else steps.throw(failure)
            except StopIteration as stop:
                result: T = stop.value
                return result
            answer, failure = None, None
            try:
                answer = await ask(asked)
            except thrown as error:
                failure = error


def finish(running: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never suspends."""
    try:
        running.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise RuntimeError("blocking code has suspended")
