"""A webhook's runner goes on whatever happens."""

from __future__ import annotations

import threading

import pytest

from consumer_service.clients import Worker
from consumer_service.webhooks import runner
from consumer_service.webhooks.runner import WebhookRunner
from coordination.groups.webhooks import Webhook
from lakequeue.wire.calls.webhooks import new_secret

WEBHOOK = Webhook("g", "http://example.com/", ("orders",), new_secret(), 2, 1_000)


def unused() -> Worker:
    raise AssertionError


def test_an_error_that_nobody_foresaw_does_not_end_a_runner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "FIRST_RETRY_S", 0.001)
    made = WebhookRunner(WEBHOOK, unused, new_secret, allow_private=False)
    tries = 0
    again = threading.Event()

    def deliver() -> None:
        nonlocal tries
        tries += 1
        if tries > 1:
            again.set()
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(made, "_deliver", deliver)
    made.start()
    assert again.wait(10)
    made.stop()
    made.join(10)


def test_the_secret_is_not_shown() -> None:
    assert WEBHOOK.secret not in repr(WEBHOOK)
