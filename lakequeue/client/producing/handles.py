"""The future that `send` returns, and how those of a batch are settled together.

A future of the standard library makes a lock and a condition for each record, and takes them when
it is settled. Here a condition is made when somebody waits, and the result when somebody asks for
it; a batch takes one lock for all. To whoever uses it, also to `concurrent.futures.wait` and
`asyncio.wrap_future`, it is a future like any other.

Two locks: `_guard` for callbacks and for making conditions, and the condition of a future for its
state. A condition may be held when `_guard` is taken, never the other way round. A future without a
condition is settled under `_guard` alone, so nobody can have begun to wait for it.
"""

# ruff: noqa: SLF001 - futures of a batch are settled together, by a function of this module

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any, Final, TypeVar

from lakequeue.calling import forks
from lakequeue.calling.callbacks import FAULTS
from lakequeue.client.producing.outgoing import Outgoing, RecordMetadata
from lakequeue.client.producing.produce_responses import Answered, Place
from lakequeue.errors import LakequeueError, NotReady

_log = logging.getLogger("lakequeue.producer")
_guard: Final = threading.RLock()
"""Reentrant: what runs in the middle of it, a signal handler or the end of some object, may ask."""
if hasattr(os, "register_at_fork"):
    # A child of this process has futures of its own, and not the thread that has the lock.
    os.register_at_fork(
        before=_guard.acquire,
        after_in_parent=_guard.release,
        after_in_child=_guard._at_fork_reinit,  # type: ignore[attr-defined]
    )
_PENDING, _CANCELLED, _FINISHED = "PENDING", "CANCELLED_AND_NOTIFIED", "FINISHED"
"""As `concurrent.futures` calls them, which looks at the state itself."""
_OVER: Final = frozenset({_CANCELLED, "CANCELLED", _FINISHED})
T = TypeVar("T")
Told = Callable[["Future[RecordMetadata]"], object]


