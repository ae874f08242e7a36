"""A process that has imported services, and becomes one of them as often as it is asked.

Started by `forked.py` alone. To import a service takes a second of processor time, and a run of all
tests starts some hundreds of nodes, and programs of `tests/support/runs`. Here each is imported
once for each room; what runs then is `python -m <module>` from its first line on, in a process of
its own.

A request is a message with three descriptors, of standard input, output and errors. A node is
forked twice: its parent is then the process of the tests, which waits for it as for any child.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import os
import runpy
import signal
import socket
import sys
from dataclasses import dataclass

from lakequeue.processes.quick_start import importing

MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Asked:
    """What is to run, and as what."""

    module: str
    arguments: list[str]
    cwd: str
    environment: dict[str, str]
    umask: int
    descriptors: list[int]


def serve(link: socket.socket) -> Asked | None:
    """Fork for each request; returns in each of these nodes, and None when nobody asks any more."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(link, MOST_BYTES, 3)
        if not message:
            return None
        asked = Asked(**json.loads(message), descriptors=descriptors)
        _prepare(asked.module)
        node = _fork(link)
        if node is None:
            return asked
        for each in descriptors:
            os.close(each)
        link.send(str(node).encode())


@functools.cache
def _prepare(module: str) -> None:
    """Import what it consists of. Itself it runs anew, as the program."""
    with importing():
        spec = importlib.util.find_spec(module)
        if spec is not None and spec.submodule_search_locations:
            importlib.import_module(f"{module}.server")
        else:
            importlib.import_module(module)
            del sys.modules[module]


def _fork(link: socket.socket) -> int | None:
    """The pid of a node, once it is the child of the process of the tests; None: this is it."""
    told, tell = os.pipe()
    parted, part = os.pipe()
    between = os.fork()
    if between == 0:
        first_parent = os.getpid()
        node = os.fork()
        if node:
            os.write(tell, str(node).encode())
            os._exit(0)  # which closes the last `part`: the node waits for that
        for each in (told, tell, part):
            os.close(each)
        link.close()
        os.read(parted, 1)
        os.close(parted)
        # Who ends closes its files first, and then gives its children away. A node that is to end
        # with its parent (`die_with_parent`) would end with this one.
        while os.getppid() == first_parent:
            os.sched_yield()
        return None
    for each in (tell, parted, part):
        os.close(each)
    pid = int(os.read(told, 32))
    os.close(told)
    os.waitpid(between, 0)
    return pid


def become(asked: Asked) -> None:
    """Run the module as `python -m` does."""
    for number, descriptor in enumerate(asked.descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(asked.environment)
    os.chdir(asked.cwd)
    os.umask(asked.umask)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = [asked.module, *asked.arguments]
    runpy.run_module(asked.module, run_name="__main__", alter_sys=True)


def main() -> None:
    """Serve over the descriptor that is given."""
    # Ctrl-C reaches all processes of a terminal; this one goes when the tests go.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asked = serve(socket.socket(fileno=int(sys.argv[1])))
    if asked is not None:
        become(asked)


if __name__ == "__main__":
    main()
