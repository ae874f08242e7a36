"""What people who think in queues can rely on."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from uuid import uuid4

import pytest

from lakequeue import Message, Queue
from lakequeue.errors import AttemptSuperseded, GroupMismatch, UnknownGroup, UnknownTopic
from tests.support.services.backends import Backend, take
from tests.support.services.zookeeper import wait_for

DOCUMENT = Path(__file__).parents[2] / "docs" / "queues.md"


def test_every_verb(backend: Backend) -> None:
    name = f"jobs-{uuid4().hex[:8]}"
    at = (backend.ingest_url, backend.consumer_url)
    with Queue.create(name, *at, visibility_timeout_s=20, max_attempts=3) as queue:
        assert queue.send({"n": 0}, message_id="first") == "first"
        assert len(queue.send_batch([{"n": n} for n in range(1, 6)])) == 5
        got = [m for _ in range(6) for m in queue.receive(wait_s=20)]
        assert sorted(m.value["n"] for m in got) == list(range(6))
        assert queue.receive() == []
        first, second, third, fourth, *rest = got
        queue.delete(first, *rest)
        second.ack()
        queue.change_visibility(third, 3600)
        queue.change_visibility(fourth, 0)
        (again,) = queue.receive(max=10, wait_s=20, visibility_timeout_s=3600)
        assert (again.value, again.attempt) == (fourth.value, 2)
        with pytest.raises(AttemptSuperseded):
            queue.delete(fourth)
        queue.send("late", delay_s=3600)
        queue.purge()
        with pytest.raises(AttemptSuperseded):
            queue.delete(third)
        queue.send("after")
        (after,) = queue.receive(max=10, wait_s=20)
        assert after.value == "after"
        queue.delete(after)
        with backend.admin() as admin:
            assert sum(p.lag for p in admin.group(name).partitions) == 0
            queue.delete_queue()
            for gone in (lambda: admin.group(name), lambda: admin.topic(name)):
                with pytest.raises((UnknownGroup, UnknownTopic)):
                    gone()


def test_what_is_received_comes_again_when_its_time_is_over(backend: Backend) -> None:
    at = (backend.ingest_url, backend.consumer_url)
    with Queue.create(f"jobs-{uuid4().hex[:8]}", *at) as queue:
        queue.send("a")
        (message,) = queue.receive(wait_s=20, visibility_timeout_s=1.5)
        assert queue.receive() == []
        backend.pass_time(1.5)
        (again,) = queue.receive(wait_s=20)
        assert (again.value, again.attempt) == ("a", 2)
        with pytest.raises(AttemptSuperseded):
            queue.delete(message)


def test_creating_it_again_is_no_error_unless_the_options_differ(backend: Backend) -> None:
    name = f"jobs-{uuid4().hex[:8]}"
    at = (backend.ingest_url, backend.consumer_url)
    Queue.create(name, *at, max_attempts=3).close()
    Queue.create(name, *at, max_attempts=3).close()
    with pytest.raises(GroupMismatch):
        Queue.create(name, *at, max_attempts=4)


def test_the_session_in_the_documents_prints_what_it_says(backend: Backend) -> None:
    session = "\n".join(re.findall(r"```pycon\n(.*?)```", DOCUMENT.read_text(), flags=re.DOTALL))
    session = session.replace("http://127.0.0.1:8080", backend.ingest_url)
    session = session.replace("http://127.0.0.1:8081", backend.consumer_url)
    test = doctest.DocTestParser().get_doctest(session, {}, "docs/queues.md", None, 0)
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    said: list[str] = []
    found = doctest.DocTestRunner(optionflags=flags).run(test, out=said.append)
    assert found.attempted > 12
    assert not found.failed, "".join(said)


@pytest.mark.parametrize("says", ["ack", "nack", "extend"])
def test_receipts_of_a_queue_that_was_deleted_are_refused_for_good(
    backend: Backend, says: str
) -> None:
    topic = backend.topic()
    with backend.queue(topic) as queue:
        queue.send("a")
        [message] = _received(queue)
        queue.delete_queue()

        def settle() -> bool:
            # The node that has the partition may learn of it a moment later.
            if says == "ack":
                message.ack()
            elif says == "nack":
                message.nack()
            else:
                message.extend(30)
            return False

        with pytest.raises((UnknownTopic, UnknownGroup)) as refused:
            wait_for(settle, "it is refused")
    assert (refused.value.http_status, refused.value.retryable) == (404, False)


def test_what_send_has_raised_is_not_raised_again_by_close(backend: Backend) -> None:
    with backend.queue(f"none-{uuid4().hex[:8]}") as queue, pytest.raises(UnknownTopic):
        queue.send("a")
    assert queue._http.is_closed
    assert queue._admin._http.is_closed


def _received(queue: Queue) -> list[Message]:
    found: list[Message] = []

    def more() -> bool:
        found.extend(queue.receive(wait_s=1))
        return bool(found)

    wait_for(more, "a message")
    return found


def test_a_member_of_which_every_topic_was_deleted_is_told_so(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, "a")
    with backend.worker(topic) as worker:
        take(worker, 1)
        with backend.admin() as admin:
            admin.delete_topic(topic)
        with pytest.raises(UnknownTopic, match="deleted"):
            wait_for(lambda: worker.poll(1) and False, "it is told")
