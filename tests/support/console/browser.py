"""A real Chromium, driven by Selenium with the driver of the same package: nothing is fetched."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

NAMES = ("chromium", "chromium-browser", "google-chrome")


def found() -> tuple[str, str]:
    """(browser, driver). Raises with what to run if one is missing."""
    browser = next((path for name in NAMES if (path := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        raise RuntimeError("there is no Chromium with its driver here: run `make browser`")
    return browser, driver


@contextmanager
def chromium(width: int = 1280, height: int = 900, *, dark: bool = False) -> Iterator[Chrome]:
    """A browser without a window, in a folder of its own."""
    browser, driver = found()
    with tempfile.TemporaryDirectory() as profile:
        options = ChromeOptions()
        options.binary_location = browser
        for argument in (
            "--headless=new",
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
            "--hide-scrollbars",
            f"--window-size={width},{height}",
            f"--user-data-dir={Path(profile) / 'profile'}",
            *(["--force-dark-mode"] if dark else []),
        ):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driven = Chrome(options=options, service=Service(driver))
        try:
            driven.set_page_load_timeout(20)
            yield driven
        finally:
            driven.quit()


def emulate(browser: Chrome, width: int, height: int, scheme: str) -> None:
    """The size of a device, and whether its owner likes it light or dark."""
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
    )
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def said_by(browser: Chrome) -> list[dict[str, object]]:
    """What stands in the browser's console since the last call: each line is a fault of a page."""
    said: list[dict[str, object]] = browser.get_log("browser")  # type: ignore[no-untyped-call]
    return said
