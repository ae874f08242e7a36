"""Webhooks: a real node posts to a real endpoint."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest

from consumer_service.webhooks.endpoint import Endpoint as Poster
from consumer_service.webhooks.target import Verdict, target_of
from coordination.embedded import EmbeddedZooKeeper
from lakequeue.client.admin import Admin
from lakequeue.client.message import Message
from lakequeue.errors import GroupMismatch, InvalidRequest, UnknownTopic, UnknownWebhook
from lakequeue.records import Format
from lakequeue.wire.calls.webhooks import verify
from tests.support.access.certificates import Authority
from tests.support.services.consumer_node import (
    HttpMember,
    NodeProcess,
    Queue,
    describe,
    open_queue,
)
from tests.support.services.endpoint import Endpoint, Post, status
from tests.support.services.zookeeper import wait_for
from tests.support.tracing.kept_spans import kept_spans

pytestmark = pytest.mark.zookeeper
Start = Callable[..., NodeProcess]
FAST = {"backoff_ms": 100, "backoff_max_ms": 200, "max_attempts": 50}
ALLOW = {"LAKEQUEUE_CONSUMER__WEBHOOK_ALLOW_PRIVATE": "true"}


@pytest.fixture(scope="module")
def queue(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[Queue]:
    """A queue of this file's own: a node of another file's, which may not post to this machine,
    would stand for the webhooks too."""
    yield from open_queue(tmp_path_factory.mktemp("hooks"), zookeeper)


@pytest.fixture(scope="module")
def hooked(queue: Queue) -> Iterator[NodeProcess]:
    """A node that may post to this machine."""
    started = NodeProcess(queue, "hooked", None, 0, **ALLOW)
    yield started
    started.kill()


def settled(url: str, group: str, end: int) -> None:
    """Wait until everything below `end` is acked in the group."""

    def done() -> bool:
        row = describe(url, group).get(0, {})
        left = [row.get(name) for name in ("in_flight", "parked", "dying")]
        return row.get("committed_offset") == end and not any(left)

    wait_for(done, f"{group} is done up to {end}", every_s=0.2)


def test_records_are_posted_signed_and_acked(queue: Queue, hooked: NodeProcess) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a", "b"])
    with Endpoint(status(200)) as endpoint, Admin(consumer_urls=hooked.url) as admin:
        secret = admin.set_webhook("signed", endpoint.url, [topic.topic]).secret
        assert secret is not None
        queue.log.append(topic, ["c"])
        settled(hooked.url, "signed", 3)
        assert sorted(endpoint.offsets()) == [0, 1, 2]
        for post in endpoint.posts:
            record = post.record
            name = f"signed/{topic.topic}/0/{record['offset']}"
            assert verify(secret, post.headers, post.body, time.time()) == name
            assert (record["group"], record["attempt"], record["key"]) == ("signed", 1, "k")
        assert admin.webhook("signed").node == "hooked"
        assert admin.webhook("signed").secret is None
        # Told once; a changed URL gets a new one.
        assert admin.set_webhook("signed", endpoint.url, [topic.topic]).secret is None
        other = admin.set_webhook("signed", f"{endpoint.url}/other", [topic.topic]).secret
        assert other not in {None, secret}
        given = admin.set_webhook("signed", endpoint.url, [topic.topic], secret=secret)
        assert given.secret is None
        admin.delete_webhook("signed")
        with pytest.raises(UnknownWebhook):
            admin.webhook("signed")


@pytest.mark.parametrize("traces", [True, False])
def test_a_post_goes_on_in_the_trace_of_its_record(
    traces: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    said = {"topic": "orders", "partition": 0, "offset": 7, "attempt": 2, "value": "secret"}
    raw = said | {"headers": [{"key": "traceparent", "value": parent}], "receipt": "r"}
    with ExitStack() as stack:
        kept = stack.enter_context(kept_spans(monkeypatch)) if traces else None
        endpoint = stack.enter_context(Endpoint(status(500)))
        poster = Poster(target_of(endpoint.url), b"k" * 24, 10, allow_private=True)
        stack.callback(poster.close)
        verdict = poster.post("billing", Message(raw, None, 0, None))
        assert verdict == Verdict(False, "answered 500")
        [post] = endpoint.posts
        if kept is None:
            assert post.headers["traceparent"] == parent
            return
        [span] = kept.named("push orders")
    assert span.context is not None
    assert span.parent is not None
    mine = f"{span.context.trace_id:032x}-{span.context.span_id:016x}"
    assert post.headers["traceparent"] == f"00-{mine}-01"
    assert f"{span.parent.span_id:016x}" == "00f067aa0ba902b7"
    about = dict(span.attributes or {})
    assert (about["error.type"], about["messaging.message.delivery_attempt"]) == (
        "webhook_refused",
        2,
    )
    assert "secret" not in span.to_json()


def test_a_webhook_may_get_events_in_binary_mode(queue: Queue, hooked: NodeProcess) -> None:
    topic = queue.log.topic()
    said = (("ce_id", b"e 1"), ("ce_source", b"/shop"), ("ce_type", b"made"))
    headers = [[{"key": name, "value": value} for name, value in said]]
    queue.log.append(topic, ['{"n": 1}'], fmt=Format.JSON, headers=headers)
    with Endpoint(status(200)) as endpoint, Admin(consumer_urls=hooked.url) as admin:
        found = admin.set_webhook("binary", endpoint.url, [topic.topic], format="cloudevents")
        assert admin.webhook("binary").format == "cloudevents"
        settled(hooked.url, "binary", 1)
        [post] = endpoint.posts
        assert verify(found.secret or "", post.headers, post.body, time.time())
        assert (post.body, post.headers["content-type"]) == (b'{"n":1}', "application/json")
        sent = {name: text for name, text in post.headers.items() if name.startswith("ce-")}
        assert (sent["ce-specversion"], sent["ce-id"], sent["ce-type"]) == ("1.0", "e%201", "made")
        assert (sent["ce-lakequeuegroup"], sent["ce-lakequeueoffset"]) == ("binary", "0")
        admin.delete_webhook("binary")


def test_secrets_lie_sealed_in_zookeeper_and_are_good_for_their_address_alone(
    queue: Queue, hooked: NodeProcess
) -> None:
    topic = queue.log.topic()
    session = queue.session
    path = session.path("webhooks", "sealed")

    def kept() -> bytes:
        found = session.read(path)
        assert found is not None
        return found[0]

    with (
        Endpoint(status(200)) as endpoint,
        Endpoint(status(200)) as thief,
        Admin(consumer_urls=hooked.url) as admin,
    ):
        secret = admin.set_webhook("sealed", endpoint.url, [topic.topic]).secret
        assert secret is not None
        assert secret.encode() not in kept()
        fields = orjson.loads(kept())
        assert fields["secret"].startswith("sealed:")
        # One that an earlier release has kept as it is, is sealed.
        session.call(session.kazoo.set_async, path, orjson.dumps(fields | {"secret": secret}))
        wait_for(lambda: secret.encode() not in kept(), "it is sealed")
        queue.log.append(topic, ["a"])
        settled(hooked.url, "sealed", 1)
        verify(secret, endpoint.posts[0].headers, endpoint.posts[0].body, time.time())
        # Whoever can write here, and has not the root, cannot have other requests signed with it.
        moved = orjson.loads(kept()) | {"url": thief.url}
        queue.log.append(topic, ["b"])

        def refused() -> bool:
            # Again and again: nodes put back what the table says.
            session.call(session.kazoo.set_async, path, orjson.dumps(moved))
            return "cannot be opened" in hooked.trace.read_text()

        wait_for(refused, "it is not opened", every_s=0.5)
        assert not thief.posts
        assert admin.set_webhook("sealed", endpoint.url, [topic.topic]).secret != secret
        settled(hooked.url, "sealed", 2)
        admin.delete_webhook("sealed")


def closes_early(_post: Post, handler: BaseHTTPRequestHandler) -> None:
    """200, a length, and then less than that."""
    handler.send_response(200)
    handler.send_header("content-length", "100")
    handler.end_headers()
    handler.wfile.write(b"part")
    handler.close_connection = True


@pytest.mark.parametrize(
    "bad",
    [status(500), closes_early, status(302, location="http://127.0.0.1:1/"), status(404)],
    ids=["500", "200 that closes early", "redirect", "404"],
)
def test_what_is_not_a_whole_2xx_is_tried_again(
    queue: Queue, hooked: NodeProcess, bad: Callable[..., None]
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a"])
    group = f"retried-{topic.topic}"

    def third_time(post: Post, handler: BaseHTTPRequestHandler) -> None:
        (status(200) if len(endpoint.posts) > 2 else bad)(post, handler)

    with Endpoint(third_time) as endpoint, Admin(consumer_urls=hooked.url) as admin:
        admin.set_webhook(group, endpoint.url, [topic.topic], **FAST)
        settled(hooked.url, group, 1)
        assert [post.record["attempt"] for post in endpoint.posts] == [1, 2, 3]
        assert len({post.headers["webhook-id"] for post in endpoint.posts}) == 1
        admin.delete_webhook(group)


def test_a_hanging_endpoint_holds_up_no_other(queue: Queue, hooked: NodeProcess) -> None:
    topic = queue.log.topic()
    release = threading.Event()

    def hangs(post: Post, handler: BaseHTTPRequestHandler) -> None:
        release.wait(60)
        status(200)(post, handler)

    with (
        Endpoint(hangs) as slow,
        Endpoint(status(200)) as quick,
        Admin(consumer_urls=hooked.url) as admin,
    ):
        try:
            admin.set_webhook("slow", slow.url, [topic.topic], concurrency=2, timeout_ms=60_000)
            admin.set_webhook("quick", quick.url, [topic.topic])
            queue.log.append(topic, [str(n) for n in range(5)])
            wait_for(lambda: len(slow.posts) == 2, "the slow one has what it may have")
            settled(hooked.url, "quick", 5)
            assert len(slow.posts) == 2
        finally:
            release.set()
        settled(hooked.url, "slow", 5)
        admin.delete_webhook("slow")
        admin.delete_webhook("quick")


def drips(handler: BaseHTTPRequestHandler, before: bytes, drop: bytes) -> float:
    """Send a little now and then until the other side hangs up; how long it held on, in s."""
    begun = time.monotonic()
    handler.close_connection = True
    handler.wfile.write(before)
    hung_up = False
    while not hung_up and time.monotonic() - begun < 30:
        # Readable: the other side has ended. Else it is time for the next drop.
        hung_up = bool(select.select([handler.connection], [], [], 0.1)[0])
        try:
            handler.wfile.write(drop)
        except OSError:
            hung_up = True
    return time.monotonic() - begun


@pytest.mark.parametrize(
    ("before", "drop"),
    [(b"HTTP/1.1 200 OK\r\nx-slow: ", b"a"), (b"HTTP/1.1 200 OK\r\n\r\n", b"b")],
    ids=["headers", "body"],
)
def test_an_endpoint_that_drips_is_cut_off_at_its_timeout_and_holds_up_nobody(
    queue: Queue, hooked: NodeProcess, before: bytes, drop: bytes
) -> None:
    topic = queue.log.topic()
    group = f"dripped-{topic.topic}"
    owned: list[float] = []

    def first_drips(post: Post, handler: BaseHTTPRequestHandler) -> None:
        if post.record["offset"] == 0 and post.record["attempt"] <= 2:
            owned.append(drips(handler, before, drop))
        else:
            status(200)(post, handler)

    with (
        Endpoint(first_drips) as slow,
        Endpoint(status(200)) as quick,
        Admin(consumer_urls=hooked.url) as admin,
    ):
        # One at a time: the second record comes only when the first one's slot is free.
        options: dict[str, Any] = {"concurrency": 1, "timeout_ms": 1_000, **FAST}
        admin.set_webhook(group, slow.url, [topic.topic], **options)
        admin.set_webhook(f"{group}-quick", quick.url, [topic.topic])
        queue.log.append(topic, ["a", "b", "c"])
        settled(hooked.url, f"{group}-quick", 3)
        settled(hooked.url, group, 3)
        assert [p.record["attempt"] for p in slow.posts if p.record["offset"] == 0] == [1, 2, 3]
        assert len(owned) == 2
        assert all(0.9 < seconds < 5 for seconds in owned), owned
        admin.delete_webhook(group)
        admin.delete_webhook(f"{group}-quick")


def test_a_handshake_that_drips_is_cut_off_too() -> None:
    hung_up = threading.Event()

    def serve(listener: socket.socket) -> None:
        link, _ = listener.accept()
        with link, contextlib.suppress(OSError):
            # A TLS record of 16 kB that never comes to its end.
            link.sendall(b"\x16\x03\x03\x40\x00\x02")
            until = time.monotonic() + 30
            while time.monotonic() < until and not hung_up.wait(0.1):
                link.sendall(b"\0")
        hung_up.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = threading.Thread(target=serve, args=(listener,))
        serving.start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/"
        poster = Poster(target_of(url), b"key", 1.0, allow_private=True)
        raw = {"topic": "t", "partition": 0, "offset": 0, "timestamp": 0, "message_id": "m"}
        begun = time.monotonic()
        verdict = poster.post("g", Message(raw | {"receipt": "r"}, None, 1, None, lambda *_: None))
        assert time.monotonic() - begun < 10, "the endpoint goes on for 30 s"
        assert verdict == Verdict(False, "no whole answer within 1 s")
        poster.close()
        assert hung_up.wait(5)
        serving.join(5)


def test_an_endpoint_of_an_authority_of_our_own_is_trusted_if_that_is_named(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = authority.sign("hooks")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.cert, files.key)
    raw = {"topic": "t", "partition": 0, "offset": 0, "timestamp": 0, "message_id": "m"}
    record = Message(raw | {"receipt": "r"}, None, 1, None, lambda *_: None)
    with Endpoint(status(200), context) as endpoint:
        target = target_of(endpoint.url)
        for ca, done in ((None, False), (authority.ca, True)):
            poster = Poster(target, b"key", 10.0, allow_private=True, ca=ca)
            verdict = poster.post("g", record)
            assert verdict.done == done, verdict
            poster.close()
        assert len(endpoint.posts) == 1


def test_when_its_node_is_killed_another_posts(own_queue: Queue, start_node: Start) -> None:
    first, second = (start_node(own_queue, name, **ALLOW) for name in ("one", "two"))
    topic = own_queue.log.topic()
    nodes = {"one": first, "two": second}
    with Endpoint(status(200)) as endpoint, Admin(consumer_urls=second.url) as admin:
        admin.set_webhook("moves", endpoint.url, [topic.topic])
        own_queue.log.append(topic, ["a"])
        settled(second.url, "moves", 1)
        posting = admin.webhook("moves").node
        assert posting is not None
        nodes.pop(posting).kill()
        (left,) = nodes.values()
        own_queue.log.append(topic, ["b"])
        settled(left.url, "moves", 2)
        assert set(endpoint.offsets()) == {0, 1}


def test_bad_registrations_are_refused(own_queue: Queue, start_node: Start) -> None:
    node = start_node(own_queue)
    topic = own_queue.log.topic()
    with HttpMember(node.url, topic) as member, Admin(consumer_urls=node.url) as admin:
        public = "http://192.0.2.1/"
        for url, said in (
            ("http://127.0.0.1/", "not a public address"),
            ("http://127.0.0.1:9/", "port 9"),
            ("http://10.0.0.1/", "not a public address"),
            ("gopher://example.com/", "not an http"),
        ):
            with pytest.raises(InvalidRequest, match=said):
                admin.set_webhook("bad", url, [topic.topic])
        with pytest.raises(InvalidRequest, match="secret"):
            admin.set_webhook("bad", "http://1.1.1.1/", [topic.topic], secret="short")
        with pytest.raises(UnknownTopic):
            admin.set_webhook("bad", "http://1.1.1.1/", ["no-such-topic"])
        for options in (
            {"backoff_ms": 9, "backoff_max_ms": 1},
            {"dead_letter_topic": topic.topic},
        ):
            with pytest.raises(InvalidRequest):
                admin.set_webhook("bad", "http://1.1.1.1/", [topic.topic], **options)
        with pytest.raises(GroupMismatch, match="stream group"):
            admin.set_webhook(member.group, "http://1.1.1.1/", [topic.topic])
        answer: Any = httpx2.put(f"{node.url}/v1/groups/bad/webhook", json={"url": public})
        assert answer.status_code == 422
        assert answer.json()["field"] == "topics"
