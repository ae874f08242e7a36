"""Runs scripts with blocking I/O. httpx2's exceptions are translated here and in
`asyncio_runner`.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import httpx2

from lakequeue.calling import forks
from lakequeue.calling.credentials import Bearer, Credentials, credentials_of
from lakequeue.calling.driving import drive, finish
from lakequeue.calling.effects import Effect, Http, Reply, Request, Script, Together, Unanswered

T = TypeVar("T")
CONNECT_TIMEOUT_S = 5.0
_mounted: dict[str, Any] = {}
"""Base URL → what answers there in place of a network."""


class Signal:
    """Wakes whoever waits for a change of what `lock` protects."""

    def __init__(self, lock: threading.RLock) -> None:
        self._changed = threading.Condition(lock)
        self.made_in = forks.process

    def notify(self) -> None:
        """Something has changed: every waiter looks again."""
        if forks.is_parents(self.made_in):
            return  # nobody waits here, and a thread of the parent may have had the lock
        with self._changed:
            self._changed.notify_all()

    def wait_until(self, until: Callable[[], bool], timeout_s: float | None) -> bool:
        """Wait, holding the lock only while looking; the last value of `until()`."""
        with self._changed:
            return self._changed.wait_for(until, timeout_s)


def new_signal() -> Signal:
    """A notification for calls that nobody interrupts."""
    return Signal(threading.RLock())


def open_http(
    headers: dict[str, str],
    urls: Sequence[str],
    credentials: Credentials | str | None = None,
) -> httpx2.Client:
    """A client for loopback and data-centre use: no proxy from the environment."""
    return httpx2.Client(**client_args(headers, urls, credentials))


def client_args(
    headers: dict[str, str],
    urls: Sequence[str],
    credentials: Credentials | str | None = None,
) -> dict[str, Any]:
    """Keyword arguments of httpx2's clients."""
    who = credentials_of(credentials)
    args: dict[str, Any] = {
        # A request goes through it twice: whoever has no secret pays nothing.
        "auth": Bearer(who) if who.has_secret else None,
        "headers": headers,
        "timeout": timeout_of(30.0),
        "follow_redirects": False,
        "trust_env": False,
        "mounts": dict(_mounted),
    }
    if not any(url.startswith("https:") for url in urls):
        # Reading all certificates takes longer than a request. Without them a redirect to https
        # fails, which is right: it would leave what was configured.
        args["verify"] = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    else:
        args["verify"] = who.trust()
    return args


def mount(urls: Sequence[str], transport: Any) -> Callable[[], None]:
    """Have clients made from now on ask `transport` at these base URLs, until what is returned is
    called. It is a transport of httpx2, blocking and async. For `lakequeue.testing`.
    """
    before = dict(_mounted)
    _mounted.update(dict.fromkeys(urls, transport))

    def unmount() -> None:
        for url in urls:
            if _mounted.get(url) is transport:
                del _mounted[url]
            if url in before:
                _mounted[url] = before[url]

    return unmount


def is_mounted(url: str) -> bool:
    """Whether something answers at this base URL in place of a network."""
    return url in _mounted


def timeout_of(read_s: float) -> httpx2.Timeout:
    """Connecting is quick or fails; reading may be a long poll."""
    return httpx2.Timeout(read_s, connect=CONNECT_TIMEOUT_S)


def reply_of(response: httpx2.Response) -> Reply:
    """An httpx2 response as scripts see it."""
    headers = {k.lower(): v for k, v in response.headers.items()}
    return Reply(response.status_code, headers, response.content)


def unanswered(e: httpx2.RequestError) -> Unanswered:
    """Tell a connection that was never made from one that broke."""
    never_sent = isinstance(e, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)
    return Unanswered(f"{type(e).__name__} {e}".strip(), sent=not never_sent)


def request_args(request: Request) -> dict[str, Any]:
    """Keyword arguments of httpx2's `request`."""
    args: dict[str, Any] = {"timeout": timeout_of(request.read_timeout_s)}
    if request.params:
        args["params"] = dict(request.params)
    if request.body is not None:
        args["content"] = request.body
        args["headers"] = {"content-type": request.content_type, **request.headers}
    elif request.headers:
        args["headers"] = dict(request.headers)
    return args


def run(script: Script[T], http: httpx2.Client, signal: Signal) -> T:
    """Run `script` to its end in this thread. Raises `NotReady` in a process that was forked since
    `signal` was made.
    """
    forks.check_process(signal.made_in)

    async def perform(effect: Effect) -> Any:
        return _perform(effect, http, signal)

    return finish(drive(script, perform, Exception))


def _perform(effect: Effect, http: httpx2.Client, signal: Signal) -> Any:
    if isinstance(effect, Together):
        return _together(effect.scripts, http, signal)
    if not isinstance(effect, Http):
        return signal.wait_until(effect.until, effect.timeout_s)
    request = effect.request
    try:
        return reply_of(http.request(request.method, effect.url, **request_args(request)))
    except httpx2.RequestError as e:
        raise unanswered(e) from e
    except RuntimeError as e:
        # The client was closed by another thread while this one was on its way.
        raise Unanswered(str(e), sent=True) from e


def _together(scripts: Sequence[Script[Any]], http: httpx2.Client, signal: Signal) -> list[Any]:
    """All but the first in threads of their own."""
    results: list[Any] = [None] * len(scripts)
    failures: list[BaseException] = []

    def one(number: int) -> None:
        try:
            results[number] = run(scripts[number], http, signal)
        except BaseException as error:  # noqa: BLE001 - raised below, by whoever waits for it
            failures.append(error)

    # Not a pool: its threads would keep a program from ending.
    threads = [
        threading.Thread(target=one, args=(n,), name=threading.current_thread().name, daemon=True)
        for n in range(1, len(scripts))
    ]
    for thread in threads:
        thread.start()
    one(0)
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return results
