"""The supervising thread: it starts the children, probes them, starts them again, drains them.

It sleeps on the children's descriptors and wakes when one ends, so a queue at rest costs nothing
here; only while something is not ready it looks about ten times a second.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import threading
from collections.abc import Callable, Iterable

from lakequeue.clock import boot_seconds
from lakequeue.errors import StartFailed
from lakequeue_cli.supervisor.child import Child
from lakequeue_cli.supervisor.child_states import ALIVE, Cause, State
from lakequeue_cli.supervisor.log_files import bound_log
from lakequeue_cli.supervisor.plan import ChildSpec, DriverReady
from lakequeue_cli.supervisor.probes import driver_state, read_state, ready
from lakequeue_cli.supervisor.room import LOOK_S

_LOOK_S = 0.1
_LOGS_S = 30.0
"""The sizes of logs are looked at as often as this."""
_HOPELESS_STARTS = 3
"""A child that ends so often before the queue was ever ready will not get better by itself."""


class Watch:
    """Children and the thread that looks after them."""

    def __init__(
        self,
        children: Iterable[Child],
        report: Callable[[str, str], None],
        on_end: Callable[[str], None] = lambda _name: None,
        elsewhere: Callable[[Child], ChildSpec | None] = lambda _child: None,
    ) -> None:
        """`elsewhere`: what to run in place of a child whose port somebody has taken, if the child
        may listen at another one.
        """
        self.children = {child.name: child for child in children}
        self._on_end = on_end
        self._elsewhere = elsewhere
        self._say = report
        self._changed = threading.Condition(threading.RLock())
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        os.set_blocking(self._wake_read, False)
        self._stopping = False
        self._killing = False
        self._ended = False
        self._serving = False
        self._ever_served = False
        self._failure: StartFailed | None = None
        self._hold: set[str] = set()
        self._to_revive: set[str] = set()
        self._leaving: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)

    # -- Called from other threads ---------------------------------------------------------------

    def start(self) -> None:
        """Start the children, from the thread that will live as long as they do."""
        self._thread.start()

    def request_stop(self) -> None:
        """Begin to drain. Takes no lock: a signal handler calls it."""
        self._stopping = True
        self._wake()

    def request_kill(self) -> None:
        """Kill all now. Takes no lock: a signal handler calls it."""
        self._stopping = self._killing = True
        self._wake()

    def join(self, timeout_s: float | None) -> bool:
        """Whether the thread, and with it every child, has ended within the time."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def wait_ready(self, timeout_s: float, look: Callable[[], None] = lambda: None) -> None:
        """See `Cluster.wait_ready`."""

        def decided() -> bool:
            look()
            return self._serving or self._failure is not None or self._over()

        with self._changed:
            self._changed.wait_for(decided, timeout_s)
            if self._failure is not None:
                raise self._failure
            if self._serving:
                return
            if self._over():
                raise StartFailed("the cluster was stopped before it was ready")
            raise self._not_ready(timeout_s)

    def wait_leader(self, other_than: str | None, timeout_s: float) -> str:
        """See `Cluster.wait_leader`."""
        deadline = boot_seconds() + timeout_s
        with self._changed:
            while (name := self.leader()) is None or name == other_than:
                if boot_seconds() >= deadline or self._over():
                    raise StartFailed(
                        f"no driver leads (other than {other_than}) after {timeout_s:g} s",
                        hint="see the logs of the drivers",
                    )
                # Drivers write their state into files, which nothing here is told of.
                self._changed.wait(_LOOK_S)
        return name

    def kill(self, name: str, *, hold: bool) -> None:
        """See `Cluster.kill`."""
        with self._changed:
            child = self.children[name]
            starts = child.starts
            if hold:
                self._hold.add(name)
                self._wake()
            self._serving = False
            if child.alive:  # else it has ended by itself, and backs off
                child.send(signal.SIGKILL)
            left = {*ALIVE, State.BACKING_OFF} if hold else ALIVE
            self._changed.wait_for(lambda: child.starts > starts or child.state not in left)

    def revive(self, name: str) -> None:
        """See `Cluster.revive`."""
        with self._changed:
            child = self.children[name]
            starts = child.starts
            self._serving = False
            self._hold.discard(name)
            self._to_revive.add(name)
            self._wake()
            self._changed.wait_for(lambda: child.starts > starts or self._over())

    def add(self, child: Child) -> None:
        """See `Cluster.add`. It is started by the supervising thread, as all are."""
        with self._changed:
            self._serving = False
            # A new one each time: the other thread may be in the middle of a look at the old.
            self.children = self.children | {child.name: child}
            self._wake()

    def remove(self, name: str) -> None:
        """See `Cluster.remove`."""
        with self._changed:
            child = self.children[name]
            self._ask_to_end(child, boot_seconds())
            self._leaving.add(name)
            self._wake()
            self._changed.wait_for(lambda: name not in self.children or self._over())

    def leader(self) -> str | None:
        """The living driver whose state file says `leading`."""
        for child in list(self.children.values()):
            probe = child.spec.probe
            if not isinstance(probe, DriverReady) or not child.alive:
                continue
            if driver_state(read_state(probe.state_file), child.pid) == "leading":
                return child.name
        return None

    # -- The supervising thread ------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with self._changed:
                for child in self.children.values():
                    child.spawn()
            while not self._over():
                self._sleep()
                with self._changed:
                    self._look()
                    self._changed.notify_all()
        finally:
            with self._changed:
                for child in self.children.values():
                    if child.alive:
                        child.kill()
                self._ended = True
                self._changed.notify_all()

    def _report(self, name: str, what: str) -> None:
        # A line that a full disk refuses must not end this thread, and with it every child.
        with contextlib.suppress(OSError, ValueError):
            self._say(name, what)

    def _over(self) -> bool:
        return self._ended or self._all_down()

    def _all_down(self) -> bool:
        return self._stopping and all(c.state is State.DOWN for c in self.children.values())

    def _sleep(self) -> None:
        """Until a child ends, somebody asks for something, or the next thing is due."""
        poll = select.poll()
        poll.register(self._wake_read, select.POLLIN)
        for child in self.children.values():
            if child.alive:
                poll.register(child.fileno(), select.POLLIN)
        poll.poll(max(0.0, self._next_look_s()) * 1_000)
        try:
            os.read(self._wake_read, 4_096)
        except BlockingIOError:
            return

    def _next_look_s(self) -> float:
        states = {child.state for child in self.children.values()}
        if self._stopping or self._leaving or not self._serving or State.STARTING in states:
            # With a held child nothing will become ready by itself; looking costs little.
            return _LOOK_S
        due = [c.due_at for c in self.children.values() if c.state is State.BACKING_OFF]
        return min([*due, boot_seconds() + _LOGS_S]) - boot_seconds()

    def _look(self) -> None:
        now = boot_seconds()
        for child in self.children.values():
            bound_log(child.log_path)
            if child.alive and child.ended():
                self._note_end(child, now)
        if self._killing:
            for child in self.children.values():
                child.kill()
        if self._stopping:
            self._drain(now)
            return
        for child in self.children.values():
            self._forward(child, now)
        self._let_go(now)
        if not self._serving:
            self._serving = self._all_serve()
            self._ever_served |= self._serving

    def _let_go(self, now: float) -> None:
        """See to those that were asked to leave, and forget them once they have."""
        for name in list(self._leaving):
            child = self.children[name]
            self._kill_if_late(child, now)
            if child.state is State.DOWN:
                self._leaving.discard(name)
                self.children = {n: c for n, c in self.children.items() if n != name}

    def _forward(self, child: Child, now: float) -> None:
        """Bring one child on its way to being ready."""
        if child.state is State.DOWN and not child.starts:
            child.spawn()
        if child.state is State.STARTING and ready(child.spec.probe, child.pid):
            child.take(Cause.ANSWERED)
            if child.starts > 1:
                self._report(child.name, "ready again")
        if child.state is State.BACKING_OFF and child.name in self._hold:
            child.take(Cause.ENDED_AND_HELD)
        due = child.state is State.BACKING_OFF and now >= child.due_at
        if due or (child.state is State.HELD and child.name in self._to_revive):
            self._to_revive.discard(child.name)
            self._start_again(child, now)

    def _start_again(self, child: Child, now: float) -> None:
        """Now, or when there is room on its disks: until then it would only end again."""
        full = child.full_disk()
        if full is None:
            try:
                child.spawn()
            except OSError as error:
                full = f"it cannot be started: {error.strerror}"
        if full is None:
            if child.waits_for_room:
                self._report(child.name, "there is room again: started")
            child.waits_for_room = False
            return
        if not child.waits_for_room:
            self._report(child.name, f"{full}: waiting for room")
        child.waits_for_room = True
        child.due_at = now + LOOK_S
        if child.state is State.HELD:
            self._to_revive.add(child.name)

    def _all_serve(self) -> bool:
        awaited = [child for child in self.children.values() if not child.spec.beside]
        if any(child.state is not State.READY for child in awaited):
            return False
        drivers = [c for c in self.children.values() if isinstance(c.spec.probe, DriverReady)]
        return not drivers or self.leader() is not None

    def _note_end(self, child: Child, now: float) -> None:
        """Take note of an end, and decide what follows."""
        ran_s = child.reap()
        self._on_end(child.name)
        self._serving &= child.spec.beside
        if child.state is State.DRAINING:
            child.take(Cause.ENDED)
            return
        how = _how(child.last_exit)
        if child.name in self._hold:
            child.take(Cause.ENDED_AND_HELD)
            self._report(child.name, f"{how}; held down")
            return
        full = child.full_disk()
        # That it ended for want of room says nothing of how well it would run with some.
        delay_s = LOOK_S if full else child.backoff.delay_s(ran_s)
        child.take(Cause.ENDED)
        child.due_at = now + delay_s
        if self._stopping:
            return
        if full:
            child.waits_for_room = True
            self._report(child.name, f"{how} after {ran_s:.1f} s; {full}: waiting for room")
            return
        taken = child.port_taken()
        why = f": {taken}" if taken else ""
        again = f"starting again in {delay_s:g} s"
        if taken and (moved := self._elsewhere(child)) is not None:
            child.spec = moved
            again = f"{again} at port {moved.place[1] if moved.place else 0}"
        self._report(child.name, f"{how} after {ran_s:.1f} s{why}; {again}")
        hopeless = not child.spec.beside and child.backoff.failures >= _HOPELESS_STARTS
        if not self._ever_served and hopeless:
            self._failure = StartFailed(
                f"{child.name} ended {child.backoff.failures} times before it was ready, the last "
                f"time it {how}{why}; the end of {child.log_path}:\n{child.log_tail()}",
            )

    def _drain(self, now: float) -> None:
        """One step of the drain: ask the first rank that still lives, kill what takes too long."""
        living = [c for c in self.children.values() if c.state is not State.DOWN]
        rank = min((child.spec.drain for child in living), default=None)
        for child in living:
            if child.state is State.DRAINING:
                self._kill_if_late(child, now)
            elif child.spec.drain == rank or self._killing:
                self._ask_to_end(child, now)

    def _ask_to_end(self, child: Child, now: float) -> None:
        child.take(Cause.ASKED_TO_END)
        child.due_at = now + child.spec.drain_s
        if child.alive:
            child.terminate()

    def _kill_if_late(self, child: Child, now: float) -> None:
        if child.state is State.DRAINING and now >= child.due_at:
            self._report(child.name, f"still there after {child.spec.drain_s:g} s: killed")
            child.kill()
            child.due_at = math.inf

    def _not_ready(self, timeout_s: float) -> StartFailed:
        late = [
            child
            for child in self.children.values()
            if child.state is not State.READY and not child.spec.beside
        ]
        if not late:
            return StartFailed(f"no driver leads after {timeout_s:g} s", hint="see its log")
        named = ", ".join(f"{c.name} ({c.state})" for c in late)
        return StartFailed(
            f"not ready after {timeout_s:g} s: {named}; the end of {late[0].log_path}:\n"
            f"{late[0].log_tail()}"
        )

    def _wake(self) -> None:
        try:
            os.write(self._wake_write, b"!")
        except BlockingIOError:
            # The pipe is full of wake-ups already.
            return


def _how(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        return f"was ended by {signal.Signals(-exit_code).name}"
    return f"ended with exit code {exit_code}"
