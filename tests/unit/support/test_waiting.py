"""How tests wait."""

from __future__ import annotations

import pytest

from lakequeue.clock import boot_seconds
from tests.support.services.zookeeper import wait_for


def test_what_takes_long_is_asked_seldom_and_found_hardly_later() -> None:
    asked: list[float] = []
    began = boot_seconds()

    def over() -> bool:
        asked.append(boot_seconds() - began)
        return asked[-1] >= 1.0

    wait_for(over)
    assert len(asked) < 50, "a hundred times a second would be as many in half of it"
    assert asked[-2] < 1.0, "it is asked until it is so, and no longer"


def test_what_never_comes_fails_with_its_name() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"not within 0.05 s: the ship"):
        wait_for(lambda: False, "the ship", 0.05)
