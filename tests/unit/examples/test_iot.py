"""Where the sensors and controllers of the example look for the queue."""

from __future__ import annotations

import pytest

from examples.iot.plant import urls_in


def test_without_addresses_the_sdk_finds_the_queue_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On any port, as in the folder of `lakequeue up --ingest-port 0`."""
    monkeypatch.delenv("IOT_INGEST_URLS", raising=False)
    assert urls_in("IOT_INGEST_URLS") is None
    monkeypatch.setenv("IOT_INGEST_URLS", "http://a:8080,http://b:8080")
    assert urls_in("IOT_INGEST_URLS") == ["http://a:8080", "http://b:8080"]
