"""What a locked ingest node writes down of its callers: who changed what, and what they used."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from deltalake import DeltaTable

from queue_access.quotas import Quota
from tests.support.access.locked import Locks, as_, locks, wait_status
from tests.support.services.ingest_service import IngestService
from tests.support.services.zookeeper import wait_for


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Locks:
    made = locks(tmp_path_factory.mktemp("audited") / "root")
    made.may("eve", "read", "topic", "other")
    return made


@pytest.fixture(scope="module")
def service(locked: Locks) -> Iterator[IngestService]:
    with IngestService(Path(locked.root.uri)) as running:
        admin = as_(locked.keys["admin"])
        assert running.http.put("/v1/topics/orders", json={}, headers=admin).status_code == 201
        yield running


def audited(locked: Locks) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        DeltaTable(f"{locked.root.uri}/audit").to_pyarrow_table().to_pylist()
    )
    return found


def test_a_refusal_is_in_the_audit_with_who_was_refused(
    service: IngestService, locked: Locks
) -> None:
    eve = as_(locked.keys["eve"])
    assert service.http.delete("/v1/topics/orders", headers=eve).status_code == 403

    def refused() -> list[dict[str, Any]]:
        calls = [r for r in audited(locked) if r["call"] == "DELETE /v1/topics/{topic}"]
        return [r for r in calls if r["principal"] == "eve"]

    wait_for(lambda: bool(refused()), "the refusal")
    [row] = refused()
    assert (row["name"], row["outcome"], row["status"]) == ("orders", "refused", 403)
    assert row["how"].startswith("key lq_")


def test_no_way_of_sending_a_change_keeps_it_out_of_the_audit(
    service: IngestService, locked: Locks
) -> None:
    kind = as_(locked.keys["admin"]) | {"Content-Type": "application/json"}
    deep = b'{"value_schema":' + b'{"not":' * 400 + b"{}" + b"}" * 400 + b"}"
    for name, body, other in (
        ("packed", gzip.compress(b'{"partitions":3}'), {"Content-Encoding": "gzip"}),
        ("deep", deep, {}),
    ):
        path = f"/v1/topics/{name}"
        status = service.http.put(path, content=body, headers=kind | other).status_code
        assert status in {201, 400, 413, 422}, status
        [row] = [r for r in audited(locked) if r["name"] == name]
        assert row["status"] == status
        assert row["after"].startswith(('{"partitions":3', '{"value_schema"'))


def test_what_a_packed_body_becomes_counts_as_well(service: IngestService, locked: Locks) -> None:
    key = locked.may("maker", "produce", "topic", "orders")
    locked.limit("maker", Quota(bytes_per_s=1_000.0))
    body = gzip.compress(orjson.dumps({"records": [{"value": "x" * 500_000}]}))
    assert len(body) < 1_000
    headers = as_(key) | {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    path = "/v1/topics/orders/records"
    wait_status(service.http, "/v1/topics/orders", key, 200)
    assert service.http.post(path, content=body, headers=headers).status_code == 200
    again = service.http.post(path, content=body, headers=headers)
    assert again.status_code == 429
    assert int(again.headers["Retry-After"]) > 60


def test_a_fenced_producer_is_in_the_audit_with_how_it_ended(
    service: IngestService, locked: Locks
) -> None:
    path = "/v1/producers/bob.till/epochs?timeout_ms=1000"
    answer = service.http.post(path, headers=as_(locked.keys["admin"]))
    # Nothing orders here: it is stored, and the caller does not learn its number.
    assert answer.status_code == 504, answer.text
    [row] = [r for r in audited(locked) if r["name"] == "bob.till"]
    assert row["call"] == "POST /v1/producers/{producer_id}/epochs"
    assert (row["outcome"], row["status"], row["detail"]) == ("failed", 504, "order_timeout")


def test_a_topic_for_dead_letters_that_a_send_makes_is_in_the_audit_once(
    service: IngestService, locked: Locks
) -> None:
    admin = as_(locked.keys["admin"])
    settings = {"value_schema": '{"type": "integer"}', "value_policy": "dead_letter"}
    assert service.http.put("/v1/topics/strict", json=settings, headers=admin).status_code == 201
    locked.may("ada", "produce", "topic", "strict")
    ada = as_(locked.keys["ada"])
    body = {"records": [{"value": "x"}, {"value": 2}]}
    path = "/v1/topics/strict/records"
    wait_for(lambda: service.http.post(path, json=body, headers=ada).is_success, "the key is known")
    # It needs no right over the topic that it makes, and cannot send there by itself.
    answer = service.http.post(path, json=body, headers=ada).json()
    assert [one.get("dead_letter_topic") for one in answer["records"]] == ["strict.dlq", None]
    other = service.http.post("/v1/topics/strict.dlq/records", json=body, headers=ada)
    assert other.status_code == 403
    [row] = [r for r in audited(locked) if r["after"] == '{"dead_letter_topic":"strict.dlq"}']
    assert (row["principal"], row["name"], row["outcome"]) == ("ada", "strict", "done")
