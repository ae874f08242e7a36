"""Bodies of requests are counted by what they become, while they are read."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flask import Flask, Response

from lakequeue import wire
from serving.answers import answer_errors, waiting
from serving.front import wsgi
from serving.front.limits.budget import Budget
from serving.front.messages import Answer, Request, json_of
from serving.front.parking import Steps, Until, Wake
from serving.json_cost import becomes
from serving.requests import count_bodies, is_minimal, json_body, keeping_body

LISTS = b'{"acks":[' + b",".join([b"[]"] * 100_000) + b"]}"
ACKS = b'{"acks":[' + b",".join([b'"t.0.0.0.0"'] * 100_000) + b"]}"


@pytest.fixture
def app_of() -> Callable[[Budget], Flask]:
    def made(budget: Budget) -> Flask:
        app = Flask(__name__)
        answer_errors(app)
        count_bodies(app, budget)

        @app.post("/acks")
        def acks() -> Response:
            asked = json_body(wire.AckRequest, 4 << 20, "send fewer")
            return Response(f"{len(asked.acks)} {budget.used}")

        return app

    return made


def test_what_a_body_becomes_is_held_while_the_call_works(
    app_of: Callable[[Budget], Flask],
) -> None:
    budget = Budget(64 << 20)
    answer = app_of(budget).test_client().post("/acks", data=ACKS)
    assert answer.text == f"100000 {becomes(ACKS)}"
    assert budget.used == 0
    refused = app_of(budget).test_client().post("/acks", data=LISTS)
    assert refused.status_code == 422
    assert budget.used == 0


def test_what_a_body_becomes_is_held_while_a_call_waits() -> None:
    """It has it still, and many calls wait at once."""
    budget, wake = Budget(64 << 20), Wake()
    app = Flask(__name__)
    count_bodies(app, budget)

    @app.post("/acks")
    def acks() -> Response:
        asked = json_body(wire.AckRequest, 4 << 20, "send fewer")

        def steps() -> Steps[Answer]:
            yield Until(wake, 1.0)
            return json_of(len(asked.acks))

        return waiting(keeping_body(steps()))

    request = Request("POST", b"/acks", "/acks", "", [], "", body=ACKS)
    for way in ("ends", "is given up"):
        parked = wsgi.run(app, request, ("", 0), object())
        assert isinstance(parked, wsgi.Parked)
        next(parked.steps)
        assert budget.used == becomes(ACKS)
        if way == "ends":
            with pytest.raises(StopIteration) as end:
                next(parked.steps)
            assert end.value.value.body == b"100000"
        else:
            parked.steps.close()
        assert budget.used == 0


def test_a_body_that_can_never_have_a_place_is_too_large(
    app_of: Callable[[Budget], Flask],
) -> None:
    answer = app_of(Budget(4 << 20)).test_client().post("/acks", data=LISTS)
    problem = answer.get_json(force=True)
    assert (answer.status_code, problem["code"]) == (413, "too_large")
    assert "max_parsed_bytes" in problem["detail"]


def test_a_body_for_which_there_is_no_room_now_is_to_come_again(
    app_of: Callable[[Budget], Flask],
) -> None:
    budget = Budget(32 << 20)
    with budget.lease() as others:
        others.grow(budget.limit)
        answer = app_of(budget).test_client().post("/acks", data=LISTS)
        assert answer.status_code == 429
        assert answer.headers["Retry-After"]
        small = app_of(budget).test_client().post("/acks", data=b'{"acks":["r"]}')
        assert small.status_code == 200


def test_a_minimal_answer_is_asked_for_as_rfc_7240_says() -> None:
    assert is_minimal("return=minimal")
    assert is_minimal("wait=5, return=minimal ,handling=lenient")
    assert not is_minimal("return=representation")
    assert not is_minimal("xreturn=minimal")
    assert not is_minimal("")
    assert not is_minimal(None)
