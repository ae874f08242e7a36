"""What becomes of records that nobody could settle."""

from __future__ import annotations

from typing import Any

import pytest

from lakequeue import Wanted
from lakequeue.calling import blocking_runner
from lakequeue.errors import InvalidRequest, UnknownTopic
from tests.support.services.backends import Backend, lag, take
from tests.support.services.zookeeper import wait_for


def test_after_its_last_attempt_a_record_is_a_dead_letter(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, "bad", key="k", headers={"trace": "t1"})
    with backend.worker(topic, max_attempts=2) as worker:
        for attempt in (1, 2):
            (message,) = take(worker, 1)
            assert message.attempt == attempt
            message.nack(reason=f"no {attempt}")
            worker.commit()
        wait_for(lambda: lag(backend, topic) == 0, "it is dead")
        assert worker.poll(backend.quiet_s) == []
    with backend.consumer(f"{topic}.dlq", "undertaker") as undertaker:
        (letter,) = take(undertaker, 1)
    assert (letter.key, letter.value) == ("k", "bad")
    said = {name: (value or b"").decode() for name, value in letter.headers}
    assert said["trace"] == "t1"
    assert (said["lakequeue-topic"], said["lakequeue-group"]) == (topic, topic)
    assert (said["lakequeue-partition"], said["lakequeue-offset"]) == ("0", "0")
    assert (said["lakequeue-attempts"], said["lakequeue-reason"]) == ("2", "max_attempts")
    assert said["lakequeue-nack-reason"] == "no 2"
    assert said["lakequeue-first-delivered-at"] <= said["lakequeue-dead-at"]


def test_a_record_that_nobody_settles_dies_of_its_timeouts(backend: Backend) -> None:
    topic = backend.topic(dead_letter_topic=f"morgue-{backend.topic()}", max_attempts=1)
    backend.send(topic, "bad")
    with backend.admin() as admin:
        morgue = str(admin.topic(topic).dead_letter_topic)
    with backend.worker(topic, visibility_timeout_ms=500, renew_for_s=0) as worker:
        take(worker, 1)
        backend.pass_time(0.5)
        wait_for(lambda: lag(backend, topic) == 0, "it is dead", every_s=0.05)
    with backend.consumer(morgue, "undertaker") as undertaker:
        assert take(undertaker, 1)[0].value == "bad"


def test_a_letter_that_its_topic_refuses_is_said_until_the_limit_is_raised(
    backend: Backend,
) -> None:
    small = backend.topic(max_record_bytes=1)
    topic = backend.topic(dead_letter_topic=small)
    backend.send(topic, "too large")
    with backend.worker(topic, max_attempts=1) as worker, backend.admin() as admin:
        take(worker, 1)[0].nack()
        worker.commit()

        def why() -> str:
            return str(admin.group(topic).partitions[0].dying_because or "")

        wait_for(lambda: "at most 1 are taken" in why(), "it is said")
        assert (admin.group(topic).partitions[0].dying_since or 0) > 1_700_000_000_000_000
        admin.alter_topic(small, max_record_bytes=1_000)
        worker.poll(backend.quiet_s)
        wait_for(lambda: lag(backend, topic) == 0, "it is sent")
        assert why() == ""


def test_dead_letters_go_back_where_they_came_from(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, "a")
    with backend.worker(topic, max_attempts=1) as worker:
        take(worker, 1)[0].nack()
        worker.commit()
        wait_for(lambda: lag(backend, topic) == 0, "it is dead")
        with backend.admin() as admin:
            assert admin.redrive(f"{topic}.dlq").redriven == 1
        (back,) = take(worker, 1)
        assert (back.value, back.offset, back.attempt) == ("a", 1, 1)
        assert back.headers == []


