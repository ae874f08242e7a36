"""Somebody who uses the console: at a browser, or as far as forms go."""

from __future__ import annotations

import re

import httpx2
from selenium.common.exceptions import StaleElementReferenceException, WebDriverException
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from tests.support.services.zookeeper import wait_for


class Person:
    """Somebody at a browser, as far as forms go."""

    def __init__(self, url: str) -> None:
        self.http = httpx2.Client(base_url=url, timeout=60, follow_redirects=True)

    def form(self, path: str, action: str = "", **fields: str) -> httpx2.Response:
        """Load a page, and send a form that is on it, to `action` or to the page itself."""
        page = self.http.get(path).text
        found = re.search(r'name="csrf" value="(\w+)"', page)
        assert found
        return self.http.post(action or path, data={"csrf": found[1], **fields})


def body(browser: Chrome) -> str:
    """What the page says."""
    return browser.find_element(By.TAG_NAME, "main").text


def press(browser: Chrome, name: str) -> None:
    """Press a button that sends a form, and wait for the page that answers."""
    page = browser.find_element(By.TAG_NAME, "html")
    browser.find_element(By.XPATH, f"//button[contains(., '{name}')]").click()
    wait_for(lambda: _is_left(page), "another page")


def _is_left(page: WebElement) -> bool:
    """Whether the browser has another page than this element's."""
    try:
        page.is_enabled()
    except StaleElementReferenceException:
        return True
    except WebDriverException as error:
        # In the middle between two pages the driver says so, and a moment later that it is stale.
        if "does not belong to the document" not in str(error):
            raise
    return False


def write(browser: Chrome, form: str, **fields: str) -> None:
    """Fill fields of the form whose action contains `form`."""
    for name, text in fields.items():
        field = browser.find_element(By.CSS_SELECTOR, f'form[action*="{form}"] [name="{name}"]')
        field.clear()
        field.send_keys(text)
