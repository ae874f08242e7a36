"""Whoever uses a keyboard, a screen reader, a dark room or a phone: axe-core has no findings."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.support.console.browser import emulate
from tests.support.console.running import Running

pytestmark = pytest.mark.zookeeper
PAGES = (
    "/",
    "/topics",
    "/topics/orders",
    "/topics/orders/records",
    "/topics/orders/records/0/3",
    "/topics/orders/records?begin=odd",
    "/topics/orders/send",
    "/groups",
    "/groups/billing",
    "/groups/shop?record=payments/0@1",
    "/webhooks",
    "/webhooks/shop",
    "/dead-letters",
    "/dead-letters/payments.dlq",
    "/sign-in",
    "/nothing-there",
)
RUN = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ["violations"]}).then(
  (found) => done(found.violations.map((one) => `${one.id}: ${one.nodes[0].html.slice(0, 200)}`)),
  (error) => done([String(error)]));
"""


@pytest.fixture(scope="session")
def axe() -> str:
    """The script, of a package that is not imported: it would want another driver of browsers."""
    found = importlib.util.find_spec("axe_playwright_python")
    assert found is not None
    folder = next(iter(found.submodule_search_locations or []))
    return (Path(folder) / "axe.min.js").read_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(queue: Running, browser: Chrome, axe: str, scheme: str) -> None:
    """On a phone and on a desk in turn."""
    found = {}
    for number, path in enumerate(PAGES):
        emulate(browser, *((390, 800) if number % 2 == (scheme == "dark") else (1280, 900)), scheme)
        browser.get(queue.console.url + path)
        browser.execute_script(axe)
        if violations := browser.execute_async_script(RUN):
            found[path] = violations
    assert found == {}


@pytest.mark.parametrize("path", PAGES[:12])
def test_a_phone_needs_not_be_moved_sideways(queue: Running, browser: Chrome, path: str) -> None:
    emulate(browser, 360, 740, "light")
    browser.get(queue.console.url + path)
    wide = "return [document.documentElement.scrollWidth, window.innerWidth]"
    width, room = browser.execute_script(wide)
    assert width <= room


def test_the_keyboard_gets_everywhere(queue: Running, browser: Chrome) -> None:
    browser.get(f"{queue.console.url}/topics")
    keyboard = browser.find_element(By.TAG_NAME, "body")
    keyboard.send_keys("/")
    find = browser.switch_to.active_element
    assert find.get_attribute("name") == "find"
    find.send_keys("order", Keys.ENTER)
    assert browser.current_url.endswith("find=order")
    browser.get(queue.console.url)
    reached = []
    for _ in range(8):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        reached.append(browser.switch_to.active_element.text)
    assert reached[:5] == ["Skip to the content", "lakequeue", "Overview", "Topics", "Groups"]
