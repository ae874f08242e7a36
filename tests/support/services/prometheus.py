"""A real Prometheus that scrapes a cluster, and asks itself what the dashboard would ask."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import yaml

from lakequeue_cli.supervisor.preflight import free_port
from tests.support.services.zookeeper import wait_for

DEPLOY = Path(__file__).parents[3] / "deploy" / "prometheus"
SCRAPE_S = 1


class Prometheus:
    """One that runs."""

    def __init__(self, url: str) -> None:
        self._http = httpx2.Client(base_url=url, timeout=30)

    def ready(self) -> bool:
        """Whether it answers queries."""
        try:
            return self._http.get("/-/ready").status_code == 200
        except httpx2.HTTPError:
            return False

    def ask(self, query: str) -> list[dict[str, Any]]:
        """The result of an instant query; an error of PromQL fails the test."""
        answer = self._http.get("/api/v1/query", params={"query": query}).json()
        assert answer["status"] == "success", (query, answer)
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found

    def firing(self) -> set[str]:
        """Alerts that fire."""
        alerts = self._http.get("/api/v1/alerts").json()["data"]["alerts"]
        return {a["labels"]["alertname"] for a in alerts if a["state"] == "firing"}

    def close(self) -> None:
        """No more questions."""
        self._http.close()


@contextmanager
def prometheus(programs: Path, targets: Path, folder: Path) -> Iterator[Prometheus]:
    """Run one in `folder` with the configuration of `deploy/`, but for the interval."""
    config = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
    config["global"] = {
        "scrape_interval": f"{SCRAPE_S}s",
        "evaluation_interval": f"{SCRAPE_S}s",
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    shutil.copy(DEPLOY / "alerts.yml", folder)
    shutil.copy(targets, folder / "targets.json")
    port = free_port()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                programs / "prometheus",
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
    running = Prometheus(f"http://127.0.0.1:{port}")
    try:
        wait_for(running.ready, "Prometheus")
        yield running
    finally:
        running.close()
        process.kill()
        process.wait(30)
