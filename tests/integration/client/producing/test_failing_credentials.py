"""What tells the API key fails: requests wait for it, and nobody waits for ever."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakequeue import Consumer, Credentials, Producer
from lakequeue.calling.credentials import Bearer
from lakequeue.errors import InvalidSetting, Unreachable
from tests.integration.client.misbehaving import Misbehaving, misbehaving


@pytest.fixture
def server() -> Iterator[Misbehaving]:
    with misbehaving() as running:
        yield running


def failing(times: int) -> Callable[[], str]:
    left = [None] * times

    def fetch() -> str:
        if left:
            left.pop()
            raise ConnectionError("no tokens now")
        return "token"

    return fetch


def test_a_record_waits_for_a_key_that_is_told_later(server: Misbehaving) -> None:
    with Producer(server.url, credentials=Credentials(failing(1))) as producer:
        assert producer.send("orders", 1).result(10).partition == 0


def test_a_record_fails_in_time_if_no_key_is_told(server: Misbehaving, tmp_path: Path) -> None:
    never = Credentials(failing(10_000))
    producer = Producer(server.url, credentials=never, delivery_timeout_s=0.2)
    with pytest.raises(Unreachable, match="no tokens now") as failed:
        producer.send("orders", 1).result(5)
    assert failed.value.stored == "no"
    absent = Credentials(api_key_file=tmp_path / "none")
    other = Producer(server.url, credentials=absent)
    with pytest.raises(InvalidSetting):
        other.send("orders", 1).result(5)
    for one in (producer, other):
        with pytest.raises((Unreachable, InvalidSetting)):
            one.close()
    assert server.requests == []


def test_a_consumer_raises_in_time_if_no_key_is_told(server: Misbehaving) -> None:
    never = Credentials(failing(10_000))
    with (
        Consumer("t", "g", urls=server.url, credentials=never, connect_timeout_s=0.2) as consumer,
        pytest.raises(Unreachable, match="no tokens now"),
    ):
        consumer.poll(5)


def test_a_key_stays_while_its_file_is_exchanged(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("first")
    bearer = Bearer(Credentials(api_key_file=file))
    assert bearer._newest(now=True) == "first"
    file.unlink()
    assert bearer._newest(now=True) == "first"
    file.write_text("second")
    assert bearer._newest(now=True) == "second"
