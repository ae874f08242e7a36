"""Which server of an ensemble one is: what can be said, and what cannot."""

from __future__ import annotations

import pytest

from coordination.embedded import Place, place_of
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
    with pytest.raises(InvalidSetting, match="is no server of an ensemble"):
        place_of(number, servers)
