"""Runs the Python blocks of one document, in order and in one namespace, as a program of its own.

A block that reads records without end is interrupted when its group has no lag left: that is what
Ctrl-C does. The blocks come as JSON on standard input: `{"prelude", "blocks": [[where, code]]}`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time

from lakequeue import Admin
from lakequeue.errors import LakequeueError
from lakequeue.wire import GroupDescription

_ENDLESS = re.compile(r"for \w+ in (?:consumer|worker):|while not consumer\.stopping")
_GROUP = re.compile(r"group=\"([\w.-]+)\"")
_LOOK_S = 0.2


def has_read_all(group: GroupDescription) -> bool:
    """Whether it has no lag left. One that was just made has no partitions: its member joins."""
    return bool(group.partitions) and all(one.lag == 0 for one in group.partitions)


class _Watch:
    """Interrupts the main thread when the groups of a block have read all there is."""

    def __init__(self, groups: list[str]) -> None:
        self._groups = groups
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        with Admin() as admin:
            while not self._over.wait(_LOOK_S):
                try:
                    states = [admin.group(name) for name in self._groups]
                except LakequeueError:
                    continue  # the consumer has not joined yet
                if all(map(has_read_all, states)):
                    # A real signal: it also wakes a main thread that waits for a lock.
                    os.kill(os.getpid(), signal.SIGINT)
                    return


def main() -> None:
    """Run them all; the first that fails ends the program."""
    given = json.load(sys.stdin)
    names: dict[str, object] = {"__name__": "__main__"}
    exec(compile(given["prelude"], "prelude", "exec"), names)  # noqa: S102 - it is the test's own
    groups: list[str] = []
    for where, code in given["blocks"]:
        began = time.monotonic()
        groups = _GROUP.findall(code) or groups
        watch = _Watch(groups) if _ENDLESS.search(code) else None
        try:
            exec(compile(code, where, "exec"), names)  # noqa: S102 - documents of this repository
        except KeyboardInterrupt:
            if watch is None:
                raise
        finally:
            if watch is not None:
                watch.end()
        print(f"{where}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
