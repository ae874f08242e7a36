"""Requests that schemathesis makes from the OpenAPI documents, alone and in sequences.

Its own checks judge the answers: no error of the server, documented statuses and media types,
answers of the documented shape, wrong data refused, unknown methods refused.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest

from coordination.zookeeper.notifications import Notifier
from tests.support.kinds import one_now
from tests.support.services.consumer_node import NodeProcess, Queue, own_queue, start_node
from tests.support.services.ingest_service import IngestService
from tests.support.services.order_thread import ordering
from tools.documents.openapi_documents import fetched, kept

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow, pytest.mark.timeout(300)]
__all__ = ["own_queue", "start_node"]
CONFIG = Path(__file__).parents[2] / "support" / "http" / "schemathesis.toml"
SECONDS = 40


@pytest.fixture
def urls(own_queue: Queue, start_node: object) -> Iterator[dict[str, str]]:
    """Both services of a queue with some records, and whoever orders what is sent."""
    with ExitStack() as stack:
        ingest = stack.enter_context(
            IngestService(Path(own_queue.root.uri), "--zookeeper", own_queue.zookeeper.hosts)
        )
        ingest.create("orders", partitions=2)
        notifier = Notifier(own_queue.session, "log")
        stack.callback(notifier.close)
        stack.enter_context(ordering(own_queue.root, notifier=notifier))
        answer = ingest.http.post(
            "/v1/topics/orders/records", json={"records": [{"value": "x", "key": "k"}] * 20}
        )
        assert answer.status_code == 200, answer.text
        node: NodeProcess = start_node(own_queue)  # type: ignore[operator]
        yield {"ingest": str(ingest.ready["url"]), "consumer service": node.url}


def test_the_documents_in_docs_are_those_of_the_services(urls: dict[str, str]) -> None:
    """If not, beside a queue: `python -m tools.documents.openapi_documents`, then `make docs`."""
    assert fetched(urls["ingest"]) == kept("ingest")
    assert fetched(urls["consumer service"]) == kept("consumer")


# What ingest takes is also made up in `tests/integration/ingest/test_fuzz.py`.
@pytest.mark.parametrize("service", one_now(["consumer service", "ingest"]))
def test_generated_requests_find_no_fault(
    urls: dict[str, str], service: str, tmp_path: Path
) -> None:
    url = urls[service]
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIG), "run"]
    found = subprocess.run(
        [*command, f"{url}/openapi.json", "--max-time", str(SECONDS), "--output-sanitize", "false"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout[-20_000:] + found.stderr[-2_000:]
    phases = {name for name in ("Coverage", "Fuzzing", "Stateful") if f"✅ {name}" in found.stdout}
    assert phases == {"Coverage", "Fuzzing", "Stateful"}, found.stdout[-3_000:]
    assert httpx2.get(f"{url}/healthz", timeout=10).status_code == 200
