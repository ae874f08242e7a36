"""The first screen in a real browser: what it says, that it lives, and that nothing holds it up."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from lakequeue import Producer
from tests.support.console.browser import said_by
from tests.support.console.running import ConsoleProcess, Running
from tests.support.services.zookeeper import wait_for

pytestmark = pytest.mark.zookeeper
SOON_S = 3.0
"""A page has a second; what is above it is the machine's, which runs other tests."""


def text_of(browser: Chrome, part: str) -> str:
    return browser.find_element(By.CSS_SELECTOR, f'[data-part="{part}"]').text


def test_it_shows_processes_leaders_groups_and_topics(queue: Running, browser: Chrome) -> None:
    browser.get(queue.console.url)
    health = text_of(browser, "health")
    assert "consumer-1 ready" in health
    assert "leads groups" in health
    wait_for(lambda: "billing" in text_of(browser, "groups"), "groups were looked at")
    assert "payments.dlq" in text_of(browser, "topics")
    # No driver runs here, which is what a person has to know.
    assert "no driver leads the order job" in text_of(browser, "concerns")
    assert said_by(browser) == []


def test_it_is_live(queue: Running, browser: Chrome) -> None:
    queue.admin().create_topic("made-while-looking", partitions=3)
    browser.get(queue.console.url)
    browser.execute_script("document.querySelector('a[href=\"/topics\"]').focus()")
    with Producer(queue.ingest_url) as producer:
        producer.send("made-while-looking", "x").result()
    queue.admin().create_topic("made-meanwhile", partitions=3)
    wait_for(lambda: "made-meanwhile" in text_of(browser, "topics"), "the new topic is shown")
    # Nobody who uses the keyboard loses the place.
    focused = browser.execute_script("return document.activeElement.getAttribute('href')")
    assert focused == "/topics"
    queue.admin().delete_topic("made-meanwhile")
    queue.admin().delete_topic("made-while-looking")


def test_every_answer_has_a_strict_policy_and_nothing_of_others(queue: Running) -> None:
    with httpx2.Client(base_url=queue.console.url) as http:
        page = http.get("/")
        script = http.get("/static/console.js")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["cache-control"] == "no-store"
    assert "httponly" in page.headers["set-cookie"].lower()
    assert "samesite=strict" in page.headers["set-cookie"].lower()
    assert script.status_code == 200
    assert "http" not in page.text.replace("http://www.w3.org", "").replace(queue.console.url, "")


def test_a_frozen_node_is_said_in_time(queue: Running, browser: Chrome) -> None:
    browser.get(queue.console.url)
    queue.node.freeze()
    try:
        wait_for(lambda: "consumer-1 gone" in text_of(browser, "health"), "it is noticed")
        began = time.monotonic()
        browser.get(queue.console.url)
        assert time.monotonic() - began < SOON_S
        assert "does not answer" in text_of(browser, "concerns")
        assert "payments" in text_of(browser, "topics")
    finally:
        queue.node.thaw()
    wait_for(lambda: "consumer-1 ready" in text_of(browser, "health"), "it is back")


@pytest.fixture
def deaf() -> Iterator[str]:
    """Takes connections and never says anything."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_with_everything_gone_or_hanging_it_says_so_in_time(deaf: str, tmp_path: Path) -> None:
    """Services that answer nothing, and a storage of which a read never returns."""
    (tmp_path / "_lakequeue").mkdir()
    os.mkfifo(tmp_path / "_lakequeue" / "format.json")
    nobody = "http://127.0.0.1:9"
    # Where drivers are by default, one of another test may answer.
    console = ConsoleProcess(str(tmp_path), deaf, nobody, "--driver-url", nobody)
    try:
        for _ in range(3):
            began = time.monotonic()
            page = httpx2.get(console.url, timeout=20).text
            assert time.monotonic() - began < SOON_S
            assert "No process answers." in page
            assert "no answer within" in page or "does not answer" in page
    finally:
        console.stop()
