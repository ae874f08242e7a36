"""Free memory goes back to the system."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest

from consumer_service.memory import GROWN_BYTES, FreeMemory, is_tuned

MIB = 1 << 20
SCRIPT = """
import sys
import time
import pyarrow as pa
from consumer_service.memory import resident_bytes, return_what_is_free

return_what_is_free()
before = resident_bytes()
pieces, between = [], []
for _ in range(50):
    pieces.append(bytearray(2 << 20))
    between.append(bytearray(60_000))
assert resident_bytes() - before > 90 << 20
del pieces
until = time.monotonic() + float(sys.argv[1])
while resident_bytes() - before > 20 << 20 and time.monotonic() < until:
    time.sleep(0.05)
print(pa.default_memory_pool().backend_name, resident_bytes() - before)
"""


def freed_in(within_s: float, **environ: str) -> tuple[str, int]:
    """(Arrow's pool, bytes that stay of 100 MiB that were freed)."""
    others = ("ARROW_DEFAULT_MEMORY_POOL", "GLIBC_TUNABLES")
    rest = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_") and k not in others}
    command = [sys.executable, "-c", SCRIPT, str(within_s)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=rest | environ)
    pool, kept = done.stdout.split()
    return pool, int(kept)


def test_what_was_freed_goes_back_though_something_lies_behind_it() -> None:
    pool, kept = freed_in(30)
    assert pool == "system"
    assert kept < 20 * MIB


def test_what_the_environment_says_stays() -> None:
    pool, kept = freed_in(
        2, MALLOC_MMAP_THRESHOLD_=str(64 * MIB), ARROW_DEFAULT_MEMORY_POOL="mimalloc"
    )
    assert pool == "mimalloc"
    assert kept > 90 * MIB, "glibc is told to keep such pieces in its heap"


def test_free_memory_is_looked_for_only_if_the_process_has_grown() -> None:
    trims: list[int] = []
    memory = FreeMemory(cast("Any", SimpleNamespace(malloc_trim=trims.append)))
    assert not memory.look()
    held = b"x" * (GROWN_BYTES * 2)
    assert memory.look()
    assert not memory.look(), "it has not grown since"
    assert trims == [0]
    del held


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
