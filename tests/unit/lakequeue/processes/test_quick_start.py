"""Imports without a search for garbage."""

from __future__ import annotations

import contextlib
import gc

import pytest

from lakequeue.processes.quick_start import importing


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
