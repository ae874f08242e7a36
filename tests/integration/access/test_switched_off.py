"""A node that others reach, when authentication is switched off while it runs."""

from __future__ import annotations

from pathlib import Path

import httpx2

from queue_access.registry import LOCKED, Entry
from tests.support.access.locked import locks, wait_status
from tests.support.services.ingest_service import IngestService


def test_a_node_that_others_reach_lets_nobody_in_when_authentication_is_switched_off(
    tmp_path: Path,
) -> None:
    made = locks(tmp_path / "root")
    key = made.keys["admin"]
    with IngestService(Path(made.root.uri), "--host", "0.0.0.0") as service:
        port = str(service.ready["url"]).rpartition(":")[2]
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
            wait_status(http, "/v1/topics", key, 200)
            made.put([Entry(LOCKED, LOCKED, deleted=True)])
            wait_status(http, "/v1/topics", key, 503)
            for path in ("/v1/topics", "/metrics", "/readyz", "/openapi.json"):
                answer = http.get(path)
                assert (answer.status_code, answer.json()["code"]) == (503, "unlocked_doors"), path
            assert "nobody is let in" in answer.json()["detail"]
            assert http.get("/healthz").status_code == 200
            made.put([Entry(LOCKED, LOCKED)])
            wait_status(http, "/v1/topics", key, 200)
