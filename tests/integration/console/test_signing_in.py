"""With locked doors: who signs in does what the key may do, and the audit names whose it is."""

from __future__ import annotations

import re

import httpx2
import pytest

from queue_tables.delta.table import TableLog
from queue_tables.files.parquet import read_data_file
from queue_tables.schema.schemas import AUDIT
from tests.support.access.locked import Locks, secret_of
from tests.support.console.running import Running
from tests.support.services.zookeeper import wait_for

pytestmark = pytest.mark.zookeeper


class Person:
    """Somebody with a key at a browser."""

    def __init__(self, url: str, key: str) -> None:
        self.http = httpx2.Client(base_url=url, timeout=60, follow_redirects=True)
        self.key = key

    def csrf(self, path: str) -> str:
        found = re.search(r'name="csrf" value="(\w+)"', self.http.get(path).text)
        assert found
        return found[1]

    def sign_in(self) -> httpx2.Response:
        sent = {"csrf": self.csrf("/sign-in"), "key": self.key, "next": "/topics"}
        return self.http.post("/sign-in", data=sent)

    def get_in(self) -> httpx2.Response:
        """Sign in, as soon as the nodes have heard of the key."""
        answers: list[httpx2.Response] = []

        def inside() -> bool:
            answers[:] = [self.sign_in()]
            return bool(answers[0].history)

        wait_for(inside, "the key is known", every_s=0.2)
        return answers[0]


def test_a_key_opens_what_it_may_and_stands_nowhere(queue: Running, locked: Locks) -> None:
    url = queue.console.url
    reader = Person(url, locked.may("reader", "read", "topic", "orders"))
    assert "Sign in" in reader.http.get("/topics/orders").text
    assert "Not signed in" in Person(url, "lq_abc_wrong").sign_in().text
    first = reader.get_in()
    assert "<h1>Topics</h1>" in first.text
    cookie = first.history[0].headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    records = "/topics/orders/records"
    wait_for(lambda: "card" in reader.http.get(records).text, "records are shown", every_s=0.5)
    pages = [reader.http.get(path).text for path in ("/", "/topics", records)]
    assert not any(secret_of(reader.key) in page for page in [*pages, cookie])
    # Only what the key may see: neither other topics nor what concerns the whole queue.
    assert "payments" not in pages[1]
    assert "need the right" in pages[0]
    sent = {"csrf": reader.csrf("/topics/orders/send"), "value": "1", "kind": "json"}
    answer = reader.http.post("/topics/orders/send", data=sent).text
    assert "has not the right produce" in answer
    reader.http.post("/sign-out", data={"csrf": reader.csrf("/topics")})
    assert "Sign in" in reader.http.get("/topics").text


def test_the_audit_names_who_moved_a_group_here(queue: Running, locked: Locks) -> None:
    boss = Person(queue.console.url, locked.keys["admin"])
    boss.get_in()
    sent = {"csrf": boss.csrf("/groups/billing"), "to": "latest", "confirm": "billing"}
    answer = boss.http.post("/groups/billing/seek", data=sent | {"do": "seek"}).text
    assert "Moved." in answer
    wait_for(lambda: ("admin", "billing") in seeks(queue), "it is in the audit")


def seeks(queue: Running) -> set[tuple[str, str]]:
    """(principal, group) of each seek in the audit."""
    root = queue.queue.root
    rows = [
        row
        for path in TableLog(root.store, AUDIT.name).open().files
        for row in read_data_file(root.store, AUDIT.name, path).to_pylist()
    ]
    return {(row["principal"], row["name"]) for row in rows if row["call"].endswith("/seek")}


def test_a_revoked_key_is_asked_for_again(queue: Running, locked: Locks) -> None:
    reader = Person(queue.console.url, locked.may("late", "read", "topic", "orders"))
    reader.get_in()
    assert "<h1>Topics</h1>" in reader.http.get("/topics").text
    locked.revoke("late")
    path = "/topics/orders/records"
    wait_for(lambda: "card" not in reader.http.get(path).text, "it opens nothing any more")
