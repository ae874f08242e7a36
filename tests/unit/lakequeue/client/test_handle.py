"""The future that `send` returns."""

from __future__ import annotations

import contextlib

import pytest

from lakequeue import LakequeueError, Producer


def test_a_wait_that_is_over_has_words() -> None:
    producer = Producer("http://127.0.0.1:9", linger_ms=3_600_000)
    handle = producer.send("orders", 1)
    with pytest.raises(TimeoutError, match=r"for orders is not acknowledged after 0\.01 s; it is"):
        handle.result(timeout=0.01)
    with contextlib.suppress(LakequeueError):
        producer.close(timeout_s=0)
    with pytest.raises(LakequeueError):
        handle.result(timeout=10)
