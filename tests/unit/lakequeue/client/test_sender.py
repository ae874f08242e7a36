"""What a producer remembers while several topics are sent at once."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import orjson
import pytest

from lakequeue.calling.effects import Http, Reply, Script
from lakequeue.calling.nodes import FIND_EVERY_S, Nodes
from lakequeue.client.producing.outgoing import Outgoing
from lakequeue.client.producing.produce_responses import read_produced
from lakequeue.client.producing.producer_batch import COLUMNS_FROM
from lakequeue.client.producing.record_accumulator import Limits
from lakequeue.client.producing.sender import Sender
from lakequeue.errors import Broken, InvalidRequest
from lakequeue.wire import ARROW_STREAM, JSON, Consumed


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


def test_a_fenceable_producer_asks_for_nodes_when_it_begins_and_when_it_sends() -> None:
    times = [0.0]
    nodes = Nodes("http://a", finds=True, now=lambda: times[0])
    core = Sender(
        nodes, "p", "committed", Limits(), 1.0, lambda: 0.0, lambda: None, None, None, fence=True
    )

    def told(script: Script[None], *urls: str) -> Any:
        asked = next(script)
        assert isinstance(asked, Http)
        assert asked.url.endswith("/v1/nodes")
        infos = [{"url": url, "node": url} for url in urls]
        return script.send(Reply(200, {}, orjson.dumps({"ingest": infos, "consumer": []})))

    begin = told(beginning := core.begin(), "http://a")
    assert begin.url == "http://a/v1/producers/p/epochs"
    with pytest.raises(StopIteration):
        beginning.send(Reply(200, {}, b'{"producer_id": "p", "epoch": 1, "stamp": 1}'))
    times[0] = FIND_EVERY_S
    told(_delivering(core, "orders"), "http://a", "http://b")
    assert nodes.candidates == ["http://a", "http://b"]


def _delivering(core: Sender, topic: str) -> Script[None]:
    """How many records of that topic are sent."""
    accumulator = core.queue(Outgoing(topic, "first"))
    assert accumulator is not None
    for number in range(1, COLUMNS_FROM):
        core.queue(Outgoing(topic, f"v{number}"))
    core.flush(True)
    return core.deliver(accumulator)


@pytest.mark.parametrize("body", [b'{"code": "unsupported_media_type"}', b"<h1>415</h1>"])
def test_topics_that_learn_at_once_that_columns_are_not_taken_go_as_json(body: bytes) -> None:
    nodes = Nodes("http://127.0.0.1:1", finds=False)
    core = Sender(nodes, "p", "committed", Limits(), 1.0, lambda: 0.0, lambda: None, None, None)
    scripts = [_delivering(core, topic) for topic in ("one", "other")]
    for script in scripts:
        effect = next(script)
        assert isinstance(effect, Http)
        assert effect.request.content_type == ARROW_STREAM
    for script in scripts:
        effect = script.send(Reply(415, {}, body))
        assert isinstance(effect, Http)
        assert effect.request.content_type == JSON
    assert len(core.ledger) == 2 * COLUMNS_FROM  # none of them is given up


@pytest.mark.parametrize("body", [b'{"partitions": null, "stamp": 1}', b'{"partitions": 7}', b"[]"])
def test_an_answer_that_is_none_is_said_to_be_broken(body: bytes) -> None:
    with pytest.raises(Broken):
        read_produced(Reply(200, {}, body), 1)
