"""The way from the client to the model of the services: httpx2's, without a network."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from dataclasses import replace

import httpx2

from lakequeue.calling.effects import Reply
from lakequeue.wire import HOST_HEADER
from memory_queue.calls import Aside, Call, Later
from memory_queue.service import Service


class MemoryTransport(httpx2.BaseTransport, httpx2.AsyncBaseTransport):
    """For blocking and for asyncio clients; of any number of them."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._closed = False

    def shut(self) -> None:
        """Refuse every call from now on, like a server that is gone."""
        self._closed = True
        self._service.stopping.set()
        self._service.changed()

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answer in this thread; a poll waits here for something to tell."""
        call, began = _call_of(request), time.monotonic()
        changed = threading.Event()
        self._service.watch(changed.set)
        try:
            while True:
                changed.clear()
                said = self._look(request, call, began)
                if isinstance(said, Aside):
                    return _response(said.run())
                if not isinstance(said, Later):
                    return _response(said)
                changed.wait(said.look_in_s)
        finally:
            self._service.unwatch(changed.set)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The same within an event loop, which goes on meanwhile."""
        call, began = _call_of(request), time.monotonic()
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            # Changes come from any thread.
            if not loop.is_closed():
                loop.call_soon_threadsafe(changed.set)

        self._service.watch(wake)
        try:
            while True:
                changed.clear()
                said = self._look(request, call, began)
                if isinstance(said, Aside):
                    return _response(await asyncio.to_thread(said.run))
                if not isinstance(said, Later):
                    return _response(said)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), said.look_in_s)
        finally:
            self._service.unwatch(wake)

    def _look(self, request: httpx2.Request, call: Call, began: float) -> Reply | Later | Aside:
        if self._closed:
            raise httpx2.ConnectError("the in-memory queue is closed", request=request)
        return self._service.answer(replace(call, waited_s=time.monotonic() - began))


def _call_of(request: httpx2.Request) -> Call:
    return Call(
        request.method,
        request.url.path,
        dict(request.url.params),
        request.read(),
        request.headers.get(HOST_HEADER, ""),
        content_type=request.headers.get("content-type", ""),
    )


def _response(reply: Reply) -> httpx2.Response:
    return httpx2.Response(reply.status, headers=dict(reply.headers), content=reply.body)
