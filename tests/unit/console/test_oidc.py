"""What the console asks an OIDC issuer for, and what it takes of the answers."""

from __future__ import annotations

import base64
import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from typer.testing import CliRunner

from console.rules import oidc
from console.rules.oidc import Client, Endpoints
from console.server import issuer_of
from console.sessions import told
from lakequeue.errors import InvalidSetting, Unauthenticated
from lakequeue.settings import ConsoleSettings
from lakequeue_cli.app import app
from queue_tables.entries import AccessTable
from queue_tables.root import QueueRoot
from tests.support.documents.blocks import REPOSITORY, blocks_of, commands

PAGE = REPOSITORY / "docs" / "console.md"
ISSUER = "https://id.example.org/"
CLIENT = Client(ISSUER, "console", "https://console.example.org/sign-in/back")
AT = Endpoints("https://id.example.org/authorize", "https://id.example.org/token")
DOCUMENT = {
    "issuer": ISSUER,
    "authorization_endpoint": AT.authorization,
    "token_endpoint": AT.token,
    "code_challenge_methods_supported": ["plain", "S256"],
}
TOKEN = "eyJhbGciOiJFUzI1NiJ9.e30.c2ln"


def test_the_challenge_is_that_of_the_standard() -> None:
    """RFC 7636, appendix B."""
    verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    assert oidc.challenge_of(verifier) == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


def test_people_are_sent_with_a_challenge_and_never_with_its_verifier() -> None:
    url = oidc.authorization_url(AT, CLIENT, "state", "v" * 64)
    asked = parse_qs(urlsplit(url).query)
    assert asked["code_challenge_method"] == ["S256"]
    assert asked["redirect_uri"] == [CLIENT.callback]
    assert asked["state"] == ["state"]
    assert "v" * 64 not in url
    assert "audience" not in asked
    wanted = Client(ISSUER, "console", CLIENT.callback, audience="lakequeue")
    more = Endpoints(AT.authorization + "?tenant=1", AT.token)
    asked = parse_qs(urlsplit(oidc.authorization_url(more, wanted, "s", "v")).query)
    assert (asked["tenant"], asked["audience"]) == (["1"], ["lakequeue"])


@pytest.mark.parametrize(
    "changed",
    [
        {"issuer": "https://id.example.org"},
        {"code_challenge_methods_supported": ["plain"]},
        {"token_endpoint": "http://id.example.org/token"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"token_endpoint": None},
    ],
)
def test_a_description_that_is_not_of_the_issuer_or_not_safe_is_refused(
    changed: dict[str, Any],
) -> None:
    assert oidc.endpoints_in(DOCUMENT, ISSUER) == AT
    with pytest.raises(Unauthenticated):
        oidc.endpoints_in(DOCUMENT | changed, ISSUER)


@pytest.mark.parametrize(
    "answer",
    [
        {"error": "access_denied"},
        {"code": "c", "iss": "https://evil.example"},
        {"state": "s"},
    ],
)
def test_an_answer_without_a_code_of_the_issuer_is_refused(answer: dict[str, str]) -> None:
    assert oidc.code_in({"code": "c", "iss": ISSUER}, ISSUER) == "c"
    with pytest.raises(Unauthenticated):
        oidc.code_in(answer, ISSUER)


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (400, {"error": "invalid_grant"}),
        (200, None),
        (200, {"access_token": TOKEN, "token_type": "mac"}),
        (200, {"access_token": "opaque", "token_type": "Bearer"}),
        (200, {"access_token": 7, "token_type": "Bearer"}),
    ],
)
def test_only_a_token_that_services_can_check_is_taken(status: int, answer: Any) -> None:
    taken = oidc.token_in(200, {"access_token": TOKEN, "token_type": "Bearer", "expires_in": 60})
    assert (taken.text, taken.lasts_s) == (TOKEN, 60.0)
    with pytest.raises(Unauthenticated) as refused:
        oidc.token_in(status, answer)
    assert TOKEN not in str(refused.value)


def test_the_settings_of_the_page_make_a_client() -> None:
    page = PAGE.read_text()
    blocks = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (shown,) = (tomllib.loads(block) for block in blocks if "oidc" in block)
    console = ConsoleSettings(**shown["console"])
    made = issuer_of(console, str(console.url))
    assert made is not None
    assert made.client.callback == "https://console.example.org/sign-in/back"
    assert made.client.callback in page
    with pytest.raises(InvalidSetting, match="belong together"):
        issuer_of(console.model_copy(update={"oidc_client_id": None}), "http://x")
    assert issuer_of(ConsoleSettings(), "http://x") is None


def test_the_commands_of_the_page_let_ada_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEQUEUE_ROOT", str(tmp_path / "root"))
    root = QueueRoot.open(str(tmp_path / "root"))
    (block,) = (one for one in blocks_of(PAGE) if "auth issuer" in one.text)
    for command, _ in commands(block):
        done = CliRunner().invoke(app, shlex.split(command)[1:])
        assert done.exit_code == 0, done.output
    made = {(entry.kind, entry.principal) for entry in AccessTable(root).entries()}
    assert ("grant", "corp/ada") in made
    assert "issuer" in {kind for kind, _ in made}


def test_a_token_is_shown_by_the_name_in_it() -> None:
    def token(claims: object) -> str:
        body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
        return f"eyJ.{body}.sig"

    assert told(token({"sub": "ada"})) == "ada"
    assert told(token({"sub": "1", "email": "ada@example.org"})) == "ada@example.org"
    for nothing in (token([]), token({"sub": 3}), "a.b.c", "..", "x"):
        assert told(nothing) == "a token"