class Handle(Outgoing, Future[RecordMetadata]):
    """What `send` returns. A wait that is over says for what.

    It is the record as well: one object for both is half of the work for the garbage collector,
    which otherwise takes as long as all of the rest. When it is acknowledged it lets its value go.
    """

    # Nearly all of it is as it was until the record is settled: that costs nothing here. The
    # constructor of `Future` makes what most records do not need, and is not called.
    _state = _PENDING
    _exception: BaseException | None = None
    _told: Told | list[Told] | None = None
    """One callback, or several."""
    _made: threading.Condition | None = None
    _waiting: list[Any] | None = None
    _metadata: RecordMetadata | None = None
    _batch: Answered | None = None
    """What its answer says for all records of the request."""
    _place: Place = 0
    """What it says of this one."""

    def __repr__(self) -> str:
        now = "is on its way"
        if self._state in _OVER:
            now = "is cancelled" if self._state != _FINISHED else "is acknowledged"
        if self._exception is not None:
            now = f"failed: {self._exception}"
        return f"<{self.topic} {self.message_id} {now}>"

    # -- what is made when it is needed -----------------------------------------------------------

    @property
    def _condition(self) -> threading.Condition:
        if self._made is None:
            with _guard:
                if self._made is None:
                    self._made = threading.Condition()
        return self._made

    @_condition.setter
    def _condition(self, given: threading.Condition) -> None:
        self._made = given

    @property
    def _waiters(self) -> list[Any]:  # type: ignore[override]
        """Of `concurrent.futures.wait`, which holds the condition when it asks."""
        if self._waiting is None:
            self._waiting = []
        return self._waiting

    @property
    def _result(self) -> RecordMetadata | None:
        if self._metadata is None and self._batch is not None:
            self._metadata = self._batch.metadata(self._place, self.message_id)
        return self._metadata

    @_result.setter
    def _result(self, given: RecordMetadata | None) -> None:
        self._metadata = given

    # -- as of a future ---------------------------------------------------------------------------

    def done(self) -> bool:
        """Settled, or cancelled."""
        return self._state in _OVER

    def cancelled(self) -> bool:
        """Nobody wants to know any more. The record is sent all the same."""
        return self._state != _FINISHED and self._state in _OVER

    def running(self) -> bool:
        """Never: who has sent a record can always cease to wait for it."""
        return False

    def cancel(self) -> bool:
        """Do not tell what becomes of the record, which is sent all the same."""
        with self._condition:
            with _guard:
                if self._state == _FINISHED:
                    return False
                if self._state in _OVER:
                    return True
                self._state = _CANCELLED
            for waiter in self._waiters:
                waiter.add_cancelled(self)
            self._condition.notify_all()
        self._invoke_callbacks()
        return True

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """The metadata of the acknowledged record; raises its error, or `TimeoutError`."""
        if self._state not in _OVER:
            self._wait(timeout)
        if self._state != _FINISHED:
            raise CancelledError
        if self._exception is not None:
            try:
                raise self._exception
            finally:
                # No circle of the error and the frame that raises it.
                self = None  # type: ignore[assignment]
        found = self._result
        assert found is not None  # noqa: S101 - what is finished has one of both
        return found

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Why the record was given up; None if it is acknowledged. Raises `TimeoutError`."""
        if self._state not in _OVER:
            self._wait(timeout)
        if self._state != _FINISHED:
            raise CancelledError
        return self._exception

    def add_done_callback(self, fn: Told) -> None:
        """Call `fn` with this future when it is settled: in the thread that sends, or at once."""
        with _guard:
            if self._state not in _OVER:
                if self._told is None:
                    self._told = fn
                elif isinstance(self._told, list):
                    self._told.append(fn)
                else:
                    self._told = [self._told, fn]
                return
        self._tell(fn)

    def _invoke_callbacks(self) -> None:
        told, self._told = self._told, None
        if isinstance(told, list):
            for fn in told:
                self._tell(fn)
        elif told is not None:
            self._tell(told)

    def _tell(self, fn: Told) -> None:
        try:
            fn(self)
        except FAULTS:  # a fault of the user's callback must not stop sending
            _log.exception("a callback of a future failed")

    def _wait(self, timeout: float | None) -> None:
        if forks.is_parents(self.life.made_in):
            raise NotReady(
                "the process that sends this record is the parent of this one",
                hint="ask the parent, or send the record again with its message_id",
                stored="unknown",
            )
        condition = self._condition
        with condition:
            if not condition.wait_for(self.done, timeout):
                raise TimeoutError(
                    f"a record for {self.topic} is not acknowledged after {timeout} s; it "
                    "is still being sent: wait again, or ask `unacked()` what waits"
                )

    def _take(self, batch: Answered | None, place: Place, error: LakequeueError | None) -> None:
        self._batch, self._place, self._exception = batch, place, error
        self._state = _FINISHED
        if error is None:
            self.value = self.key = self.value_data = self.key_data = None
            if self.more is not None:
                self.more.forget()

    def _take_slowly(
        self, batch: Answered | None, place: Place, error: LakequeueError | None
    ) -> None:
        """Somebody waits for it, or has waited."""
        condition = self._condition
        with condition:
            with _guard:
                if self._state in _OVER:
                    return
                self._take(batch, place, error)
            for waiter in self._waiters:
                if error is None:
                    waiter.add_result(self)
                else:
                    waiter.add_exception(self)
            condition.notify_all()
        self._invoke_callbacks()


def acknowledge(records: Sequence[Outgoing], batch: Answered, places: Sequence[Place]) -> None:
    """Settle the futures of these records, in their order; of asyncio as well, from their loop."""
    told: list[tuple[Outgoing, int]] = []
    at = -1
    with _guard:
        for record in records:
            at += 1
            if type(record) is not Handle or record._made is not None or record.more is not None:
                told.append((record, at))
                continue
            # What `_take` does: a call for each would cost as much again.
            record._batch = batch
            record._place = places[at]
            record._state = _FINISHED
            # Last: the end of a value may be code of the application.
            record.value = record.key = record.value_data = record.key_data = None
            if record._told is not None:
                told.append((record, at))
    for record, at in told:
        if type(record) is not Handle:
            handle = record.handle
            if handle is not None and not handle.done():
                handle.set_result(batch.metadata(places[at], record.message_id))
        elif record._state == _FINISHED:
            record._invoke_callbacks()
        else:
            record._take_slowly(batch, places[at], None)


def give_up(records: Sequence[Outgoing], error: LakequeueError) -> None:
    """Settle them with an error."""
    for record in records:
        if type(record) is Handle:
            record._take_slowly(None, 0, error)
        elif record.handle is not None and not record.handle.done():
            record.handle.set_exception(error)


def tell(told: Callable[[Outgoing, T], None] | None, record: Outgoing, what: T) -> None:
    """Call a callback of the producer, if there is one."""
    try:
        if told is not None:
            told(record, what)
    except FAULTS:  # a fault of the user's callback must not stop sending
        _log.exception("a callback of the producer failed")
