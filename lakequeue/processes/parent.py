"""A child that ends with its parent: no process is left behind when a supervisor is killed."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with_parent(expected_parent: int | None = None) -> None:
    """Ask the kernel to SIGKILL this process when its parent ends; a no-op off Linux.

    The setting survives exec. `expected_parent` is the pid that the caller was started by (passed
    down by the parent itself): the parent may have died before this call, and then nothing would
    ever be signalled, so the pid is looked at again afterwards. Without it, having been handed to
    pid 1 counts as having lost the parent, unless that was so from the start.

    The kernel watches the *thread* that forked: a parent must start its children from a thread
    that lives as long as they should.
    """
    if not sys.platform.startswith("linux"):
        return
    before = os.getppid() if expected_parent is None else expected_parent
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl(PR_SET_PDEATHSIG): {os.strerror(number)}")
    if os.getppid() != before:
        os.kill(os.getpid(), signal.SIGKILL)


def main(argv: list[str]) -> None:
    """`python -I parent.py PID COMMAND …`: become the command, bound to the life of parent PID.

    Run as a file, so that nothing but the standard library is loaded: the child is bound within
    milliseconds of its start, also while its own program is still being imported.
    """
    die_with_parent(int(argv[0]))
    os.execv(argv[1], argv[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
