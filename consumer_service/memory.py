"""Memory that is free goes back to the system: what a node says to its allocators at its start.

A node holds much for moments (decoded row groups, bodies, facts on their way) and little for
long. Arrow's own pool keeps what was freed for good, and so does glibc what is not at the very end
of a heap. To map each large piece by itself, and to unmap it, gives all back at once; but then the
system clears every page of every answer anew, which was a third of what an answer took. So Arrow
takes its memory from glibc, glibc takes large pieces from its heaps, and once a second a thread
gives back what is free in them, if the process has grown (decisions 0019 and 0085).

Where libc is another one (musl, macOS) only Arrow is told. What the environment says of the same
stays as it is.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

MAPPED_BYTES = 32 << 20
"""A piece of this size, the most that glibc allows, is mapped by itself."""
GROWN_BYTES = 16 << 20
"""By so much the process has to grow before free memory is looked for."""
_EVERY_S = 1.0
# Numbers of glibc's malloc.h, and the variable that sets the same.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_")
_RESIDENT = Path("/proc/self/statm")
_PAGE_BYTES = os.sysconf("SC_PAGESIZE")


def return_what_is_free() -> dict[str, str | int | None]:
    """Set the allocators of this process; how they are, for its log. Starts a thread."""
    if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ:
        pa.set_memory_pool(pa.system_memory_pool())
    ours = _libc_is_glibc() and _RESIDENT.exists() and not is_tuned(os.environ)
    if ours:
        libc = ctypes.CDLL(None)
        # Both: setting either ends the growth of both.
        ours = all(libc.mallopt(p, MAPPED_BYTES) for p in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD))
    if ours:
        FreeMemory(libc).start()
    arrow = pa.default_memory_pool().backend_name
    return {"arrow": arrow, "mapped_from": MAPPED_BYTES if ours else None}


class FreeMemory:
    """Gives back what is free in the heaps, whenever the process has grown."""

    def __init__(self, libc: ctypes.CDLL) -> None:
        self._trim = libc.malloc_trim
        self._least = resident_bytes()
        """What was resident after the last time, or less since."""

    def start(self) -> None:
        """Look once a second, in a thread that ends with the process."""
        threading.Thread(target=self._run, name="free-memory", daemon=True).start()

    def _run(self) -> None:
        never = threading.Event()
        with suppress(OSError):  # without /proc nobody can say
            while not never.wait(_EVERY_S):
                self.look()

    def look(self) -> bool:
        """Whether it has grown, and what was free has been given back."""
        resident = resident_bytes()
        grown = resident - self._least >= GROWN_BYTES
        if grown:
            self._trim(0)
            resident = resident_bytes()
        self._least = resident if grown else min(self._least, resident)
        return grown


def resident_bytes() -> int:
    """Of this process. Raises `OSError` where there is no /proc."""
    return int(_RESIDENT.read_text().split()[1]) * _PAGE_BYTES


def is_tuned(environ: Mapping[str, str]) -> bool:
    """Whether the user has set glibc's malloc, and knows better. Pure."""
    tuned = environ.get("GLIBC_TUNABLES", "")
    return "glibc.malloc." in tuned or any(name in environ for name in _VARIABLES)


def _libc_is_glibc() -> bool:
    try:
        version = os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):  # no such name here, or nothing known of it
        return False
    return version is not None and version.startswith("glibc")
