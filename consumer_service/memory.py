"""Memory that is free goes back to the system: what a node says to its allocators at its start.

A node holds much for moments (decoded row groups, bodies, facts on their way) and little for
long. Arrow's own pool keeps what was freed for good. So does glibc once a large piece was freed:
from then on it takes pieces up to that size from its heaps, and of these gives back only what is
free at their very end. Both together are half as much again as a node with a million delayed
records needs (decision 0019). So Arrow takes its memory from glibc, and there the size is fixed
from which on a piece is mapped by itself, and unmapped when it is freed.

Where libc is another one (musl, macOS) only Arrow is told. What the environment says of the same
stays as it is.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping

import pyarrow as pa

MAPPED_BYTES = 1 << 20
"""A piece of this size is mapped by itself; so much may stay free at the end of the main heap."""
# Numbers of glibc's malloc.h, and the variable that sets the same.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_")


def return_what_is_free() -> dict[str, str | int | None]:
    """Set the allocators of this process and of those that it forks; how they are, for its log."""
    if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ:
        pa.set_memory_pool(pa.system_memory_pool())
    ours = _libc_is_glibc() and not is_tuned(os.environ)
    if ours:
        libc = ctypes.CDLL(None)
        # Both: setting either ends the growth of both.
        ours = all(libc.mallopt(p, MAPPED_BYTES) for p in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD))
    arrow = pa.default_memory_pool().backend_name
    return {"arrow": arrow, "mapped_from": MAPPED_BYTES if ours else None}


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
