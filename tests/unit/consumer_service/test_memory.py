"""Free memory goes back to the system."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from consumer_service.memory import is_tuned

MIB = 1 << 20
SCRIPT = """
import pyarrow as pa
from consumer_service.memory import return_what_is_free

def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096

return_what_is_free()
large = bytearray(16 << 20)
del large  # from here on glibc would keep pieces up to this size
before = resident()
pieces, between = [], []
for _ in range(50):
    pieces.append(bytearray(2 << 20))
    between.append(bytearray(60_000))
del pieces
print(pa.default_memory_pool().backend_name, resident() - before)
"""


def freed_in(**environ: str) -> tuple[str, int]:
    """(Arrow's pool, bytes that stay of 100 MiB that were freed)."""
    others = ("ARROW_DEFAULT_MEMORY_POOL", "GLIBC_TUNABLES")
    rest = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_") and k not in others}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=rest | environ)
    pool, kept = done.stdout.split()
    return pool, int(kept)


def test_what_was_freed_goes_back_though_something_lies_behind_it() -> None:
    pool, kept = freed_in()
    assert pool == "system"
    assert kept < 20 * MIB


def test_what_the_environment_says_stays() -> None:
    pool, kept = freed_in(
        MALLOC_MMAP_THRESHOLD_=str(64 * MIB), ARROW_DEFAULT_MEMORY_POOL="mimalloc"
    )
    assert pool == "mimalloc"
    assert kept > 90 * MIB, "glibc is told to keep such pieces in its heap"


@pytest.mark.parametrize(
    ("environ", "tuned"),
    [
        ({}, False),
        ({"MALLOC_ARENA_MAX": "2", "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2"}, False),
        ({"MALLOC_TRIM_THRESHOLD_": "0"}, True),
        ({"GLIBC_TUNABLES": "glibc.cpu.x=1:glibc.malloc.mmap_threshold=1"}, True),
    ],
)
def test_whoever_has_set_malloc_knows_better(environ: dict[str, str], tuned: bool) -> None:
    assert is_tuned(environ) is tuned
