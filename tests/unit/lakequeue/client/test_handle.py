"""The future that `send` returns."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, as_completed, wait

import pytest

from lakequeue import LakequeueError, Producer, RecordMetadata
from lakequeue.client.producing.handles import Handle, acknowledge, give_up
from lakequeue.client.producing.outgoing import Life, Outgoing
from lakequeue.client.producing.produce_responses import Answered
from lakequeue.errors import TooLarge

BATCH = Answered("orders", 7)


def sent(count: int) -> tuple[list[Outgoing], list[Handle]]:
    """Records on their way, as records and as futures."""
    handles = [Handle("orders", f"v{number}", "k") for number in range(count)]
    for number, handle in enumerate(handles):
        handle.life, handle.sequence = Life("p"), number
    return list(handles), handles


def futures(handles: list[Handle]) -> list[Future[RecordMetadata]]:
    """As `send` says what it returns."""
    return list(handles)


def in_a_moment(what: Callable[[], object]) -> threading.Thread:
    """Do it in another thread, once this one is likely to wait."""
    timer = threading.Timer(0.05, what)
    timer.start()
    return timer


def test_a_wait_that_is_over_has_words() -> None:
    producer = Producer("http://127.0.0.1:9", linger_ms=3_600_000)
    handle = producer.send("orders", 1)
    with pytest.raises(TimeoutError, match=r"for orders is not acknowledged after 0\.01 s; it is"):
        handle.result(timeout=0.01)
    with contextlib.suppress(LakequeueError):
        producer.close(timeout_s=0)
    with pytest.raises(LakequeueError):
        handle.result(timeout=10)


def test_each_record_of_a_batch_has_its_own_metadata() -> None:
    records, handles = sent(3)
    assert not any(handle.done() for handle in handles)
    acknowledge(records, BATCH, [4, 5, 6])
    assert all(handle.done() for handle in handles)
    assert handles[2].result() == RecordMetadata("orders", 6, "p:2", 7)
    assert handles[2].result() is handles[2].result()
    assert [handle.exception() for handle in handles] == [None] * 3


def test_an_id_of_its_own_stays() -> None:
    records, handles = sent(1)
    records[0].add_more(None, None, "mine", None, None)
    acknowledge(records, BATCH, [4])
    assert handles[0].result().message_id == "mine"


def test_who_waits_is_woken() -> None:
    records, handles = sent(2)
    thread = in_a_moment(lambda: acknowledge(records, BATCH, [0, 1]))
    assert handles[1].result(timeout=10).partition == 1
    thread.join()
    assert handles[0].result(timeout=0).partition == 0


def test_an_error_is_raised_from_each() -> None:
    records, handles = sent(2)
    error = TooLarge("no", stored="no")
    thread = in_a_moment(lambda: give_up(records, error))
    assert handles[0].exception(timeout=10) is error
    thread.join()
    with pytest.raises(TooLarge):
        handles[1].result()


def test_callbacks_come_in_order_and_late_ones_at_once(caplog: pytest.LogCaptureFixture) -> None:
    records, handles = sent(3)
    told: list[object] = []

    def fails(_future: Future[RecordMetadata]) -> None:
        raise ValueError("in the user's code")

    handles[1].add_done_callback(lambda f: told.append((1, f.result().partition)))
    handles[1].add_done_callback(lambda f: told.append((11, f.result().partition)))
    handles[0].add_done_callback(fails)
    handles[0].add_done_callback(lambda f: told.append((0, f.result().partition)))
    handles[2].add_done_callback(lambda _: told.append(2))
    with pytest.raises(TimeoutError):
        handles[2].result(timeout=0)  # somebody has waited for it: it is settled in another way
    with caplog.at_level(logging.CRITICAL):
        acknowledge(records, BATCH, [5, 6, 7])
    assert told == [(0, 5), (1, 6), (11, 6), 2]
    handles[1].add_done_callback(told.append)
    assert told[-1] is handles[1]


def test_it_is_a_future_for_the_standard_library() -> None:
    records, handles = sent(3)
    assert isinstance(handles[0], Future)
    thread = in_a_moment(lambda: acknowledge(records[:1], BATCH, [0]))
    done, left = wait(handles, timeout=10, return_when=FIRST_COMPLETED)
    thread.join()
    assert (done, left) == ({handles[0]}, set(handles[1:]))
    thread = in_a_moment(lambda: give_up(records[1:], TooLarge("no")))
    assert set(as_completed(futures(handles), timeout=10)) == set(handles)
    thread.join()
    assert repr(handles[0]) == "<orders p:0 is acknowledged>"
    assert repr(handles[1]) == "<orders p:1 failed: no>"
    assert repr(sent(1)[1][0]) == "<orders p:0 is on its way>"


def test_asyncio_can_wait_for_it() -> None:
    records, handles = sent(2)

    async def waits() -> RecordMetadata:
        thread = in_a_moment(lambda: acknowledge(records, BATCH, [3, 4]))
        found = await asyncio.wrap_future(handles[1])
        thread.join()
        return found

    assert asyncio.run(waits()).partition == 4


def test_who_does_not_want_to_know_can_say_so() -> None:
    records, handles = sent(2)
    told: list[object] = []
    handles[0].add_done_callback(told.append)
    assert handles[0].cancel()
    assert (handles[0].cancelled(), handles[0].done(), told) == (True, True, [handles[0]])
    acknowledge(records, BATCH, [0, 1])
    with pytest.raises(CancelledError):
        handles[0].result()
    assert not handles[1].cancel()
    assert not handles[1].cancelled()
    assert handles[1].result().partition == 1


def test_who_waits_for_several_hears_of_one_that_is_cancelled() -> None:
    _, handles = sent(2)
    thread = in_a_moment(handles[1].cancel)
    done, left = wait(handles, timeout=10, return_when=FIRST_COMPLETED)
    thread.join()
    assert (done, left) == ({handles[1]}, {handles[0]})
    assert list(as_completed(futures(handles[1:]), timeout=10)) == [handles[1]]


def test_the_end_of_a_value_may_ask_for_futures() -> None:
    _, (other,) = sent(1)
    told: list[object] = []

    class Value(dict[str, int]):
        def __del__(self) -> None:
            mine.add_done_callback(lambda f: told.append(f.cancel()))
            other.cancel()

    mine = Handle("orders", Value(n=1))
    mine.life = Life("p")
    thread = threading.Thread(target=acknowledge, args=([mine], BATCH, [0]), daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    assert (mine.result().partition, told, other.cancelled()) == (0, [False], True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is nothing to inherit")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_that_is_forked_while_futures_are_settled_has_futures_too() -> None:
    settling, forking = threading.Event(), threading.Event()
    os.register_at_fork(before=forking.set)  # called before what was registered earlier

    class Value(dict[str, int]):
        def __del__(self) -> None:
            settling.set()
            forking.wait(10)

    mine = Handle("orders", Value(n=1))
    mine.life = Life("p")
    thread = threading.Thread(target=acknowledge, args=([mine], BATCH, [0]))
    thread.start()
    assert settling.wait(10)
    child = os.fork()
    if not child:
        signal.alarm(5)
        records, handles = sent(2)
        acknowledge(records, BATCH, [3, 4])
        os._exit(handles[1].result().partition)
    _, status = os.waitpid(child, 0)
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 4


def test_no_callback_and_no_wait_is_lost_in_a_race() -> None:
    for _ in range(200):
        records, handles = sent(8)
        told: list[object] = []
        begin = threading.Barrier(2)

        def settles(records: list[Outgoing] = records, begin: threading.Barrier = begin) -> None:
            begin.wait()
            acknowledge(records, BATCH, list(range(8)))

        thread = threading.Thread(target=settles)
        thread.start()
        begin.wait()
        for handle in handles:
            handle.add_done_callback(told.append)
        assert {f.result().partition for f in as_completed(futures(handles), timeout=10)} == set(
            range(8)
        )
        thread.join()
        assert len(told) == 8


def test_a_future_that_is_kept_does_not_keep_the_value() -> None:
    records, handles = sent(2)
    acknowledge(records[:1], BATCH, [0])
    give_up(records[1:], TooLarge("no"))
    assert [handle.value for handle in handles] == [None, "v1"], "one is to be sent again"
    assert (handles[0].key, handles[0].value_data, handles[0].key_data) == (None, None, None)
    assert handles[0].result().message_id == "p:0"
