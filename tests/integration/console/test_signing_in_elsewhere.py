"""People sign in at an OIDC issuer of another site, in a real browser: code, PKCE, cookies."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from queue_access.registry import entry_of_grant, entry_of_issuer
from queue_access.rights import checked_grant
from queue_access.tokens import Issuer
from tests.support.access.issuer import AUDIENCE, CLIENT_ID, SmallIssuer, small_issuer
from tests.support.access.locked import Locks, wait_status
from tests.support.console.browser import said_by
from tests.support.console.person import body, press
from tests.support.console.running import ConsoleProcess, Running
from tests.support.services.zookeeper import wait_for

pytestmark = pytest.mark.zookeeper


@pytest.fixture
def issuer(queue: Running, locked: Locks) -> Iterator[SmallIssuer]:
    """One that the queue knows; ada may read `orders`."""
    with small_issuer() as made:
        locked.put(
            [
                entry_of_issuer(Issuer("corp", made.url, AUDIENCE, f"{made.url}/jwks")),
                entry_of_grant("corp/ada", checked_grant("read", "topic", "orders")),
            ]
        )
        with (
            httpx2.Client(base_url=queue.node.url) as node,
            httpx2.Client(base_url=queue.ingest_url) as ingest,
        ):
            for http in (node, ingest):
                wait_status(http, "/v1/nodes", made.token("ada"), 200)
        yield made


@pytest.fixture
def console(queue: Running, issuer: SmallIssuer) -> Iterator[ConsoleProcess]:
    """One whose people sign in there."""
    settings = {
        "LAKEQUEUE_CONSOLE__OIDC_ISSUER": issuer.url,
        "LAKEQUEUE_CONSOLE__OIDC_CLIENT_ID": CLIENT_ID,
    }
    made = ConsoleProcess(queue.queue.root.uri, queue.ingest_url, queue.node.url, **settings)
    yield made
    made.stop()


def go_there(browser: Chrome, console: ConsoleProcess, issuer: SmallIssuer) -> None:
    browser.get(f"{console.url}/topics/orders/records?partition=0")
    browser.find_element(By.PARTIAL_LINK_TEXT, "Sign in at").click()
    wait_for(lambda: browser.current_url.startswith(issuer.url), "at the issuer")


def test_whoever_the_issuer_lets_in_sees_what_that_name_may_see(
    console: ConsoleProcess, issuer: SmallIssuer, browser: Chrome
) -> None:
    go_there(browser, console, issuer)
    press(browser, "No")
    wait_for(lambda: "did not let you in" in body(browser), "it is told")
    issuer.opaque = True
    go_there(browser, console, issuer)
    press(browser, "Let me in")
    wait_for(lambda: "are no JWT" in body(browser), "it is told")
    issuer.opaque = False
    go_there(browser, console, issuer)
    press(browser, "Let me in")
    wait_for(lambda: browser.current_url.endswith("/records?partition=0"), "where ada wanted to go")
    assert "4111-3" in body(browser)
    assert browser.find_element(By.CSS_SELECTOR, ".who .mono").text == "ada"
    cookies = {one["name"]: one for one in browser.get_cookies()}
    mine = cookies["lakequeue_console"]
    assert (mine["httpOnly"], mine["sameSite"]) == (True, "Strict")
    # Of the way there nothing is left, and the token is in no page.
    assert "lakequeue_console_on_the_way" not in cookies
    assert "eyJ" not in browser.page_source
    browser.get(f"{console.url}/topics")
    assert "payments" not in body(browser)
    # A refusal is an answer of 401, which the browser says; the issuer has no icon.
    said = [str(one) for one in said_by(browser) if console.url in str(one)]
    assert [one for one in said if "401" not in one] == []


def test_when_the_token_ends_so_does_the_session(
    console: ConsoleProcess, issuer: SmallIssuer, browser: Chrome
) -> None:
    issuer.lasts_s = 5
    go_there(browser, console, issuer)
    press(browser, "Let me in")
    wait_for(lambda: "4111-3" in body(browser), "ada is in")

    def asked_again() -> bool:
        browser.get(f"{console.url}/topics")
        return "Sign in at" in body(browser)

    wait_for(asked_again, "ada is asked again")


def test_an_answer_that_this_browser_did_not_ask_for_opens_nothing(
    console: ConsoleProcess, issuer: SmallIssuer
) -> None:
    with (
        httpx2.Client(base_url=console.url) as victim,
        httpx2.Client(base_url=console.url) as other,
    ):
        away = other.get("/sign-in/with", params={"next": "//evil.example"}).headers["location"]
        back = issuer.let_in(dict(httpx2.URL(away).params), {"do": "yes", "user": "ada"})
        refused = victim.get(back)
        assert refused.status_code == 403
        assert f"Open the console at <code>{console.url}</code>" in refused.text
        assert victim.get("/topics").status_code == 303
        taken = other.get(back)
        assert taken.status_code == 200
        assert 'content="0;url=/"' in taken.text
        assert other.get(back).status_code == 403
        # A code that somebody else has begun is of no use with another verifier.
        mine = other.get("/sign-in/with").headers["location"]
        stolen = issuer.let_in(dict(httpx2.URL(away).params), {"do": "yes", "user": "ada"})
        asked = dict(httpx2.URL(mine).params)
        code = dict(httpx2.URL(stolen).params)["code"]
        answer = other.get("/sign-in/back", params={"state": asked["state"], "code": code})
        assert answer.status_code == 401
        assert "invalid_grant" in answer.text


def test_while_the_issuer_is_away_keys_open_the_console(
    console: ConsoleProcess, issuer: SmallIssuer
) -> None:
    issuer.close()
    page = httpx2.get(f"{console.url}/sign-in/with", timeout=20)
    assert page.status_code == 503
    assert "does not answer" in page.text
    assert "API key" in page.text
