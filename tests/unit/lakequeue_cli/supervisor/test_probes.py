"""What a driver's state file tells."""

from __future__ import annotations

import json

import pytest

from lakequeue_cli.supervisor.probes import driver_state


def test_the_state_of_the_order_job_counts() -> None:
    content = json.dumps({"pid": 7, "order": {"state": "leading"}, "offsets": {"state": "standby"}})
    assert driver_state(content.encode(), pid=7) == "leading"


@pytest.mark.parametrize("content", [b"", b'{"pid": 7, "or', b"[]", b'{"pid": 7}'])
def test_a_driver_that_is_not_that_far_has_none(content: bytes) -> None:
    assert driver_state(content, pid=7) is None


def test_the_file_of_an_earlier_process_does_not_count() -> None:
    content = json.dumps({"pid": 6, "order": {"state": "leading"}})
    assert driver_state(content.encode(), pid=7) is None
