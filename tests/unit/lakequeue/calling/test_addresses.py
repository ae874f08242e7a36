"""Clients that were not told where the services are find them."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from pathlib import Path

import pytest

from lakequeue import Admin, Consumer, Producer, Queue
from lakequeue.calling.addresses import (
    consumer_urls,
    ingest_urls,
    queue_root,
    remove_addresses,
    root_to_read,
    write_addresses,
)
from lakequeue.errors import InvalidSetting, NotReady, RootUnusable

INGEST, CONSUMER = "http://127.0.0.1:7001", "http://127.0.0.1:7002"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a queue in it, and an environment without settings."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("LAKEQUEUE_")]:
        monkeypatch.delenv(name)
    (tmp_path / "lakequeue-data" / "_lakequeue").mkdir(parents=True)
    return tmp_path


def test_the_default_is_what_is_left() -> None:
    assert (ingest_urls(), consumer_urls()) == ("http://127.0.0.1:8080", "http://127.0.0.1:8081")


def test_a_queue_on_this_machine_is_found_by_its_root(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_addresses(str(folder / "lakequeue-data"), [INGEST], [CONSUMER])
    assert (ingest_urls(), consumer_urls()) == ([INGEST], [CONSUMER])
    other = folder / "elsewhere"
    (other / "_lakequeue").mkdir(parents=True)
    write_addresses(str(other), ["http://127.0.0.1:7003"], [CONSUMER])
    monkeypatch.setenv("LAKEQUEUE_ROOT", f"file://{other}")
    assert ingest_urls() == ["http://127.0.0.1:7003"]


def test_a_root_with_an_escaped_name_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a b" / "_lakequeue").mkdir(parents=True)
    root = f"file://{folder}/a%20b"
    write_addresses(root, [INGEST], [CONSUMER])
    monkeypatch.setenv("LAKEQUEUE_ROOT", root)
    assert ingest_urls() == [INGEST]
    assert queue_root() == str(folder / "a b")


def test_the_order_is_argument_environment_file_root(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_addresses(str(folder / "lakequeue-data"), [INGEST], [CONSUMER])
    (folder / "lakequeue.toml").write_text('[ingest]\nurl = "http://file:1"\n')
    assert ingest_urls() == "http://file:1"
    monkeypatch.setenv("LAKEQUEUE_INGEST__URL", "http://environment:1")
    assert ingest_urls() == "http://environment:1"
    assert ingest_urls("http://argument:1") == "http://argument:1"
    monkeypatch.setenv("LAKEQUEUE_CONSUMER__PORT", "9999")
    assert consumer_urls() == "http://127.0.0.1:9999"


def test_addresses_go_with_their_process(folder: Path) -> None:
    root = folder / "lakequeue-data"
    write_addresses(str(root), [INGEST], [CONSUMER])
    file = root / "_lakequeue" / "addresses.json"
    # 2 ** 22 is the highest id that Linux gives out, plus one.
    file.write_text(json.dumps({"ingest": [INGEST], "consumer": [CONSUMER], "pid": 2**22}))
    assert ingest_urls() == "http://127.0.0.1:8080"
    remove_addresses(str(root))
    assert file.exists(), "another process has written it"
    write_addresses(str(root), [INGEST], [CONSUMER])
    remove_addresses(str(root))
    assert not file.exists()


def test_a_process_that_has_got_the_id_of_another_is_no_queue(folder: Path) -> None:
    root = folder / "lakequeue-data"
    write_addresses(str(root), [INGEST], [CONSUMER])
    assert ingest_urls() == [INGEST]
    file = root / "_lakequeue" / "addresses.json"
    told = json.loads(file.read_text())
    file.write_text(json.dumps(told | {"started": "1"}))
    assert ingest_urls() == "http://127.0.0.1:8080"
    del told["started"]
    file.write_text(json.dumps(told))
    assert ingest_urls() == [INGEST], "an earlier release has written it"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"ingest": 5, "pid": 1}', '{"ingest": []}'])
def test_a_damaged_file_is_as_none(folder: Path, text: str) -> None:
    (folder / "lakequeue-data" / "_lakequeue" / "addresses.json").write_text(text)
    assert ingest_urls() == "http://127.0.0.1:8080"


def test_an_object_store_holds_no_addresses() -> None:
    write_addresses("s3://bucket/queue", [INGEST], [CONSUMER])
    remove_addresses("s3://bucket/queue")


def test_every_client_finds_them_alike(folder: Path) -> None:
    write_addresses(str(folder / "lakequeue-data"), [INGEST], [CONSUMER])
    assert Producer()._core.nodes.urls == [INGEST]
    assert Consumer("orders", "billing")._core.nodes.urls == [CONSUMER]
    admin, queue = Admin(), Queue("jobs")
    assert (admin._ingest.urls, admin._consumer.urls) == ([INGEST], [CONSUMER])
    assert queue._nodes.urls == [CONSUMER]


def test_a_wrong_setting_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEQUEUE_INGEST__PORT", "many")
    with pytest.raises(InvalidSetting, match="port"):
        Producer()


def test_the_queue_itself_is_found_by_what_reads_tables(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert queue_root() == str(folder / "lakequeue-data"), "an absolute path, for executors"
    (folder / "lakequeue.toml").write_text('root = "s3://bucket/queue"\n')
    assert queue_root() == "s3://bucket/queue"
    monkeypatch.setenv("LAKEQUEUE_ROOT", "elsewhere")
    assert queue_root() == str(folder / "elsewhere")


def test_a_folder_without_a_queue_is_none(folder: Path) -> None:
    (folder / "lakequeue-data" / "_lakequeue").rmdir()
    assert queue_root() is None


def test_a_queue_that_starts_is_waited_for_and_the_default_is_not_taken(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = str(folder / "lakequeue-data")
    write_addresses(root, [INGEST], [CONSUMER], starting=True)
    found: list[object] = []
    waits = threading.Thread(target=lambda: found.append(ingest_urls()))
    waits.start()
    waits.join(0.3)
    assert waits.is_alive()
    write_addresses(root, [INGEST], [CONSUMER])
    waits.join(30)
    assert found == [[INGEST]]
    assert [record.getMessage() for record in caplog.records] == [
        f"the queue at {root} is starting; waiting until it is ready"
    ]


def test_who_has_no_patience_or_no_thread_to_wait_in_gets_the_addresses_at_once(
    folder: Path,
) -> None:
    write_addresses(str(folder / "lakequeue-data"), [INGEST], [CONSUMER], starting=True)
    assert consumer_urls(patience_s=0) == [CONSUMER]

    async def within() -> object:
        return ingest_urls()

    assert asyncio.run(within()) == [INGEST]


def test_a_queue_that_ends_while_it_starts_is_an_error(folder: Path) -> None:
    root = str(folder / "lakequeue-data")
    write_addresses(root, [INGEST], [CONSUMER], starting=True)
    caught: list[BaseException] = []

    def asks() -> None:
        try:
            ingest_urls()
        except NotReady as error:
            caught.append(error)

    waits = threading.Thread(target=asks)
    waits.start()
    waits.join(0.3)
    remove_addresses(root)
    waits.join(30)
    assert "ended while it was starting" in str(caught[0])
    assert ingest_urls() == "http://127.0.0.1:8080"


def test_a_reader_of_tables_takes_the_root_that_is_given_or_found(folder: Path) -> None:
    assert root_to_read("s3://bucket/queue") == "s3://bucket/queue"
    assert root_to_read(None) == str(folder / "lakequeue-data")
    (folder / "lakequeue-data" / "_lakequeue").rmdir()
    with pytest.raises(RootUnusable, match=r"no queue in .*lakequeue-data") as none:
        root_to_read(None)
    assert "LAKEQUEUE_ROOT" in none.value.hint
