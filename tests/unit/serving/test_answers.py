"""Answers that are the same at each call, and those that are waited for."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from lakequeue.errors import InvalidRequest
from serving.answers import Waiting, made_once
from serving.front import wsgi
from serving.front.messages import Answer, json_of
from serving.front.parking import Steps, Until, Wake


def test_the_openapi_document_is_made_once() -> None:
    made: list[int] = []

    def make() -> dict[str, int]:
        made.append(1)
        return {"made": len(made)}

    document = made_once(make)
    assert [document().json for _ in range(3)] == [{"made": 1}] * 3
    assert document().content_type == "application/json"


def waits(error: Exception | None) -> tuple[Steps[Answer], list[tuple[int, Any]]]:
    """A call that waits, and what the audit is told of its end: status and code."""

    def steps() -> Steps[Answer]:
        yield Until(Wake(), 1.0)
        if error is not None:
            raise error
        return json_of({})

    told: list[tuple[int, Any]] = []
    call = Waiting(steps())
    call.tell(lambda answer: told.append((answer.status, orjson.loads(answer.body).get("code"))))
    parked = call({wsgi.CALL: object()}, None)
    assert isinstance(parked, wsgi.Parked)
    next(parked.steps)
    return parked.steps, told


@pytest.mark.parametrize(
    ("error", "ends", "heard"),
    [
        (None, StopIteration, (200, None)),
        (InvalidRequest("no"), InvalidRequest, (422, "invalid_request")),
        (ZeroDivisionError(), ZeroDivisionError, (500, "broken")),
    ],
)
def test_the_audit_hears_how_a_call_that_waited_ended_whatever_it_was(
    error: Exception | None, ends: type[Exception], heard: tuple[int, Any]
) -> None:
    steps, told = waits(error)
    with pytest.raises(ends):
        next(steps)
    assert told == [heard]


def test_the_audit_hears_of_a_call_that_was_given_up_while_it_waited() -> None:
    steps, told = waits(None)
    steps.close()
    assert told == [(429, "overloaded")]
