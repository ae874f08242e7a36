"""The release before and this one share a root under load, and the history checker judges it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.upgrading.mixed_cluster import NAMES
from tests.support.upgrading.previous import PreviousRelease
from tests.support.upgrading.rolling import rolled

pytestmark = [pytest.mark.zookeeper, pytest.mark.matrix, pytest.mark.timeout(900)]


def test_processes_are_exchanged_both_ways_and_the_format_is_raised_under_load(
    previous: PreviousRelease, tmp_path: Path
) -> None:
    verdict, rolling = rolled(tmp_path, previous, minutes=0)
    assert verdict.ok, str(verdict)
    assert rolling.exchanged == 3 * len(NAMES)
    assert len(rolling.clients) == 3, "each release's SDK has worked with the other one's nodes"
    assert "raise the format of the root from 1 to 2" in rolling.upgraded
