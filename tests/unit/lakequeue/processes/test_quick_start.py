"""Imports without a search for garbage."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys

import pytest

from lakequeue.processes.quick_start import importing


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says is for the processes that are started from here: the next tests start others."""
    monkeypatch.setenv("MIMALLOC_PURGE_DELAY", "")
    monkeypatch.delenv("MIMALLOC_PURGE_DELAY")


@pytest.mark.parametrize("fails", [False, True])
def test_garbage_is_looked_for_again_afterwards_and_not_in_what_was_imported(fails: bool) -> None:
    before = gc.get_freeze_count()
    with contextlib.suppress(ModuleNotFoundError), importing():
        assert not gc.isenabled()
        imported = [[number] for number in range(1000)]
        if fails:
            raise ModuleNotFoundError("typer")
    assert gc.isenabled()
    assert gc.get_freeze_count() - before >= len(imported)
    gc.unfreeze()


_FREES_AND_TAKES = """
import resource, time
from lakequeue.processes.quick_start import keep_freed_memory
keep_freed_memory()
import numpy as np
import pyarrow as pa
assert pa.default_memory_pool().backend_name == "mimalloc"

def once():
    held = [pa.allocate_buffer(1 << 20) for _ in range(32)]
    for one in held:
        np.frombuffer(one, np.uint8)[::4096] = 1
    del held, one
    time.sleep(0.05)  # longer than the 10 ms for which Arrow keeps it by itself

once()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    once()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.parametrize(("said", "stays"), [(None, True), ("0", False)])
def test_memory_that_arrow_has_freed_is_there_for_the_next_batch(
    monkeypatch: pytest.MonkeyPatch, said: str | None, stays: bool
) -> None:
    pages = 5 * 32 * 256
    if said is None:
        monkeypatch.delenv("MIMALLOC_PURGE_DELAY", raising=False)
    else:
        monkeypatch.setenv("MIMALLOC_PURGE_DELAY", said)  # what the user says counts
    ended = subprocess.run(
        [sys.executable, "-c", _FREES_AND_TAKES], capture_output=True, text=True, check=True
    )
    cleared = int(ended.stdout)
    assert cleared < pages / 10 if stays else cleared > pages / 2