def test_by_http_dead_letters_go_back_a_part_at_a_time(backend: Backend) -> None:
    topic = backend.topic()
    dead = f"{topic}.dlq"
    backend.send(topic, *range(5))
    with backend.worker(topic, max_attempts=1) as worker:
        for message in take(worker, 5):
            message.nack()
        worker.commit()
        wait_for(lambda: lag(backend, topic) == 0, "they are dead")

    def asked(status: int, body: dict[str, Any], of: str = dead) -> dict[str, Any]:
        with blocking_runner.open_http({}, [backend.consumer_url]) as http:
            url = f"{backend.consumer_url}/v1/topics/{of}/redrive"
            answer = http.post(url, json=body, timeout=60)
        assert answer.status_code == status, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def letters() -> list[int]:
        """Offsets that they died at, as the letters stand there."""
        with backend.admin() as admin:
            records = admin.browse(dead, 0).records
        return [int(r.header("lakequeue-offset") or b"") for r in records]

    before = letters()
    nobody = asked(200, {"headers": {"lakequeue-offset": "99"}})
    assert (nobody["redriven"], nobody["more"], letters()) == (0, False, before)
    at = before.index(3)
    chosen = {"headers": {"lakequeue-offset": "3"}}
    first = asked(200, chosen | {"max": 1})
    assert (first["kept"] + first["redriven"], first["more"]) == (1, at > 0)
    rest = asked(200, chosen | {"end_offsets": first["end_offsets"]})
    assert first["redriven"] + rest["redriven"] == 1
    # What is behind the last that was chosen stays where it is.
    assert (first["kept"] + rest["kept"], rest["more"]) == (at, False)
    assert rest["end_offsets"] == first["end_offsets"] == [at + 1]
    assert letters() == before + before[:at]
    again = asked(200, {})
    assert (again["redriven"], again["without_topic"], again["more"]) == (4, 0, False)
    with backend.worker(topic, max_attempts=1) as worker:
        assert sorted(m.value for m in take(worker, 5)) == list(range(5))
    assert asked(404, {}, "no-such-topic")["code"] == "unknown_topic"
    refused = asked(422, {}, topic)
    assert "is not a dead-letter topic" in refused["detail"]
    assert asked(422, {"end_offsets": [5]}, topic)["code"] == "invalid_request"
    assert "seconds" in asked(422, {"since": 1_600_000_000})["detail"]
    assert asked(422, {"max": 0})["code"] == "invalid_request"


def test_dead_letters_go_to_the_topic_that_is_named(backend: Backend) -> None:
    topic, repair = backend.topic(), backend.topic()
    dead = f"{topic}.dlq"
    backend.send(topic, *range(3), key="k", headers={"own": "h"})
    with backend.worker(topic, max_attempts=1) as worker:
        for message in take(worker, 3):
            message.nack()
        worker.commit()
        wait_for(lambda: lag(backend, topic) == 0, "they are dead")
    with backend.admin() as admin:
        with pytest.raises(UnknownTopic):
            admin.redrive(dead, to="no-such-topic")
        with pytest.raises(InvalidRequest, match="behind themselves"):
            admin.redrive(dead, to=dead)
        with blocking_runner.open_http({}, [backend.consumer_url]) as http:
            url = f"{backend.consumer_url}/v1/topics/{dead}/redrive"
            chosen = {"to": repair, "headers": {"lakequeue-offset": "0"}}
            assert http.post(url, json=chosen, timeout=60).json()["redriven"] == 1
        # Nor does it matter that the topic they died in is gone.
        admin.delete_topic(topic)
        assert admin.redrive(dead).without_topic == 2
        assert admin.redrive(dead, to=repair).redriven == 2
        assert admin.redrive(dead, to=repair).looked_at == 0
        records = admin.browse(repair, 0).records
    assert sorted(record.value for record in records) == [0, 1, 2]
    assert {(r.key, str(r.headers)) for r in records} == {("k", str([("own", b"h")]))}


def test_a_topic_that_is_none_of_dead_letters_is_not_redriven(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, *range(5))
    with backend.admin() as admin:
        with pytest.raises(InvalidRequest, match=f"{topic}/0@0 is none"):
            admin.redrive(topic)
        assert admin.browse(topic, 0).end_offset == 5
        empty = backend.topic()
        with pytest.raises(InvalidRequest, match="there are none in it"):
            admin.redrive(empty)


def test_a_redrive_that_chooses_nothing_leaves_the_topic_as_it_is(backend: Backend) -> None:
    topic = backend.topic()
    dead = f"{topic}.dlq"
    backend.send(topic, *range(5))
    with backend.worker(topic, max_attempts=1) as worker:
        for message in take(worker, 5):
            message.nack()
        worker.commit()
        wait_for(lambda: lag(backend, topic) == 0, "they are dead")
    with backend.admin() as admin:
        for _ in range(2):
            done = admin.redrive(dead, wanted=Wanted({"lakequeue-reason": "expired"}))
            assert (done.redriven, done.kept, done.without_topic) == (0, 5, 0)
            assert admin.browse(dead, 0).end_offset == 5
        # Nor does one of records that have no topic to go back to.
        admin.delete_topic(topic)
        done = admin.redrive(dead)
        assert (done.redriven, done.kept, done.without_topic) == (0, 0, 5)
        assert admin.browse(dead, 0).end_offset == 5


def test_expired_records_are_dead_letters_where_the_topic_says_so(backend: Backend) -> None:
    topic = backend.topic(ttl_ms=500, on_expired="dead_letter")
    backend.send(topic, "old")
    backend.pass_time(0.6)
    with backend.worker(topic) as worker:
        assert worker.poll(backend.quiet_s) == []
        wait_for(lambda: lag(backend, topic) == 0, "it is dead")
    with backend.consumer(f"{topic}.dlq", "undertaker") as undertaker:
        (letter,) = take(undertaker, 1)
    assert letter.header("lakequeue-reason") == b"expired"
