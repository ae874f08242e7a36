"""Records that are taken many at once: the next poll leaves before they are made."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading

import orjson
import pytest

from lakequeue.calling.effects import Http, Reply, Wait
from lakequeue.calling.nodes import Nodes
from lakequeue.client.consuming.consumer import Consumer
from lakequeue.client.consuming.core import MANY
from lakequeue.client.consuming.membership import Membership
from lakequeue.client.fetched import Given, InJson, Run, messages_of
from lakequeue.client.message import Message
from lakequeue.errors import Broken
from lakequeue.wire import Assigned

RAW = {"topic": "orders", "partition": 0, "offset": 0, "receipt": "r"}


def ready(count: int) -> Consumer:
    """A consumer that has so many records, and fetches as many at once."""
    consumer = Consumer("orders", group="billing", urls=["http://a"], max_poll_records=count)
    core = consumer._core
    core.member = Membership("m", Nodes("http://a"), 6.0, 0.0)
    core.buffer.joined(1, [Assigned(topic="orders", partition=0, epoch=3)])
    core.buffer.received([RAW | {"offset": n} for n in range(count)], core.ack)
    return consumer


def test_the_next_poll_leaves_before_many_records_are_made() -> None:
    consumer = ready(MANY)
    core, script = consumer._core, consumer._polled(1.0, MANY)
    assert isinstance(next(script), Wait)
    waits = script.send(True)
    assert isinstance(waits, Wait)
    assert waits.timeout_s is not None
    assert not waits.until()
    assert core.buffer.ready == MANY, "who is cancelled now has taken nothing"
    assert core._has_room()
    assert core.member is not None
    assert isinstance(next(core._poll(core.member)), Http)
    assert waits.until()
    assert not core._has_room()
    with pytest.raises(StopIteration) as end:
        script.send(True)
    assert [message.offset for message in end.value.value] == list(range(MANY))


def cancelled(consumer: Consumer, most: int) -> bool:
    """Whether a poll still waits when it is cancelled, though there are records."""
    script = consumer._polled(1.0, most)
    next(script)
    try:
        script.send(True)
    except StopIteration:
        return False
    script.close()
    return True


def test_no_poll_waits_for_one_that_has_left() -> None:
    consumer = ready(MANY)
    core = consumer._core
    assert cancelled(consumer, MANY)
    assert core.member is not None
    fetch = core._poll(core.member)
    next(fetch)
    assert not cancelled(consumer, MANY), "or who cancels in each turn would never get any"


def test_polls_that_are_cancelled_do_not_fill_the_memory() -> None:
    consumer = ready(MANY)
    core, most = consumer._core, 1_000 * MANY
    assert core.member is not None
    for poll in range(1, 4):
        if not cancelled(consumer, most):
            break
        fetch = core._poll(core.member)
        next(fetch)
        records = [RAW | {"offset": poll * MANY + n} for n in range(MANY)]
        body = {"records": records, "poll": poll, "assignment_version": 1}
        with contextlib.suppress(StopIteration):
            fetch.send(Reply(200, {}, orjson.dumps(body)))
        assert core.buffer.ready == (poll + 1) * MANY
    assert poll == 2


@pytest.mark.parametrize(("held", "taken"), [(MANY - 1, MANY - 1), (2 * MANY, 10)])
def test_few_records_wait_for_no_poll(held: int, taken: int) -> None:
    script = ready(held)._polled(1.0, taken)
    assert isinstance(next(script), Wait)
    with pytest.raises(StopIteration) as end:
        script.send(True)
    assert len(end.value.value) == taken


@pytest.mark.parametrize("collects", [True, False])
def test_garbage_is_collected_afterwards_as_before(*, collects: bool) -> None:
    meanwhile = []

    class Watched(Run):
        __slots__ = ()

        def messages(self) -> list[Message]:
            meanwhile.append(gc.isenabled())
            raise Broken("in the middle of it")

    before = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        run = Watched(InJson([RAW]), 0, 1, Given(("orders", 0), 3, 1, None))
        with pytest.raises(Broken):
            messages_of([run])
        assert (meanwhile, gc.isenabled()) == ([False], collects)
    finally:
        (gc.enable if before else gc.disable)()


def waiting(making: threading.Event, until: threading.Event) -> type[Run]:
    """A run that says when its records are being made, and makes them when it may."""

    class Slow(Run):
        __slots__ = ()

        def messages(self) -> list[Message]:
            making.set()
            assert until.wait(10.0)
            return super().messages()

    return Slow


def test_garbage_is_collected_after_two_threads_have_made_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    making, asked = threading.Event(), threading.Event()

    def of(run: type[Run]) -> threading.Thread:
        given = Given(("orders", 0), 3, 1, None)
        runs = [run(InJson([RAW]), 0, 1, given)]
        thread = threading.Thread(target=messages_of, args=(runs,))
        thread.start()
        return thread

    before, known = gc.isenabled(), gc.isenabled
    gc.enable()
    try:
        first = of(waiting(making, asked))
        assert making.wait(10.0)

        def asks() -> bool:
            """The other thread goes on when the first has ended."""
            found = known()
            asked.set()
            first.join(10.0)
            return found

        monkeypatch.setattr(gc, "isenabled", asks)
        of(Run).join(10.0)
        asked.set()
        first.join(10.0)
        assert known()
    finally:
        asked.set()
        (gc.enable if before else gc.disable)()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is nothing to inherit")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_garbage_is_collected_in_a_child_that_is_forked_meanwhile() -> None:
    making, forking = threading.Event(), threading.Event()
    os.register_at_fork(before=forking.set)  # called before what was registered earlier

    before = gc.isenabled()
    gc.enable()
    try:
        runs = [waiting(making, forking)(InJson([RAW]), 0, 1, Given(("orders", 0), 3, 1, None))]
        thread = threading.Thread(target=messages_of, args=(runs,))
        thread.start()
        assert making.wait(10.0)
        child = os.fork()
        if not child:
            signal.alarm(5)
            collected = gc.isenabled()
            made = messages_of([Run(InJson([RAW]), 0, 1, runs[0].given)])
            os._exit(2 * collected + len(made))
        _, status = os.waitpid(child, 0)
        thread.join()
        assert os.waitstatus_to_exitcode(status) == 3
        assert gc.isenabled()
    finally:
        (gc.enable if before else gc.disable)()
