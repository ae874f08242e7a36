"""Web pages stay outside."""

from __future__ import annotations

import pytest

from lakequeue.errors import ForeignPage, MalformedBody, UnsupportedMediaType, WrongHost
from queue_access.pages import Pages, check_content_type, host_of, is_loopback

PAGES = Pages(["queue-1"], ["https://console.example.org"])


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8080",
        "LOCALHOST.:1",
        "127.0.0.1:80",
        "127.9.9.9",
        "[::1]:8081",
        "queue-1:8080",
    ],
)
def test_names_of_this_node_are_good(host: str) -> None:
    PAGES.check(host, "", "", "1.1")
    PAGES.check(host, "", "same-origin", "1.1")
    PAGES.check(host, "", "none", "1.1")
    PAGES.check(host, "https://console.example.org", "cross-site", "1.1")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example.org",
        "evil.example.org:8080",
        "127.0.0.1.evil.example.org",
        "localhost.evil.example.org",
        "localhost@evil.example.org",
        "evil.example.org/localhost",
        "",
        "[::1",
        "queue-2",
    ],
)
def test_a_name_that_was_made_to_mean_this_machine_is_refused(host: str) -> None:
    with pytest.raises(WrongHost):
        PAGES.check(host, "", "", "1.1")


def test_a_node_that_everybody_reaches_has_names_that_it_does_not_know() -> None:
    Pages(any_host=True).check("queue.example.org:8080", "", "", "1.1")


@pytest.mark.parametrize("origin", ["https://evil.example.org", "null", "http://localhost:3000"])
def test_pages_of_other_origins_are_refused(origin: str) -> None:
    with pytest.raises(ForeignPage):
        PAGES.check("localhost", origin, "", "1.1")


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_a_page_loads_without_an_origin_is_refused(site: str) -> None:
    with pytest.raises(ForeignPage):
        PAGES.check("localhost", "", site, "1.1")


def test_only_an_old_client_may_name_no_host() -> None:
    PAGES.check(None, "", "", "1.0")
    with pytest.raises(MalformedBody):
        PAGES.check(None, "", "", "1.1")


def test_a_body_says_what_it_is() -> None:
    check_content_type("POST", "", "", "")
    check_content_type("POST", "0", "", "")
    check_content_type("POST", "2", "", "application/json")
    check_content_type("GET", "2", "", "")
    for length, coding in (("2", ""), ("", "chunked")):
        with pytest.raises(UnsupportedMediaType):
            check_content_type("POST", length, coding, "")


def test_which_addresses_mean_this_machine_alone() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "::1", "localhost", "127.1.2.3")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "198.51.100.7", "queue-1", "")))
    assert host_of("[2001:db8::1]:80") == "2001:db8::1"
