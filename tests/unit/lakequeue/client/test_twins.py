"""The asyncio classes offer what the blocking ones offer, under the same names and arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from lakequeue import AsyncConsumer, AsyncProducer, Consumer, Producer
from lakequeue.client.consuming.transaction import AsyncTransaction, Transaction
from lakequeue.client.consuming.transform import AsyncTransform, Transform
from lakequeue.client.producing.atomic import AsyncAtomic, Atomic

TWINS = [
    (Producer, AsyncProducer),
    (Consumer, AsyncConsumer),
    (Atomic, AsyncAtomic),
    (Transform, AsyncTransform),
    (Transaction, AsyncTransaction),
]


def offered(of: type) -> dict[str, list[tuple[str, Any]]]:
    """Public methods, with the names and defaults of their arguments."""

    def arguments(method: Callable[..., Any]) -> list[tuple[str, Any]]:
        return [(p.name, p.default) for p in inspect.signature(method).parameters.values()]

    methods = inspect.getmembers(of, inspect.isfunction)
    return {name: arguments(method) for name, method in methods if not name.startswith("_")}


@pytest.mark.parametrize(("blocking", "twin"), TWINS, ids=lambda one: one.__name__)
def test_an_asyncio_class_has_the_methods_and_arguments_of_the_blocking_one(
    blocking: type, twin: type
) -> None:
    assert offered(twin) == offered(blocking)
    assert hasattr(twin, "__aenter__")
    assert hasattr(blocking, "__enter__")


@pytest.mark.parametrize("name", ["Producer", "Consumer"])
def test_the_constructors_take_the_same_options(name: str) -> None:
    blocking, twin = next(pair for pair in TWINS if pair[0].__name__ == name)
    ours, theirs = (inspect.signature(one).parameters for one in (blocking, twin))
    assert [(p.name, p.annotation, p.default) for p in ours.values()] == [
        (p.name, p.annotation, p.default) for p in theirs.values()
    ]
