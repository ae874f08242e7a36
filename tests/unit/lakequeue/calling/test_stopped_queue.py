"""A client whose root is on this machine, with no queue running there, asks no stranger."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lakequeue import Admin, Producer
from lakequeue.calling import addresses
from lakequeue.calling.addresses import consumer_urls, ingest_urls, write_addresses
from lakequeue.errors import Unreachable
from lakequeue.settings import Settings
from lakequeue.testing import MemoryQueue
from lakequeue_cli.app import app

OURS, THEIRS = "0f" * 16, "a1" * 16


class Node(ThreadingHTTPServer):
    """Answers `/readyz` as a node of the queue `serves` does, and keeps what it was asked."""

    def __init__(self) -> None:
        self.serves = THEIRS
        self.asked: list[tuple[str, str | None]] = []
        node = self

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                node.asked.append((self.path, self.headers.get("authorization")))
                body = json.dumps({"status": "ready", "queue_id": node.serves}).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                return

        super().__init__(("127.0.0.1", 0), Answers)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    """A stranger's node at the default ports of both services."""
    with Node() as node:
        serving = threading.Thread(target=node.serve_forever)
        serving.start()
        monkeypatch.setattr(addresses, "_DEFAULTS", {"ingest": node.url, "consumer": node.url})
        yield node
        node.shutdown()
        serving.join()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory, an environment without settings, and nobody at the default ports."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("LAKEQUEUE_")]:
        monkeypatch.delenv(name)
    closed = dict.fromkeys(("ingest", "consumer"), "http://127.0.0.1:1")
    monkeypatch.setattr(addresses, "_DEFAULTS", closed)
    return tmp_path


def stopped(root: Path) -> Path:
    """A root with a queue that does not run."""
    (root / "_lakequeue").mkdir(parents=True)
    (root / "_lakequeue" / "format.json").write_text(json.dumps({"queue_id": OURS}))
    return root


@pytest.mark.parametrize("made", [True, False])
def test_a_root_that_is_named_and_has_no_running_queue_is_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch, made: bool
) -> None:
    root = stopped(folder / "mine") if made else folder / "mine"
    monkeypatch.setenv("LAKEQUEUE_ROOT", str(root))
    with pytest.raises(Unreachable, match=rf"no queue runs at {root}") as caught:
        Producer()
    assert f"lakequeue up --root {root}" in caught.value.hint
    assert "LAKEQUEUE_INGEST__URL" in caught.value.hint
    with pytest.raises(Unreachable, match="LAKEQUEUE_CONSUMER__URL"):
        consumer_urls()


def test_a_root_in_the_file_or_given_counts_as_named(folder: Path) -> None:
    with pytest.raises(Unreachable, match=f"{folder}/given"):
        ingest_urls(settings=Settings(root="given"))
    (folder / "lakequeue.toml").write_text('root = "filed"\n')
    with pytest.raises(Unreachable, match=f"{folder}/filed"):
        Admin()


def test_a_stranger_is_named_and_gets_no_key(
    folder: Path, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEQUEUE_ROOT", str(stopped(folder / "mine")))
    monkeypatch.setenv("LAKEQUEUE_API_KEY", "secret")
    with pytest.raises(Unreachable, match=f"{node.url} serves another queue"):
        ingest_urls()
    assert node.asked == [("/readyz", None)]


def test_the_command_line_says_it_as_well(
    folder: Path, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = stopped(folder / "mine")
    monkeypatch.setenv("LAKEQUEUE_ROOT", str(root))
    done = CliRunner().invoke(app, ["topic", "list"])
    assert done.exit_code != 0
    assert isinstance(done.exception, Unreachable)
    assert f"no queue runs at {root}" in str(done.exception)


def test_a_node_of_that_queue_that_no_up_has_started_is_found(
    folder: Path, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEQUEUE_ROOT", str(stopped(folder / "mine")))
    node.serves = OURS
    assert (ingest_urls(), consumer_urls()) == (node.url, node.url)


def test_the_queue_of_the_current_folder_is_not_taken_for_another(
    folder: Path, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ingest_urls() == node.url, "no queue here: the default is all there is"
    assert node.asked == []
    stopped(folder / "lakequeue-data")
    with pytest.raises(Unreachable, match=f"no queue runs at {folder}/lakequeue-data"):
        ingest_urls()
    node.serves = OURS
    assert ingest_urls() == node.url


def test_without_a_stranger_the_queue_of_the_current_folder_may_start_later(folder: Path) -> None:
    stopped(folder / "lakequeue-data")
    assert ingest_urls() == "http://127.0.0.1:1"


def test_whoever_says_where_a_service_is_is_not_affected(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEQUEUE_ROOT", str(stopped(folder / "mine")))
    assert ingest_urls("http://a:8080") == "http://a:8080"
    monkeypatch.setenv("LAKEQUEUE_INGEST__URL", "http://b:8080")
    assert ingest_urls() == "http://b:8080"
    assert consumer_urls() == "http://127.0.0.1:1", "a container of a cluster knows its own URL"


def test_a_queue_that_runs_there_is_found_before_anybody_is_asked(
    folder: Path, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = stopped(folder / "mine")
    monkeypatch.setenv("LAKEQUEUE_ROOT", str(root))
    write_addresses(str(root), ["http://127.0.0.1:7001"], ["http://127.0.0.1:7002"])
    assert ingest_urls() == ["http://127.0.0.1:7001"]
    assert node.asked == []


def test_a_queue_in_memory_may_stand_at_the_default_addresses(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEQUEUE_ROOT", str(stopped(folder / "mine")))
    with MemoryQueue(urls=["http://127.0.0.1:1"]):
        assert ingest_urls() == "http://127.0.0.1:1"
