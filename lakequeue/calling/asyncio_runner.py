"""Runs scripts with asyncio: the twin of `blocking_runner`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import httpx2

from lakequeue.calling import forks
from lakequeue.calling.blocking_runner import client_args, reply_of, request_args, unanswered
from lakequeue.calling.credentials import Credentials
from lakequeue.calling.driving import drive
from lakequeue.calling.effects import Effect, Http, Script, Together

T = TypeVar("T")


class AsyncSignal:
    """Wakes whoever waits, within one event loop."""

    def __init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()
        self.made_in = forks.process

    def notify(self) -> None:
        """Something has changed: every waiter looks again."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait_until(self, until: Callable[[], bool], timeout_s: float | None) -> bool:
        """Wait until `until()` is true; its last value."""
        loop = asyncio.get_running_loop()
        end = None if timeout_s is None else loop.time() + timeout_s
        while not until():
            left = None if end is None else end - loop.time()
            if left is not None and left <= 0:
                return False
            waiter = loop.create_future()
            self._waiters.add(waiter)
            try:
                await asyncio.wait((waiter,), timeout=left)
            finally:
                self._waiters.discard(waiter)
        return True


def open_http(
    headers: dict[str, str],
    urls: Sequence[str],
    credentials: Credentials | str | None = None,
) -> httpx2.AsyncClient:
    """A client for loopback and data-centre use: no proxy from the environment."""
    return httpx2.AsyncClient(**client_args(headers, urls, credentials))


async def run(script: Script[T], http: httpx2.AsyncClient, signal: AsyncSignal) -> T:
    """Run `script` to its end in this task. Raises `NotReady` as the blocking runner does."""
    forks.check_process(signal.made_in)
    return await drive(script, lambda effect: _perform(effect, http, signal), Exception)


async def _perform(effect: Effect, http: httpx2.AsyncClient, signal: AsyncSignal) -> Any:
    if isinstance(effect, Together):
        return await asyncio.gather(*(run(script, http, signal) for script in effect.scripts))
    if not isinstance(effect, Http):
        return await signal.wait_until(effect.until, effect.timeout_s)
    request = effect.request
    try:
        return reply_of(await http.request(request.method, effect.url, **request_args(request)))
    except httpx2.RequestError as e:
        raise unanswered(e) from e
