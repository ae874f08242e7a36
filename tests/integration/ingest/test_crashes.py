"""Killed at every step: what was acknowledged is in the inbox, the rest is there at most once."""

from __future__ import annotations

import threading
from pathlib import Path

import httpx2
import pytest

from lakequeue.steps import Step
from queue_tables.root import QueueRoot
from queue_tables.shards.shards import seal_shard
from tests.support.kinds import one_now
from tests.support.services.ingest_service import IngestService, inbox_rows

pytestmark = pytest.mark.timeout(400)
STEPS = [s for s in Step if s.startswith("ingest.")]


class Senders:
    """Several producers that send until the node is gone, and note what was acknowledged."""

    def __init__(self, url: str, producers: int = 3) -> None:
        self.acknowledged: set[str] = set()
        self.sent: set[str] = set()
        self._url = url
        self._threads = [
            threading.Thread(target=self._run, args=(p,), daemon=True) for p in range(producers)
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, producer: int) -> None:
        with httpx2.Client(base_url=self._url, timeout=60) as http:
            for request in range(10_000):
                ids = [f"{producer}-{request}-{i}" for i in range(20)]
                self.sent.update(ids)
                records = [{"value": "v" * 50, "key": m, "message_id": m} for m in ids]
                try:
                    answer = http.post("/v1/topics/orders/records", json={"records": records})
                except httpx2.HTTPError:
                    return
                if answer.status_code != 200:
                    return
                self.acknowledged.update(ids)

    def join(self) -> None:
        for thread in self._threads:
            thread.join(200)
            assert not thread.is_alive()


def check_nothing_lost(root: Path, senders: Senders) -> list[str]:
    stored: list[str] = inbox_rows(root)["message_id"].to_pylist()
    assert senders.acknowledged <= set(stored)
    assert set(stored) <= senders.sent
    assert len(stored) == len(set(stored))
    return stored


@pytest.mark.parametrize("step", one_now(STEPS))
def test_killed_at_a_step(tmp_path: Path, step: Step) -> None:
    root = tmp_path / "root"
    with IngestService(root, "--crash-at", f"{step}:12") as service:
        service.create("orders", partitions=4)
        senders = Senders(service.ready["url"])
        # The worker kills itself at the step, and takes the process along.
        assert service.process.wait(200) != 0
        senders.join()
    stored = check_nothing_lost(root, senders)
    assert senders.acknowledged
    requests = {m.rpartition("-")[0] for m in stored}
    assert len(stored) == 20 * len(requests), "a request is stored whole or not at all"

    if step is not Step.INGEST_DATA_WRITTEN:
        return
    # It starts again on the same root, in a shard of its own, above every earlier stamp.
    highest = max(inbox_rows(root)["stamp"].to_pylist())
    with IngestService(root) as again:
        answer = again.send([{"value": 1, "message_id": "after"}])
        assert answer.status_code == 200, answer.text
        assert answer.json()["stamp"] > highest
        assert again.ready["shard"] != service.ready["shard"]
    assert "after" in inbox_rows(root)["message_id"].to_pylist()


def test_killed_from_outside_and_no_worker_is_left(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with IngestService(root) as service:
        service.create("orders", partitions=4)
        senders = Senders(service.ready["url"])
        while len(senders.acknowledged) < 500:
            threading.Event().wait(0.01)
        service.kill()
        senders.join()  # the connections are closed: the worker, which held them, is gone too
    check_nothing_lost(root, senders)


def test_sigterm_drains_and_answers_what_it_accepted(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with IngestService(root) as service:
        service.create("orders", partitions=4)
        senders = Senders(service.ready["url"])
        waiting: list[httpx2.Response] = []

        def wait_for_offsets() -> None:
            waiting.append(
                service.send(
                    [{"value": 1, "message_id": "waits"}], query="?wait=ordered&timeout_ms=60000"
                )
            )
            senders.sent.add("waits")

        thread = threading.Thread(target=wait_for_offsets)
        thread.start()
        while len(senders.acknowledged) < 500:
            threading.Event().wait(0.01)
        assert service.stop() == 0
        senders.join()
        thread.join(30)
    stored = check_nothing_lost(root, senders)
    assert waiting[0].json()["stored"] == "yes"
    assert "waits" in stored


def test_a_sealed_shard_is_followed_by_a_new_incarnation(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with IngestService(root) as service:
        service.create("orders", partitions=4)
        first = service.send([{"value": 1, "message_id": "before"}])
        opened = QueueRoot.open(str(root), create=False)
        seal_shard(opened, "inbox", service.ready["shard"])
        second = service.send([{"value": 1, "message_id": "after"}])
        assert second.status_code == 200, second.text
        assert second.json()["stamp"] > first.json()["stamp"]
        assert service.http.get("/healthz").json()["shard"] != service.ready["shard"]
        assert len(opened.shards("inbox")) == 2
    assert sorted(inbox_rows(root)["message_id"].to_pylist()) == ["after", "before"]
