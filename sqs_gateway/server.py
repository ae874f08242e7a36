"""The gateway as a process."""

from __future__ import annotations

from urllib.parse import urlsplit

from lakequeue.calling.addresses import consumer_urls, ingest_urls, named
from lakequeue.calling.credentials import Credentials
from lakequeue.errors import UnlockedDoors
from lakequeue.settings import Settings
from queue_access.pages import is_loopback
from serving.doors.gate import names_of
from serving.front.call import Call, Native
from serving.front.limits.shares import Kind
from serving.front.messages import json_of
from serving.front.routes import Way
from serving.process import Listening, Served, serve
from serving.tls import tls_of
from sqs_gateway.app import Waits, create_app, entrance
from sqs_gateway.calls.caller import Callers, Pools
from sqs_gateway.calls.services import Services
from sqs_gateway.gate import SqsGate
from sqs_gateway.gateway import Gateway
from sqs_gateway.keys import KeyFile
from sqs_gateway.metrics import Metrics
from sqs_gateway.rules.names import Names

NODE = "sqs"
_NO_BODY = 64 << 10
_MAX_BODY = 16 << 20
"""A message of 1 MiB, with everything in it escaped."""


def run(settings: Settings, parent: int | None) -> None:
    """Serve until SIGTERM or SIGINT. `parent`: end when this process (or 0: the parent) does."""
    sqs = settings.sqs
    at = Listening(sqs.host, sqs.port, settings.front, tls_of(settings.tls), None)
    check_host(settings)
    serve(NODE, at, lambda url: _start(settings, url), parent)


def check_host(settings: Settings) -> None:
    """Raise `UnlockedDoors` if others could reach a gateway that asks for no keys, or use its own.

    A gateway with a key of its own stands before a locked queue. On this machine, too, whoever
    reached it would have the rights of that key.
    """
    open_to_all = settings.access.let_anybody_read_write_and_delete
    locked = settings.sqs.keys_file is not None
    if not is_loopback(settings.sqs.host) and not locked and not open_to_all:
        raise UnlockedDoors(
            f"the gateway would listen on {settings.sqs.host}, and asks nobody for a key",
            hint="set sqs.keys_file, or listen on 127.0.0.1",
        )
    if (settings.api_key or settings.api_key_file) and not locked and not open_to_all:
        raise UnlockedDoors(
            "the gateway would lend its key to everybody on this machine",
            hint="set sqs.keys_file: clients then sign with keys of their own; or take"
            " LAKEQUEUE_API_KEY and LAKEQUEUE_API_KEY_FILE away",
        )


def _start(settings: Settings, url: str) -> Served:
    metrics = Metrics(settings)
    callers = callers_of(settings)
    gateway = gateway_of(settings, callers, metrics)
    gate = SqsGate(
        [*names_of(url, settings.sqs.host), *settings.access.hosts],
        locked=settings.sqs.keys_file is not None,
        open_to_all=settings.access.let_anybody_read_write_and_delete,
    )
    sqs = settings.sqs
    waits = Waits(sqs.max_waits)
    scheme = urlsplit(url).scheme
    app = create_app(gateway, metrics, url=sqs.url, waits=waits, scheme=scheme)
    return Served(
        app,
        {},
        on_term=lambda: None,
        close=callers.close,
        ways=ways_of(settings, entrance(gateway, waits)),
        gate=gate,
        on_front=metrics.front.began,
    )


def gateway_of(settings: Settings, callers: Callers, metrics: Metrics) -> Gateway:
    """What answers requests."""
    file = settings.sqs.keys_file
    keys = None if file is None else KeyFile(file)
    return Gateway(Names(settings.sqs.account, settings.sqs.region), callers, metrics, keys)


def callers_of(settings: Settings) -> Callers:
    """Whoever may call."""
    ingest = named(ingest_urls(None, settings))
    consumer = named(consumer_urls(None, settings))

    def services(key: str | None) -> Services:
        ca = None if settings.ca is None else str(settings.ca)
        own = None if settings.api_key is None else settings.api_key.get_secret_value()
        file = settings.api_key_file if key is None else None
        return Services(ingest, consumer, Credentials(key or own, file, ca))

    return Callers(services, settings.sqs.partitions, Pools(settings.sqs.max_waits))


def ways_of(settings: Settings, enter: Native) -> list[Way]:
    """How calls are answered: health first."""

    def healthz(call: Call) -> None:
        call.done(json_of({"status": "alive", "node": NODE}))

    state = Kind("state", 1, 64)
    unread = settings.front.max_unread_bytes
    call = Kind("sqs", 32, 2_048, answer_bytes=unread)
    return [
        Way("GET", "/healthz/?", state, _NO_BODY, healthz),
        Way("GET", "/readyz/?", state, _NO_BODY, healthz),
        Way("GET", "/metrics/?", Kind("metrics", 2, 64), _NO_BODY),
        Way("", ".*", call, _MAX_BODY, enter),
    ]
