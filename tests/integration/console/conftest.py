"""One running queue and one browser for the whole room."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest
from selenium.webdriver import Chrome

from queue_access.registry import LOCKED, Entry
from tests.support.access.locked import Locks, wait_status
from tests.support.console.browser import chromium, emulate, said_by
from tests.support.console.running import Running, running
from tests.support.services.zookeeper import wait_for


@pytest.fixture(scope="session")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A queue with records, groups, dead letters, and a console."""
    with running(tmp_path_factory.mktemp("console")) as started:
        yield started


@pytest.fixture(scope="session")
def _chromium() -> Iterator[Chrome]:
    with chromium() as started:
        yield started


@pytest.fixture
def browser(_chromium: Chrome) -> Chrome:
    """A browser that knows nothing of the test before."""
    _chromium.delete_all_cookies()
    emulate(_chromium, 1280, 900, "light")
    said_by(_chromium)
    return _chromium


@pytest.fixture
def locked(queue: Running) -> Iterator[Locks]:
    """The queue, with authentication switched on for as long as the test lasts."""
    locks = Locks(queue.queue.root).lock()
    with (
        httpx2.Client(base_url=queue.node.url) as node,
        httpx2.Client(base_url=queue.ingest_url) as ingest,
    ):
        for http in (node, ingest):
            wait_status(http, "/v1/nodes", None, 401)
        page = httpx2.Client(base_url=queue.console.url)
        wait_for(lambda: page.get("/").status_code == 303, "the console asks for a key")
        yield locks
        locks.put([Entry(LOCKED, LOCKED, deleted=True)])
        for http in (node, ingest):
            wait_status(http, "/v1/nodes", None, 200)
        wait_for(lambda: page.get("/").status_code == 200, "the console asks for none")
        page.close()
