"""The channel between a driver and the source of its query: one Unix socket.

A source's `latestOffset` runs in a Python process of its own. That process neither talks to
ZooKeeper nor commits, and only it knows what its looks found. So both tell each other:

| from | message | when |
|---|---|---|
| source | `hello`: which start of the query, and the newest batch | it connects |
| driver | `state`: the term it leads for, or null | the answer to `hello`; each change |
| driver | `wake` | a notification arrived |
| source | `batch`: its number, and its files if the driver is to read them | before Spark runs it |
| source | `status`: records that wait, requests to storage, shards it cannot read | once a second |

A message is a line of JSON. A standby's query runs all the time, and starts to work the moment
its driver says so.

**Fresh.** What a driver said before a batch ended stands in the socket of the source when Spark
asks for the next batch, and the source reads it to the end before it looks.

**Nobody waits for the other.** The driver never blocks on a source that is in the middle of
something. If the socket is full, a `wake` is left out (there is enough unread to wake for), and
after a `state` that does not fit the source is cut off. A source that is cut off connects again,
and is told the state of then. While it is not connected it has no leader.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jobs.source.batch_manifest import BatchManifest
from jobs.source.leader_state import LeaderState
from lakequeue.clock import boot_seconds
from lakequeue.records import ShardName
from queue_tables.delta.storage_meter import METER, Usage
from queue_tables.files.commit_events import CommitEvents

STATUS_S = 1.0
"""Between two messages of status."""
_ANSWER_S = 5.0
"""The other end takes a first message, or answers `hello`, within this."""
_BATCH_S = 2.0
"""A batch that Spark runs and its source has not told of by then is left to Spark."""
_CHUNK = 1 << 16
_NONE: Mapping[ShardName, str] = MappingProxyType({})


Told = Callable[[int, list[BatchManifest] | None], object]
"""(number of a batch, its pieces; None: Spark's tasks are to read it)"""


@dataclass(frozen=True)
class SourceStatus:
    """What a source told last."""

    pending: int = 0
    """Records seen and not admitted to a batch."""
    usage: Usage = field(default_factory=Usage)
    stuck: Mapping[str, str] = field(default_factory=dict)
    """Shards that cannot be read, and why: all others go on."""


class DriverEnd:
    """The driver's end of one query: it listens, and talks to the source of the newest start."""

    def __init__(
        self, folder: Path, query: str, told: Told = lambda _number, _pieces: None
    ) -> None:
        """`told` is called with each batch when it comes, and must not wait."""
        self._path = _path(folder, query)
        self._told = told
        self._listener: socket.socket | None = None
        self._changed = threading.Condition()
        """Guards all below."""
        self._attempt = 0
        self._source: socket.socket | None = None
        self._state: LeaderState | None = None
        self._batch: tuple[int, list[BatchManifest] | None] = (-1, None)
        self._status = SourceStatus()
        self._before = Usage()
        """Of the earlier starts: a new one counts from 0, and what is told must never fall."""

    def open(self) -> None:
        """Listen; nobody leads."""
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with _address(self._path) as address:
            self._listener.bind(address)
        self._path.chmod(0o600)
        self._listener.listen()
        name = f"{self._path.stem}-channel"
        threading.Thread(
            target=self._accept, args=(self._listener,), name=name, daemon=True
        ).start()

    def close(self) -> None:
        """Hang up."""
        with self._changed:
            self._cut_off()
            if self._listener is not None:
                with contextlib.suppress(OSError):
                    self._listener.shutdown(socket.SHUT_RDWR)
                self._listener.close()
                self._listener = None

    def begin(self, attempt: int) -> None:
        """The query starts for the `attempt`th time: sources of earlier starts are cut off."""
        with self._changed:
            self._cut_off()
            self._attempt = attempt
            self._batch = (-1, None)
            self._before = self._before.plus(self._status.usage)
            self._status = SourceStatus()

    def tell(self, state: LeaderState | None) -> None:
        """What the source has to know from now on; None: it does not work. It looks at once."""
        with self._changed:
            self._state = state
            message = _state_line(state)
            if self._source is not None and _offered(self._source, message) != len(message):
                self._cut_off()

    def wake(self) -> None:
        """Let a waiting source look now."""
        with self._changed:
            if self._source is not None and _offered(self._source, _WAKE) not in {0, len(_WAKE)}:
                self._cut_off()

    def batch(self, number: int) -> list[BatchManifest] | None:
        """The pieces of batch `number`; None if Spark is to read it."""
        with self._changed:
            self._changed.wait_for(lambda: self._batch[0] >= number, _BATCH_S)
            told, pieces = self._batch
        return pieces if told == number else None

    def status(self) -> SourceStatus:
        """What waits now, and what was asked of the storage in all starts."""
        with self._changed:
            return replace(self._status, usage=self._before.plus(self._status.usage))

    def _cut_off(self) -> None:
        if self._source is not None:
            with contextlib.suppress(OSError):
                self._source.shutdown(socket.SHUT_RDWR)
            self._source = None

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                source, _ = listener.accept()
            except OSError:
                return  # closed
            name = f"{self._path.stem}-source"
            threading.Thread(target=self._hear, args=(source,), name=name, daemon=True).start()

    def _hear(self, source: socket.socket) -> None:
        # ValueError: it died in the middle of a line.
        with contextlib.suppress(OSError, ValueError), source, source.makefile("rb") as lines:
            for line in lines:
                with self._changed:
                    if not self._take(source, json.loads(line)):
                        break
                    self._changed.notify_all()
        with self._changed:
            if self._source is source:
                self._source = None

    def _take(self, source: socket.socket, message: dict[str, Any]) -> bool:
        """One message; False: from the source of an earlier start."""
        if message.get("hello") == self._attempt:
            # This one waits for the answer, so it may be longer than what the socket holds.
            source.setsockopt(
                socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", int(_ANSWER_S), 0)
            )
            source.sendall(_state_line(self._state))
            self._source = source
        if self._source is not source:
            return False
        if (batch := message.get("batch")) is not None:
            pieces = batch["pieces"]
            self._batch = (
                batch["number"],
                None if pieces is None else [BatchManifest.of_json(p) for p in pieces],
            )
            self._told(*self._batch)
        if (status := message.get("status")) is not None:
            self._status = SourceStatus(
                status["pending"], Usage(**status["usage"]), status["stuck"]
            )
        return True


class SourceEnd:
    """The source's end. Used by one thread."""

    def __init__(
        self, folder: Path, query: str, attempt: int, clock: Callable[[], float] = boot_seconds
    ) -> None:
        self._path = _path(folder, query)
        self._attempt = attempt
        self._clock = clock
        self._driver: socket.socket | None = None
        self._unread = b""
        self._answered = False
        self._state: LeaderState | None = None
        self._batch: dict[str, Any] | None = None
        self._told_at = float("-inf")

    def state(self) -> LeaderState | None:
        """The term now; None while the driver does not lead, or cannot be heard."""
        while self._read_on(0.0):
            pass
        if self._driver is None:
            self._connect()
        return self._state

    def wait(self, timeout_s: float, commits: CommitEvents | None = None) -> bool:
        """Sleep until the driver or the kernel says something; False after `timeout_s`."""
        heard = [end.fileno() for end in (self._driver, commits) if end is not None]
        deadline = self._clock() + max(timeout_s, 0.0)
        while True:
            ready, _, _ = select.select(heard, [], [], max(deadline - self._clock(), 0.0))
            if not ready:
                return False
            told = commits is not None and commits.fileno() in ready and commits.take()
            if told or (self._driver is not None and self._driver.fileno() in ready):
                return True

    def tell_batch(self, number: int, pieces: Sequence[BatchManifest] | None) -> None:
        """Batch `number` comes next. None: Spark's tasks are to read it."""
        noted = None if pieces is None else [asdict(piece) for piece in pieces]
        self._batch = {"number": number, "pieces": noted}
        if self._driver is None:
            self._connect()
        else:
            self._send(_line(batch=self._batch))

    def tell_status(self, pending: int, stuck: Mapping[ShardName, str] = _NONE) -> None:
        """Tell of now; not more often than every `STATUS_S`."""
        now = self._clock()
        if now - self._told_at >= STATUS_S:
            self._told_at = now
            status = SourceStatus(
                pending, METER.snapshot(), {str(s): why for s, why in stuck.items()}
            )
            self._send(_line(status=asdict(status)))

    def close(self) -> None:
        """Hang up."""
        if self._driver is not None:
            self._driver.close()
        self._driver, self._unread, self._state = None, b"", None

    def _send(self, message: bytes) -> None:
        if self._driver is not None:
            try:
                self._driver.sendall(message)
            except OSError:
                self.close()  # the batch is told again with the next `hello`

    def _connect(self) -> None:
        self._driver = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with _address(self._path) as address:
                self._driver.connect(address)
        except OSError:
            self.close()  # the driver is not there, or there no more
            return
        self._answered = False
        self._send(_line(hello=self._attempt, batch=self._batch))
        while not self._answered and self._read_on(_ANSWER_S):
            pass
        if not self._answered:
            self.close()

    def _read_on(self, timeout_s: float) -> bool:
        """Take what arrives within the time; False if nothing does, or the driver has hung up."""
        if self._driver is None or not _readable(self._driver, timeout_s):
            return False
        try:
            chunk = self._driver.recv(_CHUNK)
        except OSError:
            chunk = b""
        if not chunk:
            self.close()
            return False
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "state" in message:
                state = message["state"]
                self._state = None if state is None else LeaderState(**state)
                self._answered = True
        return True


def _path(folder: Path, query: str) -> Path:
    return folder / f"{query}.sock"


@contextlib.contextmanager
def _address(path: Path) -> Iterator[str]:
    """A name of the socket that is short enough: Unix allows 107 bytes, and folders may be deep."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def _line(**message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


_WAKE = _line(wake=True)


def _state_line(state: LeaderState | None) -> bytes:
    if state is None:
        return _line(state=None)
    return _line(
        state={
            "epoch": state.epoch,
            "watermarks": dict(state.watermarks),
            "plan": None if state.plan is None else dict(state.plan),
            "held": dict(state.held),
            "halts": dict(state.halts),
        }
    )


def _offered(to: socket.socket, message: bytes) -> int:
    """How many bytes of it fit; 0 also if nobody is there any more."""
    try:
        return to.send(message, socket.MSG_DONTWAIT)
    except OSError:
        return 0


def _readable(connected: socket.socket, timeout_s: float) -> bool:
    ready, _, _ = select.select([connected], [], [], timeout_s)
    return bool(ready)
