"""What a producer remembers while several topics are sent at once."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import orjson
import pytest

from lakequeue.calling.effects import Http, Reply
from lakequeue.calling.nodes import Nodes
from lakequeue.client.producing.record_accumulator import Limits
from lakequeue.client.producing.sender import Sender
from lakequeue.errors import InvalidRequest
from lakequeue.wire import Consumed


def test_the_stamp_that_is_carried_never_goes_back() -> None:
    nodes = Nodes("http://127.0.0.1:1")
    core = Sender(nodes, "p", "committed", Limits(), 1.0, lambda: 0.0, lambda: None, None, None)
    core.saw(1)
    other = threading.Thread(target=core.saw, args=(9,))

    class Compared(int):
        """Another topic is answered at the moment at which this stamp is compared."""

        def __lt__(self, than: int) -> bool:
            if not other.ident:
                other.start()
                other.join(0.2)  # over at once, unless it has to wait for us
            return int(self) < than

        def __gt__(self, than: int) -> bool:
            return not self < than + 1

    core.saw(Compared(5))
    other.join()
    assert core.last_stamp == 9


def test_a_round_of_which_nothing_comes_out_is_sent_too() -> None:
    nodes = Nodes("http://127.0.0.1:1")
    core = Sender(nodes, "p", "committed", Limits(), 1.0, lambda: 0.0, lambda: None, None, None)
    consumed = Consumed(group="g", topic="t", partition=1, from_offset=0, next_offset=3)
    script = core.produce_whole([], consumed)
    effect = next(script)
    assert isinstance(effect, Http)
    assert orjson.loads(effect.request.body or b"")["records"] == []
    with pytest.raises(StopIteration) as ended:
        script.send(Reply(200, {}, b'{"records": [], "stamp": 7}'))
    assert ended.value.value == []
    assert core.last_stamp == 7


@pytest.mark.parametrize(
    ("option", "given"),
    [
        ("message_id", b"bytes"),
        ("message_id", "\ud800"),
        ("message_id", ("a", "b")),
        ("message_id", ""),
        ("message_id", "x" * 513),
        ("partition", np.int64(1)),
        ("partition", object()),
        ("partition", 1 << 70),
    ],
)
def test_what_no_request_can_hold_is_refused_before_others_are_sent_with_it(
    option: str, given: Any
) -> None:
    nodes = Nodes("http://127.0.0.1:1")
    core = Sender(nodes, "p", "committed", Limits(), 1.0, lambda: 0.0, lambda: None, None, None)
    options: Any = {option: given}
    with pytest.raises(InvalidRequest):
        core.prepare("orders", "value", None, **options)
