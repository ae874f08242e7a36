"""An ingest node whose doors are locked, as a process."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from deltalake import DeltaTable

from lakequeue import Admin, Credentials, Producer
from lakequeue.errors import Forbidden, Unauthenticated
from queue_access.quotas import Quota
from tests.support.access.locked import Locks, as_, locks, secret_of, wait_status
from tests.support.services.fronts import Raw
from tests.support.services.ingest_service import IngestService
from tests.support.services.zookeeper import wait_for

OPEN = {"/healthz", "/readyz"}


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Locks:
    made = locks(tmp_path_factory.mktemp("locked") / "root")
    made.may("ada", "produce", "topic", "orders")
    made.may("bob", "manage", "topic", "bob-*")
    made.may("eve", "read", "topic", "other")
    made.key("nobody")
    return made


@pytest.fixture(scope="module")
def service(locked: Locks) -> Iterator[IngestService]:
    with IngestService(Path(locked.root.uri)) as running:
        for topic in ("orders", "other"):
            answer = running.http.put(
                f"/v1/topics/{topic}", json={}, headers=as_(locked.keys["admin"])
            )
            assert answer.status_code == 201, answer.text
        yield running


def address(service: IngestService) -> tuple[str, int]:
    url = httpx2.URL(service.ready["url"])
    return url.host, url.port or 0


def operations(document: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (method.upper(), path) for path, methods in document["paths"].items() for method in methods
    ]


def test_without_credentials_no_operation_answers_but_health(
    service: IngestService, locked: Locks
) -> None:
    document = service.http.get("/openapi.json", headers=as_(locked.keys["nobody"])).json()
    asked = operations(document)
    assert len(asked) >= 13
    for method, path in [*asked, ("GET", "/openapi.json"), ("GET", "/"), ("POST", "/v2")]:
        for headers in ({}, as_("lq_a_b"), {"Authorization": "Basic YTpi"}):
            kind = {"Content-Type": "application/json"}
            answer = service.http.request(
                method,
                path.replace("{", "").replace("}", ""),
                headers=headers | ({} if method == "GET" else kind),
                content=None if method == "GET" else b"{}",
            )
            if path in OPEN:
                assert answer.status_code == 200
                continue
            assert answer.status_code == 401, (method, path, answer.text)
            assert answer.headers["www-authenticate"].startswith("Bearer")
            problem = answer.json()
            assert problem["code"] == "unauthenticated"
            assert problem["hint"]


def test_it_is_refused_before_the_body_has_come(service: IngestService) -> None:
    raw = Raw(address(service))
    raw.send(
        b"POST /v1/topics/orders/records HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
    )
    assert raw.read().status == 401
    raw.close()


@pytest.mark.parametrize(
    "path",
    [
        b"//v1/topics", b"/v1//topics", b"/v1/topics/..", b"/v1/./topics", b"/V1/topics",
        b"/v1/topics%2Forders", b"/healthz/../v1/topics", b"/healthz%2f..%2fv1/topics",
        b"http://localhost/v1/topics", b"/readyz/x", b"/metrics/", b"/metrics?x=/healthz",
        b"/healthz;x", b"/v1/topics/orders/records?/healthz", b"/openapi/openapi.json",
        b"/v1/nodes#/healthz", b"/healthz\x00", b"/%2e%2e/metrics",
    ],
)  # fmt: skip
def test_no_spelling_of_a_path_gets_past(service: IngestService, path: bytes) -> None:
    for method in (b"GET", b"POST", b"HEAD", b"OPTIONS", b"DELETE", b"PROPFIND"):
        raw = Raw(address(service))
        raw.send(method + b" " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert raw.read(head=method == b"HEAD").status in {400, 401}, (method, path)
        raw.close()


def test_a_refused_head_has_no_body_that_the_next_answer_would_begin_with(
    service: IngestService,
) -> None:
    raw = Raw(address(service))
    for _ in range(2):
        raw.send(b"HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = raw.read(head=True)
        assert (answer.status, int(answer.headers["content-length"]) > 0) == (401, True)
    raw.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert raw.read().json()["status"] == "alive"
    raw.close()


def test_a_key_with_one_character_changed_is_refused(service: IngestService, locked: Locks) -> None:
    key = locked.keys["admin"]
    assert service.http.get("/v1/nodes", headers=as_(key)).status_code == 200
    for at in (3, 10, len(key) // 2, len(key) - 1):
        other = "A" if key[at] != "A" else "B"
        changed = key[:at] + other + key[at + 1 :]
        assert service.http.get("/v1/nodes", headers=as_(changed)).status_code == 401


def sent(service: IngestService, key: str, body: dict[str, Any], topic: str | None = None) -> int:
    path = "/v1/records" if topic is None else f"/v1/topics/{topic}/records"
    return service.http.post(path, json=body, headers=as_(key)).status_code


def test_records_go_where_the_sender_may_send(service: IngestService, locked: Locks) -> None:
    ada, eve = locked.keys["ada"], locked.keys["eve"]
    one = {"records": [{"value": 1}]}
    assert sent(service, ada, one, "orders") == 200
    assert sent(service, ada, one, "other") == 403
    assert sent(service, eve, one, "other") == 403
    many = {"records": [{"topic": "orders", "value": 1}, {"topic": "other", "value": 1}]}
    assert sent(service, ada, many) == 403
    assert sent(service, ada, {"records": many["records"][:1]}) == 200
    # Whether a topic exists is nobody's business who may not use it.
    assert sent(service, ada, one, "there-is-none") == 403


def test_a_producer_shuts_out_no_other(service: IngestService, locked: Locks) -> None:
    ada = locked.keys["ada"]
    for producer in ("till", "bob", "adam", "ada-2"):
        path = f"/v1/producers/{producer}/epochs?timeout_ms=1"
        assert service.http.post(path, headers=as_(ada)).status_code == 403
        body = {"records": [{"value": 1}], "producer_id": producer, "producer_epoch": 1}
        assert sent(service, ada, body, "orders") == 403
    own = service.http.post("/v1/producers/ada.till/epochs?timeout_ms=1", headers=as_(ada))
    assert own.status_code == 504  # it waits to be ordered, and nobody orders here


def test_to_send_what_was_consumed_is_to_consume(service: IngestService, locked: Locks) -> None:
    consumed = {
        "group": "g", "topic": "other", "partition": 0, "from_offset": 0, "next_offset": 1,
    }  # fmt: skip
    body = {"records": [{"value": 1}], "atomic": True, "consumed": consumed}
    assert sent(service, locked.keys["ada"], body, "orders") == 403


def test_topics_are_made_by_who_may_and_seen_by_who_has_a_right(
    service: IngestService, locked: Locks
) -> None:
    bob, http = locked.keys["bob"], service.http
    assert http.put("/v1/topics/bob-1", json={}, headers=as_(bob)).status_code == 201
    assert http.put("/v1/topics/bobs", json={}, headers=as_(bob)).status_code == 403
    assert http.delete("/v1/topics/orders", headers=as_(bob)).status_code == 403
    # His dead letters may not go where he may not send.
    fed = {"dead_letter_topic": "orders"}
    assert http.patch("/v1/topics/bob-1", json=fed, headers=as_(bob)).status_code == 403

    def seen(name: str) -> set[str]:
        answer = http.get("/v1/topics", headers=as_(locked.keys[name])).json()
        return {topic["topic"] for topic in answer["topics"]}

    assert seen("bob") == {"bob-1"}
    assert seen("ada") == {"orders"}
    assert seen("nobody") == set()
    assert {"bob-1", "orders", "other"} <= seen("admin")


def test_a_revoked_key_is_refused_at_every_node_within_seconds(locked: Locks) -> None:
    key = locked.may("short", "read", "queue", "*")
    root = Path(locked.root.uri)
    with IngestService(root, node="n2") as one, IngestService(root, node="n3") as two:
        for node in (one, two):
            wait_status(node.http, "/metrics", key, 200)
        locked.revoke("short")
        for node in (one, two):
            wait_status(node.http, "/metrics", key, 401)


def test_doors_are_locked_while_a_node_runs(tmp_path: Path) -> None:
    from queue_tables.root import QueueRoot

    with IngestService(tmp_path / "root") as service:
        assert service.http.get("/v1/topics").status_code == 200
        Locks(QueueRoot.existing(str(tmp_path / "root"))).lock()
        wait_status(service.http, "/v1/topics", None, 401)


def test_the_sdk_shows_a_key_and_takes_a_new_one_from_its_file(
    service: IngestService, locked: Locks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = service.ready["url"]
    with Admin(url, credentials=locked.keys["ada"]) as admin:
        assert [topic.topic for topic in admin.topics()] == ["orders"]
        with pytest.raises(Forbidden, match="manage"):
            admin.delete_topic("orders")
    with Admin(url) as admin, pytest.raises(Unauthenticated):
        admin.topics()
    file = tmp_path / "key"
    first = locked.may("cara", "produce", "topic", "orders")
    file.write_text(first + "\n")
    monkeypatch.setenv("LAKEQUEUE_API_KEY_FILE", str(file))
    with Producer(url, linger_ms=0, find_nodes=False) as producer:
        wait_status(service.http, "/v1/topics", first, 200)
        producer.send("orders", 1).result(30)
        locked.revoke("cara")
        wait_status(service.http, "/v1/topics", first, 401)
        second = locked.key("cara")
        wait_status(service.http, "/v1/topics", second, 200)
        file.write_text(second)
        producer.send("orders", 2).result(30)
    assert first not in repr(Credentials(first))


def test_a_quota_is_told_with_the_time_to_wait(service: IngestService, locked: Locks) -> None:
    key = locked.may("greedy", "produce", "topic", "orders")
    locked.limit("greedy", Quota(records_per_s=10))
    wait_status(service.http, "/v1/topics", key, 200)
    body = {"records": [{"value": n} for n in range(100)]}
    assert sent(service, key, body, "orders") == 200
    answer = service.http.post("/v1/topics/orders/records", json=body, headers=as_(key))
    assert answer.status_code == 429
    assert answer.json()["code"] == "over_quota"
    assert int(answer.headers["retry-after"]) >= 8
    assert sent(service, locked.keys["ada"], body, "orders") == 200


def test_a_principal_has_no_more_connections_than_its_quota(
    service: IngestService, locked: Locks
) -> None:
    # In this order: a node that knows the key knows the quota.
    locked.limit("many", Quota(connections=2))
    key = locked.may("many", "produce", "topic", "orders")
    wait_status(service.http, "/v1/topics/orders", key, 200)
    url = str(service.http.base_url)
    with contextlib.ExitStack() as stack:
        # The client of this test has shown the key as well, but shows another now.
        assert service.http.get("/healthz").status_code == 200
        wait_status(service.http, "/v1/topics/orders", locked.keys["admin"], 200)
        first, second, third = (
            stack.enter_context(httpx2.Client(base_url=url, timeout=60)) for _ in range(3)
        )

        def status(http: httpx2.Client) -> int:
            return http.get("/v1/topics/orders", headers=as_(key)).status_code

        assert (status(first), status(second)) == (200, 200)
        answer = third.get("/v1/topics/orders", headers=as_(key))
        assert (answer.status_code, answer.json()["code"]) == (429, "over_quota")
        assert "Retry-After" in answer.headers
        assert status(first) == 200, "those that are open go on"
        first.close()
        wait_for(lambda: status(third) == 200, "there is room again")


def test_a_principal_makes_no_more_topics_and_partitions_than_its_quota(
    service: IngestService, locked: Locks
) -> None:
    key = locked.may("maker", "manage", "topic", "made-*")
    locked.limit("maker", Quota(topics=2, partitions=5))
    wait_status(service.http, "/v1/topics", key, 200)

    def make(name: str, partitions: int, method: str = "PUT") -> int:
        path = f"/v1/topics/made-{name}"
        body = {"partitions": partitions}
        return service.http.request(method, path, json=body, headers=as_(key)).status_code

    assert make("1", 6) == 429
    assert make("1", 3) == 201
    assert make("2", 3) == 429
    assert make("2", 2) == 201
    assert make("3", 1) == 429
    assert make("2", 3, "PATCH") == 429
    assert make("2", 2) == 200
    told = service.http.get("/metrics", headers=as_(locked.keys["admin"])).text
    assert 'lakequeue_access_refused_total{code="unauthenticated"}' in told


def test_changes_and_refusals_are_in_the_audit_and_no_secret_is_anywhere(
    service: IngestService, locked: Locks
) -> None:
    admin = locked.keys["admin"]
    assert service.http.put("/v1/topics/gone", json={}, headers=as_(admin)).status_code == 201
    assert service.http.delete("/v1/topics/gone", headers=as_(admin)).status_code == 204
    canary = "lq_canarycanary_" + "c" * 43
    assert service.http.get("/metrics", headers=as_(canary)).status_code == 401
    metrics = service.http.get("/metrics", headers=as_(admin)).text

    def rows() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (
            DeltaTable(f"{locked.root.uri}/audit").to_pyarrow_table().to_pylist()
        )
        return found

    wait_for(lambda: any(r["call"] == "GET /metrics" for r in rows()), "the refusal")
    deleted = next(r for r in rows() if r["call"].startswith("DELETE") and r["name"] == "gone")
    assert deleted["principal"] == "admin"
    assert deleted["how"].startswith("key lq_")
    assert deleted["address"] == "127.0.0.1"
    assert deleted["outcome"] == "done"
    assert json.loads(deleted["before"])["topic"] == "gone"
    everything = service.stderr() + metrics + json.dumps(rows(), default=str)
    for secret in (canary, *locked.keys.values()):
        assert secret_of(secret) not in everything


# -- pages, and other addresses -------------------------------------------------------------------


@pytest.fixture(scope="module")
def unlocked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IngestService]:
    with IngestService(tmp_path_factory.mktemp("open") / "root") as running:
        running.create("orders")
        yield running


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "https://evil.example.org"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Host": "evil.example.org"}, 421),
        ({"Host": "localhost:1"}, 200),
    ],
)
def test_web_pages_are_kept_out_of_a_node_without_authentication(
    unlocked: IngestService, headers: dict[str, str], status: int
) -> None:
    for method, path in (("GET", "/v1/topics"), ("POST", "/v1/topics/orders/records")):
        content = None if method == "GET" else b'{"records": [{"value": 1}]}'
        kind = {} if method == "GET" else {"Content-Type": "application/json"}
        answer = unlocked.http.request(method, path, headers=headers | kind, content=content)
        assert answer.status_code == status, answer.text


def test_a_body_has_to_say_what_it_is(unlocked: IngestService) -> None:
    for method in ("POST", "PUT", "PATCH"):
        answer = unlocked.http.request(method, "/v1/topics/orders", content=b"{}")
        assert answer.status_code == 415
    form = {"Content-Type": "text/plain"}
    answer = unlocked.http.put("/v1/topics/formed", content=b"{}", headers=form)
    assert answer.status_code == 415


def test_a_node_that_others_reach_starts_only_with_authentication_or_when_told_so(
    tmp_path: Path, locked: Locks
) -> None:
    others = ("--host", "0.0.0.0")
    with IngestService(tmp_path / "root", *others) as refused:
        assert refused.ready["event"] == "failed"
        assert refused.ready["code"] == "unlocked_doors"
        assert "lakequeue auth init" in refused.ready["hint"]
        assert "let_anybody_read_write_and_delete" in refused.ready["hint"]
        assert refused.process.wait(30) == 3
    assert not (tmp_path / "root" / "inbox").exists()
    told = {"LAKEQUEUE_ACCESS__LET_ANYBODY_READ_WRITE_AND_DELETE": "true"}
    with IngestService(tmp_path / "root", *others, **told) as opened:
        assert opened.ready["event"] == "ready"
    with IngestService(Path(locked.root.uri), *others, node="n9") as safe:
        assert safe.ready["event"] == "ready"
