"""Links of other sites, and the way back from an issuer: no service is there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from console.app import create_app
from console.server import make_context
from console.sessions import COOKIE
from lakequeue.settings import Settings

URL = "http://console.example.org"
ELSEWHERE = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document"}


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[FlaskClient]:
    nowhere = {"url": "http://127.0.0.1:9"}
    console = {"oidc_issuer": "https://id.example.org", "oidc_client_id": "console"}
    settings = Settings(root=str(tmp_path), ingest=nowhere, consumer=nowhere, console=console)
    context = make_context(settings, URL)
    yield create_app(context).test_client()
    context.close()


def test_a_link_of_another_site_ends_no_session(browser: FlaskClient) -> None:
    """The browser keeps a strict cookie back then: a new one would take its place."""
    page = browser.get("/sign-in?next=/topics", headers=ELSEWHERE)
    assert page.status_code == 200
    assert "Set-Cookie" not in page.headers
    assert 'content="0;url=/sign-in?next=/topics"' in page.text
    assert COOKIE in browser.get("/sign-in").headers["Set-Cookie"]


def test_who_comes_back_without_having_begun_is_told_where_to_begin(browser: FlaskClient) -> None:
    page = browser.get("/sign-in/back?state=x&code=y", headers=ELSEWHERE)
    assert page.status_code == 403
    assert f"Open the console at <code>{URL}</code>" in page.text
