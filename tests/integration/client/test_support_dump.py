"""`lakequeue support-dump` on real services: how they are, and nothing of what they hold."""

from __future__ import annotations

import json
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from lakequeue_cli.support import dump
from tests.support.command import lakequeue
from tests.support.services.consumer_node import HttpMember, NodeProcess, Queue

pytestmark = pytest.mark.zookeeper
CANARY = "canary-of-a-record"
KEY = "lq_0123456789_canaryofakeycanaryofakeycanaryofakeycan"


def dumped(file: Path, monkeypatch: pytest.MonkeyPatch, **environ: str) -> dict[str, str]:
    """The files of a dump."""
    for name, value in environ.items():
        monkeypatch.setenv(f"LAKEQUEUE_{name}", value)
    done = lakequeue("support-dump", "--out", str(file))
    assert (done.returncode, done.stdout) == (0, f"{file}\n"), done.stderr
    assert file.stat().st_mode & 0o777 == 0o600
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_a_dump_has_what_finds_a_fault_and_no_content_of_records(
    queue: Queue, node: NodeProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, [f"{CANARY}-{n}" for n in range(3)])
    with HttpMember(node.url, topic) as member:
        member.poll_until(3)
        found = dumped(
            tmp_path / "dump.zip",
            monkeypatch,
            ROOT=queue.root.uri,
            API_KEY=KEY,
            INGEST__URL="http://127.0.0.1:1",
            CONSUMER__URL=node.url,
        )
    assert not [name for name, text in found.items() if CANARY in text or KEY in text]
    of_node = f"nodes/consumer-{node.url.partition('://')[2].replace(':', '-')}"
    assert found[f"{of_node}/readyz.txt"].startswith("200\n")
    assert "lakequeue_consumer_leases 1.0" in found[f"{of_node}/metrics.txt"]
    assert "could not be had" in found["nodes/ingest-127.0.0.1-1/healthz.txt"]
    (group,) = [g for g in json.loads(found["groups.json"]) if g["group"] == member.group]
    assert [p["topic"] for p in group["partitions"]] == [topic.topic]
    log = json.loads(found["tables/log.json"])
    assert log["version"] >= 1
    assert log["commits"]
    assert json.loads(found["settings.json"])["consumer.url"] == node.url
    assert "pyarrow" in json.loads(found["about.json"])["packages"]
    assert isinstance(json.loads(found["doctor.json"]), list)


def test_drivers_of_this_machine_are_asked_and_get_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dump, "PATIENCE_S", 2.0)
    asked: list[tuple[str, str | None]] = []

    class Driver(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers.get("authorization")))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"leads")

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Driver) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        port = server.server_port
        told = [{"targets": [f"127.0.0.1:{port}"], "labels": {"role": "driver"}}]
        (tmp_path / "prometheus-targets.json").write_text(json.dumps(told))
        found = dumped(
            tmp_path / "dump.zip",
            monkeypatch,
            ROOT=str(tmp_path / "none"),
            WORK_DIR=str(tmp_path),
            API_KEY=KEY,
            INGEST__URL="http://127.0.0.1:1",
            CONSUMER__URL="http://127.0.0.1:1",
        )
        server.shutdown()
        thread.join()
    assert found[f"nodes/driver-127.0.0.1-{port}/readyz.txt"] == "200\nleads\n"
    assert asked == [("/healthz", None), ("/readyz", None), ("/metrics", None)]


def test_without_a_queue_each_part_says_why_it_could_not_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dump, "PATIENCE_S", 1.0)
    file = tmp_path / "dump.zip"
    nobody = "http://127.0.0.1:1"
    root = str(tmp_path / "none")
    found = dumped(file, monkeypatch, ROOT=root, INGEST__URL=nobody, CONSUMER__URL=nobody)
    assert "does not answer" in found["topics.json"]
    assert "there is no queue" in found["tables/unknown.txt"]
    again = lakequeue("support-dump", "--out", str(file))
    assert (again.returncode, again.stderr.splitlines()[0]) == (
        2,
        f"error: {file} cannot be written: File exists",
    )
