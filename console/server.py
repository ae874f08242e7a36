"""The console as a process."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

from console.app import create_app
from console.asking.desk import LOOK_S, Desk
from console.asking.issuer import Issuer
from console.asking.patience import Patience
from console.asking.services import Addresses
from console.asking.tables import Tables
from console.context import Context
from console.gate import ConsoleGate
from console.pages.sign_in_elsewhere import BACK
from console.rules.masks import Masks
from console.rules.oidc import Client
from console.sessions import Sessions
from lakequeue.calling.addresses import consumer_urls, ingest_urls, named
from lakequeue.errors import InvalidSetting
from lakequeue.settings import ConsoleSettings, Settings
from queue_access.pages import is_loopback
from queue_tables.entries import must_be_locked
from serving.doors.gate import names_of
from serving.front.call import Call
from serving.front.limits.shares import Kind
from serving.front.messages import json_of
from serving.front.routes import Way
from serving.process import Listening, Served, serve
from serving.tls import tls_of

_NO_BODY = 64 << 10
_MAX_BODY = 2 << 20


def run(settings: Settings, parent: int | None) -> None:
    """Serve until SIGTERM or SIGINT. `parent`: end when this process (or 0: the parent) does."""
    console = settings.console
    at = Listening(console.host, console.port, settings.front, tls_of(settings.tls), console.url)
    serve("console", at, lambda url: _start(settings, url), parent)


def _start(settings: Settings, url: str) -> Served:
    if not is_loopback(settings.console.host):
        # Of one that only this machine reaches nothing is read before it listens.
        must_be_locked(settings.root, settings.console.host, settings.access)
    context = make_context(settings, url)
    scheme = url.partition(":")[0]
    gate = ConsoleGate(
        [*names_of(url, settings.console.host), *settings.access.hosts],
        scheme,
        lambda: context.locked,
        open_to_all=settings.access.let_anybody_read_write_and_delete,
    )
    stopping = threading.Event()
    ticking = threading.Thread(target=_tick, args=(context, stopping), name="rates", daemon=True)
    ticking.start()
    return Served(
        create_app(context, secure=scheme == "https"),
        {},
        on_term=stopping.set,
        close=context.close,
        ways=_ways(),
        gate=gate,
    )


def make_context(settings: Settings, url: str) -> Context:
    """What all pages share; `url`: by which browsers reach the console."""
    patience = Patience()
    at = Addresses(
        tuple(named(ingest_urls(None, settings))),
        tuple(named(consumer_urls(None, settings))),
        tuple(settings.console.drivers) or (_driver(settings),),
        tuple(settings.console.gateways),
    )
    ca = None if settings.ca is None else str(settings.ca)
    desk = partial(Desk, at, ca=ca, patience=patience)
    return Context(
        sessions=Sessions(desk(key=None), lambda key: desk(key=key)),
        tables=Tables(settings.root, patience),
        masks=Masks(settings.console.mask),
        read_only=settings.console.read_only,
        patience=patience,
        issuer=issuer_of(settings.console, url, settings.ca),
    )


def issuer_of(console: ConsoleSettings, url: str, ca: Path | None = None) -> Issuer | None:
    """Where people may sign in; None: with keys alone. Raises `InvalidSetting`."""
    if console.oidc_issuer is None or console.oidc_client_id is None:
        if console.oidc_issuer != console.oidc_client_id:
            raise InvalidSetting(
                "console.oidc_issuer and console.oidc_client_id belong together",
                hint="set both, or neither",
            )
        return None
    client = Client(
        console.oidc_issuer,
        console.oidc_client_id,
        url.rstrip("/") + BACK,
        console.oidc_scope,
        console.oidc_audience,
    )
    return Issuer(client, _secret_in(console.oidc_client_secret_file), ca=ca)


def _secret_in(file: Path | None) -> str | None:
    if file is None:
        return None
    try:
        return file.read_text().strip()
    except OSError as error:
        raise InvalidSetting(
            f"the file {file} cannot be read: {error.strerror}",
            hint="console.oidc_client_secret_file has to name a file with the secret",
        ) from None


def _driver(settings: Settings) -> str:
    scheme = "http" if settings.tls.cert is None else "https"
    return f"{scheme}://{settings.driver.host}:{settings.driver.port}"


def _tick(context: Context, stopping: threading.Event) -> None:
    """Look regularly, also while nobody does: for the rates of the last hour."""
    while not stopping.wait(LOOK_S):
        context.look_around()


def _ways() -> list[Way]:
    def healthz(call: Call) -> None:
        call.done(json_of({"status": "alive", "node": "console"}))

    state, page = Kind("state", 2, 64), Kind("page", 16, 256, answer_bytes=64 << 20)
    return [
        Way("GET", "/healthz/?", state, _NO_BODY, healthz),
        Way("GET", "/readyz/?", state, _NO_BODY, healthz),
        Way("", ".*", page, _MAX_BODY),
    ]
