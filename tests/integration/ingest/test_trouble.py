"""Storage that is full, read-only or gone, ports in use, memory bounds: the process is unharmed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from queue_tables.root import QueueRoot
from tests.support.services.ingest_service import IngestService, inbox_rows

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 24 MiB."""
    mount = tmp_path / "disk"
    mount.mkdir()
    # Mounting needs root: whoever runs the tests is that, or may become it without being asked.
    become = [] if os.geteuid() == 0 else ["sudo", "--non-interactive"]
    owner = f"size=24m,uid={os.geteuid()},gid={os.getegid()}"
    command = [*become, "mount", "-t", "tmpfs", "-o", owner, "lakequeue-test", str(mount)]
    subprocess.run(command, capture_output=True, check=True)
    yield mount
    subprocess.run([*become, "umount", "--lazy", str(mount)], check=True, capture_output=True)


def noise(size: int) -> str:
    return os.urandom(size // 2).hex()


def test_a_full_disk(small_disk: Path) -> None:
    root = small_disk / "root"
    with IngestService(root, LAKEQUEUE_INGEST__MAX_GROUP_BYTES="1000000") as service:
        service.create("orders", partitions=4)
        acknowledged: set[str] = set()
        refused: httpx2.Response | None = None
        for i in range(200):
            answer = service.send([{"value": noise(500_000), "message_id": f"m{i}"}])
            if answer.status_code != 200:
                refused = answer
                break
            acknowledged.add(f"m{i}")
        assert refused is not None
        assert refused.status_code == 507, refused.text
        problem = refused.json()
        assert (problem["code"], problem["stored"]) == ("storage_full", "no")
        assert problem["retryable"]
        assert "retry-after" in refused.headers
        ready = service.http.get("/readyz")
        assert ready.status_code == 503
        assert "storage_full" in {r["code"] for r in ready.json()["reasons"]}

        # Nothing is half-written: no data file that no commit names, no temporary file.
        stored = inbox_rows(root)
        assert set(stored["message_id"].to_pylist()) == acknowledged
        assert not list(root.rglob("*.tmp"))
        assert not list(root.rglob(".*.tmp"))
        files = {p.name for p in (root / "inbox").rglob("*.parquet")}
        assert len(files) == len(acknowledged)

        # With room again it goes on, without a restart.
        opened = QueueRoot.open(str(root), create=False)
        (shard,) = opened.shards("inbox")
        shutil.rmtree(next((root / "inbox" / shard).glob("hour=*")))
        assert service.send([{"value": 1, "message_id": "late"}]).status_code == 200
        assert service.http.get("/readyz").status_code == 200


def test_a_root_that_becomes_read_only(small_disk: Path) -> None:
    root = small_disk / "root"
    with IngestService(root) as service:
        service.create("orders", partitions=4)
        assert service.send([{"value": 1, "message_id": "one"}]).status_code == 200
        remount = ["mount", "-o", "remount,ro", str(small_disk)]
        assert subprocess.run(remount, check=False).returncode == 0
        refused = service.send([{"value": 1, "message_id": "two"}])
        assert refused.status_code == 503, refused.text
        problem = refused.json()
        assert (problem["code"], problem["stored"]) == ("storage_unavailable", "no")
        assert problem["retryable"]
        assert service.http.get("/readyz").status_code == 503
        subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
        assert service.send([{"value": 1, "message_id": "three"}]).status_code == 200
        assert service.http.get("/readyz").status_code == 200
    assert sorted(inbox_rows(root)["message_id"].to_pylist()) == ["one", "three"]


def test_a_root_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "root").write_text("a file")
    with IngestService(tmp_path / "root") as service:
        assert service.ready["event"] == "failed"
        assert service.ready["code"] in {"root_unusable", "storage_unavailable"}
        assert service.process.wait(30) == 3
        assert "root" in service.stderr()
        assert "Traceback" not in service.stderr()


def test_a_root_of_a_newer_format(tmp_path: Path) -> None:
    root = tmp_path / "root"
    QueueRoot.open(str(root))
    (root / "_lakequeue" / "format.json").write_text('{"format": 99, "queue_id": "q"}')
    with IngestService(root) as service:
        assert service.ready["code"] == "newer_format"
        assert service.process.wait(30) == 3


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with IngestService(tmp_path / "root", "--port", str(port)) as service:
            assert service.ready["code"] == "port_unusable"
            assert "--port" in service.ready["hint"]
            assert service.process.wait(30) == 3
    assert not (tmp_path / "root").exists()


def test_zookeeper_that_is_not_there_does_not_hinder(tmp_path: Path) -> None:
    with IngestService(tmp_path / "root", "--zookeeper", "127.0.0.1:9") as service:
        service.create("orders")
        assert service.send([{"value": 1}]).status_code == 200
        ready = service.http.get("/readyz")
        assert (ready.status_code, ready.json()["zookeeper"]) == (200, "away")


def pending_bytes(service: IngestService) -> float:
    (line,) = [
        line
        for line in service.http.get("/metrics").text.splitlines()
        if line.startswith("lakequeue_ingest_pending_bytes ")
    ]
    return float(line.split()[1])


def test_memory_is_bounded_and_says_so(tmp_path: Path) -> None:
    """Bodies that are still arriving count: four of 7 MB pass the bound of 16 MiB."""
    root = tmp_path / "root"
    with IngestService(root, LAKEQUEUE_INGEST__MAX_PENDING_BYTES=str(16 << 20)) as service:
        service.create("orders", partitions=4)
        finish = threading.Event()
        size = 7_000_000

        def slow(i: int) -> httpx2.Response:
            record = b'{"records":[{"message_id":"s%d","value":"' % i

            def pieces() -> Iterator[bytes]:
                yield record
                between = b'"},{"value":"'
                filler = size - len(record) - len(between) - 4
                # In records of at most 1 MiB.
                part = between + b"x" * 900_000
                whole, rest = divmod(filler, len(part))
                yield part * whole + between + b"x" * rest
                finish.wait(60)
                yield b'"}]}'

            with httpx2.Client(base_url=service.ready["url"], timeout=60) as http:
                return http.post(
                    "/v1/topics/orders/records",
                    content=pieces(),
                    headers={"Content-Type": "application/json", "Content-Length": str(size)},
                )

        with ThreadPoolExecutor(2) as pool:
            slow_ones = [pool.submit(slow, i) for i in range(2)]
            while pending_bytes(service) < 2 * (size - len(b'"}]}')):
                threading.Event().wait(0.02)
            refused = service.send([{"value": "x" * 900_000}] * 4)
            assert refused.status_code == 429, refused.text
            assert refused.json()["stored"] == "no"
            assert refused.json()["retryable"]
            assert int(refused.headers["retry-after"]) >= 1
            assert service.send([{"value": "small ones still pass"}]).status_code == 200
            finish.set()
            for future in slow_ones:
                assert future.result().status_code == 200, future.result().text
        assert service.send([{"value": "x" * 900_000}] * 4).status_code == 200
        assert "pending_bytes 0.0" in service.http.get("/metrics").text
