"""One running queue and one browser for the whole room."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome

from tests.support.console.browser import chromium, emulate, said_by
from tests.support.console.running import Running, running


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
