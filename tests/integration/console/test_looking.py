"""Topics, records and groups in a real browser: found, readable, followed, and harmless."""

from __future__ import annotations

import html
import re
from urllib.parse import quote

import httpx2
import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from lakequeue import Consumer, Producer
from tests.support.console.browser import said_by
from tests.support.console.person import body
from tests.support.console.running import ConsoleProcess, Running
from tests.support.services.zookeeper import wait_for

pytestmark = pytest.mark.zookeeper


def look(queue: Running, query: str, topic: str = "orders") -> str:
    """A page of records, as text of HTML."""
    page = httpx2.get(f"{queue.console.url}/topics/{topic}/records?{query}", timeout=20)
    assert page.status_code == 200
    return page.text


def test_a_topic_shows_partitions_files_owners_and_settings(
    queue: Running, browser: Chrome
) -> None:
    browser.get(f"{queue.console.url}/topics/orders")
    wait_for(lambda: "billing" in body(browser), "its groups were looked at")
    shown = body(browser)
    for word in ("End offset", "topic_id", "dedup_window_ms", "Files"):
        assert word in shown
    assert said_by(browser) == []


def test_foreign_text_does_nothing(queue: Running, browser: Chrome) -> None:
    browser.get(f"{queue.console.url}/topics/orders/records?partition=1")
    shown = body(browser)
    assert "<script>alert(1)</script> [/x] ⟨U+001B⟩[31m" in shown
    assert "tombstone" in shown
    assert "00 01 fe ff" in shown
    assert said_by(browser) == []


@pytest.mark.parametrize(
    ("query", "found", "missing"),
    [
        ("begin=oldest&partition=0&limit=3", "0@2", "0@3"),
        ("begin=offset&at=15&partition=0", "0@15", "0@14"),
        ("begin=time&at=2013-01-31T07:00:00Z&partition=0", "0@0", "1@0"),
        ("key=key-3", "0@18", "0@19"),
        ("text=4111-7", "0@7", "0@8"),
        ("where=" + quote("json_value(value, '$.order') = 11"), "0@11", "0@10"),
        ("limit=2&partition=0", "0@18", "0@17"),
    ],
)
def test_records_are_found(queue: Running, query: str, found: str, missing: str) -> None:
    page = look(queue, query)
    assert f">{found}</a>" in page
    assert f">{missing}</a>" not in page


def test_the_pages_of_a_search_go_on_to_the_end(queue: Running) -> None:
    seen: list[str] = []
    query = "limit=7&partition=0"
    while query:
        page = look(queue, query)
        seen += re.findall(r">(0@\d+)</a>", page)
        more = re.search(r'records\?([^"]+)" rel="next">Go on', page)
        query = html.unescape(more[1]) if more else ""
    assert seen == [f"0@{n}" for n in range(19, -1, -1)]


@pytest.mark.parametrize(
    "query", ["begin=offset&at=x", "begin=time&at=soon", "begin=odd", "partition=99", "where=)("]
)
def test_what_cannot_be_looked_for_is_said(queue: Running, query: str) -> None:
    assert "Not shown." in look(queue, query)


def test_new_records_are_followed_until_paused(queue: Running, browser: Chrome) -> None:
    browser.get(f"{queue.console.url}/topics/payments/records")
    browser.find_element(By.CSS_SELECTOR, "[data-pause]").click()
    with Producer(queue.ingest_url, acks="ordered") as producer:
        producer.send("payments", "seen while following").result()
    wait_for(lambda: "seen while following" in body(browser), "it is followed")


def test_a_record_is_shown_whole_and_can_be_had_elsewhere(queue: Running, browser: Chrome) -> None:
    browser.get(f"{queue.console.url}/topics/orders/records/0/3")
    shown = body(browser)
    for word in ('"number": "4111-3"', "trace", "00 ff", "SELECT", "curl", "from lakequeue import"):
        assert word in shown
    browser.find_element(By.LINK_TEXT, "in billing").click()
    assert "What became of it" in body(browser)
    assert "acked" in body(browser) or "pending" in body(browser)


def test_a_queue_group_shows_what_is_open(queue: Running) -> None:
    with Producer(queue.ingest_url, acks="ordered") as producer:
        producer.send("payments", {"payment": "open"}, key="open")
    with Consumer("payments", group="shop", mode="queue", urls=queue.node.url) as worker:
        message = worker.poll(30, max_records=1)[0]
        place = f"payments/0@{message.offset}"
        url = f"{queue.console.url}/groups/shop?record={place}"
        # Whatever did not answer in time is missing on a page.
        words = ("queue group", "Open records", "in flight", "<dt>Until</dt>")

        def shown() -> str:
            page = httpx2.get(url, timeout=20).text
            found = place in page.partition("One record")[0]
            return page if found and all(word in page for word in words) else ""

        wait_for(shown, f"{words}", every_s=0.1)


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/topics", "/topics/orders", "/topics/orders/records", "/topics/orders/records/0/3"),
        *("/groups", "/groups/billing", "/webhooks", "/webhooks/shop"),
        *("/dead-letters", "/dead-letters/payments.dlq"),
    ],
)
def test_each_view_says_how_to_see_it_in_spark(queue: Running, path: str) -> None:
    page = httpx2.get(queue.console.url + path, timeout=20).text
    assert "See this in Spark" in page or "SQL for Spark" in page
    assert "SELECT " in page


def test_what_a_rule_hides_is_nowhere(queue: Running) -> None:
    rules = '["orders:card.number", "orders:headers.trace"]'
    console = ConsoleProcess(
        queue.queue.root.uri, queue.ingest_url, queue.node.url, LAKEQUEUE_CONSOLE__MASK=rules
    )
    try:
        with httpx2.Client(base_url=console.url, timeout=20) as http:
            paths = ("?limit=200", "/0/3", "?text=4111", "?key=key-1")
            for path in (f"records{path}" for path in paths):
                page = http.get(f"/topics/orders/{path}").text
                assert "4111-" not in page.replace("text=4111", "")
                assert "not-for-all" not in page
            assert "hidden by a rule" in http.get("/topics/orders/records/0/3").text
    finally:
        console.stop()
