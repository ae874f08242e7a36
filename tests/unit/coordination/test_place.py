"""Which server of an ensemble one is: what can be said, and what cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordination.embedded import Place, place_of, server_command
from lakequeue.errors import InvalidSetting


def test_a_server_is_alone_or_one_of_those_that_are_named() -> None:
    assert place_of(None, None) is None
    servers = {1: "a:2888:3888", 2: "b:2888:3888"}
    assert place_of(2, "1=a:2888:3888, 2=b:2888:3888") == Place(2, servers)


@pytest.mark.parametrize(
    ("number", "servers"),
    [(None, "1=a:1:2"), (2, None), (3, "1=a:1:2"), (1, "1=a"), (1, "a:1:2"), (1, "x=a:1:2")],
)
def test_anything_else_is_refused(number: int | None, servers: str | None) -> None:
    with pytest.raises(InvalidSetting, match="is not a server of an ensemble"):
        place_of(number, servers)


def test_an_ensemble_notices_a_death_soon_after_the_session_timeout_whatever_a_tick_is(
    tmp_path: Path,
) -> None:
    place = Place(1, {1: "a:1:2", 2: "b:1:2", 3: "c:1:2"})
    server_command(tmp_path, 2181, place)
    lines = (tmp_path / "zoo.cfg").read_text().splitlines()
    config = dict(line.split("=", 1) for line in lines)
    tick_ms = int(config["tickTime"])
    # A session ends on a tick; followers tell the leader twice a tick whom they have heard.
    assert tick_ms * 1.5 <= 200
    assert tick_ms * int(config["initLimit"]) == 10_000
    assert tick_ms * int(config["syncLimit"]) == 5_000
