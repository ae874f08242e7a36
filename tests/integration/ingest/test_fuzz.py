"""Whatever is sent, the answer is a 200 or a problem with a reason, never a 500."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakequeue import wire
from tests.support.services.ingest_service import IngestService

pytestmark = pytest.mark.timeout(400)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = st.sampled_from([*sorted(wire.RECORD_FIELDS), "other"])
ENVELOPE = st.sampled_from([*wire.ProduceEnvelope.model_fields, "other"])
BODIES = st.binary(max_size=60) | st.builds(
    lambda records, envelope: json.dumps(envelope | {"records": records}).encode(),
    st.lists(st.dictionaries(FIELDS, VALUES, max_size=4) | VALUES, max_size=3),
    st.dictionaries(ENVELOPE, VALUES, max_size=2),
)
TYPES = st.sampled_from([wire.JSON, wire.NDJSON, wire.ARROW_STREAM, "text/plain", ""])
ENCODINGS = st.sampled_from(["", "", "", "gzip", "zstd", "br"])
QUERIES = st.dictionaries(
    st.sampled_from(["wait", "timeout_ms", "producer_id", "sequence", "after", "x"]),
    st.sampled_from(["committed", "1", "-1", "", "9" * 30, "a b"]),
    max_size=2,
)


def check(answer: Any) -> None:
    assert answer.status_code < 500 or answer.status_code in {503}, answer.text
    if answer.status_code >= 400:
        problem = answer.json()
        assert answer.headers["content-type"] == wire.PROBLEM
        assert problem["detail"]
        assert problem["stored"] == "no"


@settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(body=BODIES, content_type=TYPES, encoding=ENCODINGS, query=QUERIES)
def test_produce(
    service: IngestService, body: bytes, content_type: str, encoding: str, query: dict[str, str]
) -> None:
    text = "&".join(f"{k}={quote(v)}" for k, v in query.items())
    headers = {"Content-Type": content_type} | ({"Content-Encoding": encoding} if encoding else {})
    check(service.http.post(f"/v1/topics/orders/records?{text}", content=body, headers=headers))


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    method=st.sampled_from(["PUT", "PATCH"]),
    config=st.dictionaries(
        st.sampled_from([*wire.TopicConfig.model_fields, "other"]), VALUES, max_size=3
    ),
)
def test_topics(service: IngestService, method: str, config: dict[str, Any]) -> None:
    answer = service.http.request(
        method,
        "/v1/topics/fuzzed",
        content=json.dumps(config).encode(),
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        assert answer.json()["detail"]
