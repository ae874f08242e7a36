"""One leader at a time: for liveness. Safety is the leader's epoch in the tables.

A candidate creates the ephemeral node `/leaders/<name>`; who succeeds leads, the others watch it
and try again when it goes. Candidates are two or three processes, so the herd that sequential
nodes avoid does not exist here, and one node with the leader's own words in it is what an
operator wants to read.

Which of the two to ask:

- `leading` (and `leads(term)`): from winning until the session is LOST or another has the node.
  It stays while ZooKeeper is away. The order and offsets leaders go by it: they commit under
  their epoch, and a newer leader's epoch in the table stops them whatever ZooKeeper says.
- `trusted()`: leading, and the session is trusted *now*. Go by it where no table checks the
  epoch; the controller does.
"""

from __future__ import annotations

import os
import threading
import uuid
from enum import StrEnum
from typing import Any, assert_never

import orjson
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError

from coordination.zookeeper.session import Session
from lakequeue.errors import CoordinationUnavailable

SLOW_POLL_S = 5.0
"""A watch that went missing costs at most this."""


class State(StrEnum):
    """What a candidate may do."""

    CANDIDATE = "candidate"
    """Nothing: trying to create the node."""
    STANDBY = "standby"
    """Prepare, so as to be quick: another leads, and is watched."""
    LEADING = "leading"
    """Lead, once its epoch stands in the table."""
    RESIGNED = "resigned"
    """Nothing, ever again: for another term make a new Election."""


class Election:
    """A candidacy for `name`, in a thread of its own. `start()` it, and `stop()` it."""

    def __init__(
        self,
        session: Session,
        name: str,
        info: dict[str, Any] | None = None,
        event: threading.Event | None = None,
    ) -> None:
        """`event`, if given, is set whenever the state changes, for one that waits for more."""
        self.name = name
        self.leading = threading.Event()
        self.state = State.CANDIDATE
        self._session = session
        self._id = uuid.uuid4().hex
        self._path = session.path("leaders", name)
        self._info = info or {}
        self._event = event or threading.Event()
        self._changed = session.waker()
        self._condition = threading.Condition()
        self._term = 0
        self._session_incarnation = -1
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"election-{name}", daemon=True)

    def start(self) -> Election:
        """Become a candidate."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Resign: the node goes at once if ZooKeeper can be reached. Waits for the thread."""
        self._stopping.set()
        self._changed.set()
        if self._thread.is_alive():
            self._thread.join()

    resign = stop

    # -- what the leader asks ---------------------------------------------------------------------

    @property
    def term(self) -> int:
        """Counts this candidate's own wins: capture it on winning, ask `leads(term)` later."""
        return self._term

    def leads(self, term: int) -> bool:
        """Whether the win counted by `term` still stands."""
        return (
            self.leading.is_set()
            and self._term == term
            and self._session.incarnation == self._session_incarnation
        )

    def trusted(self) -> bool:
        """Whether this candidate certainly is the leader, now."""
        return self.leads(self._term) and self._session.trusted()

    def wait_leading(self, timeout_s: float | None = None) -> bool:
        """Wait until this candidate leads; False after `timeout_s` or when it has resigned."""
        with self._condition:
            self._condition.wait_for(
                lambda: self.leading.is_set() or self.state is State.RESIGNED, timeout_s
            )
            return self.leading.is_set()

    def wait_ended(self, timeout_s: float | None = None) -> bool:
        """Wait until this candidate does not lead; False after `timeout_s`."""
        with self._condition:
            return self._condition.wait_for(lambda: not self.leading.is_set(), timeout_s)

    def announce(self, info: dict[str, Any]) -> None:
        """Tell readers of the leader's node more (its epoch, say).

        Raises `CoordinationUnavailable`; nothing depends on it.
        """
        self._info = info
        if self.leads(self._term):
            self._session.call(self._session.kazoo.set_async, self._path, self._data())

    def _data(self) -> bytes:
        session = self._session
        own = {
            "candidate": self._id,
            "node": session.node,
            "boot": session.boot,
            "pid": os.getpid(),
        }
        return orjson.dumps(self._info | own)

    # -- the states -------------------------------------------------------------------------------

    def _run(self) -> None:
        while self.state is not State.RESIGNED:
            if self._stopping.is_set():
                self._leave()
                return
            self._changed.clear()
            try:
                self._advance()
            except (CoordinationUnavailable, KazooException):
                # The state stays what it was: ZooKeeper's silence neither makes nor ends a term.
                self._changed.wait(self._session.timeout_s / 8)

    def _advance(self) -> None:
        if self._session.incarnation != self._session_incarnation and self.state is State.LEADING:
            self._enter(State.CANDIDATE)
        match self.state:
            case State.CANDIDATE:
                self._campaign()
            case State.STANDBY:
                self._watch()
            case State.LEADING:
                self._hold()
            case State.RESIGNED:
                return
            case _ as never:
                assert_never(never)

    def _campaign(self) -> None:
        """Try to create the node. An answer that was lost is settled by looking at its owner."""
        session_term = self._session.incarnation
        try:
            self._session.call(
                self._session.kazoo.create_async,
                self._path,
                self._data(),
                ephemeral=True,
                makepath=True,
            )
        except NodeExistsError:
            found = self._session.read(self._path)
            if found is None:
                return
            if not self._is_mine(found):
                self._enter(State.STANDBY)
                return
        self._win(session_term)

    def _win(self, session_term: int) -> None:
        with self._condition:
            self._session_incarnation = session_term
            self._term += 1
        self._enter(State.LEADING)

    def _watch(self) -> None:
        """Wait for the leader's node to go."""
        found = self._session.read(self._path, self._changed)
        if found is None:
            self._enter(State.CANDIDATE)
            return
        self._changed.wait(SLOW_POLL_S)

    def _hold(self) -> None:
        """Lead until the node is another's or gone, or the session is lost (`_advance`)."""
        found = self._session.read(self._path, self._changed)
        if found is None or not self._is_mine(found):
            self._enter(State.CANDIDATE)
            return
        self._changed.wait(SLOW_POLL_S)

    def _leave(self) -> None:
        """End the candidacy; a node made by a request whose answer was lost is removed too."""
        self._enter(State.RESIGNED)
        try:
            found = self._session.read(self._path)
            if found is not None and self._is_mine(found):
                self._session.call(self._session.kazoo.delete_async, self._path)
        except (CoordinationUnavailable, NoNodeError):
            # The end of the session removes it.
            return

    def _is_mine(self, found: tuple[bytes, Any]) -> bool:
        data, stat = found
        return self._session.owns(stat) and orjson.loads(data).get("candidate") == self._id

    def _enter(self, state: State) -> None:
        with self._condition:
            self.state = state
            if state is State.LEADING:
                self.leading.set()
            else:
                self.leading.clear()
            self._condition.notify_all()
        self._event.set()


def leader(session: Session, name: str) -> dict[str, Any] | None:
    """What the present leader says of itself, or None. Raises `CoordinationUnavailable`."""
    found = session.read(session.path("leaders", name))
    return None if found is None else dict(orjson.loads(found[0]))
