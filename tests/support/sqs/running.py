"""SQS gateways in this process or beside it, and unchanged clients for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from lakequeue.settings import Settings, SqsSettings
from sqs_gateway.app import Waits, create_app, entrance
from sqs_gateway.metrics import Metrics
from sqs_gateway.server import callers_of, gateway_of, ways_of
from tests.support.forking.forked import Forked
from tests.support.services.fronts import running

HERE = Path(__file__).parents[3]
_BODIES = 256 << 20
NOTHING: Mapping[str, str] = {}


@contextmanager
def gateway(ingest: str, consumer: str, **sqs: Any) -> Iterator[str]:
    """A gateway in this process; its URL."""
    settings = Settings().model_copy(update={"sqs": SqsSettings(**sqs)})
    settings = settings.model_copy(
        update={
            "ingest": settings.ingest.model_copy(update={"url": ingest}),
            "consumer": settings.consumer.model_copy(update={"url": consumer}),
        }
    )
    metrics = Metrics(settings)
    callers = callers_of(settings)
    found = gateway_of(settings, callers, metrics)
    waits = Waits(settings.sqs.max_waits)
    app = create_app(found, metrics, url=settings.sqs.url, waits=waits)
    try:
        with running(app, ways_of(settings, entrance(found, waits)), _BODIES) as front:
            metrics.front.began(front.front)
            host, port = front.front.server
            yield f"http://{host}:{port}"
    finally:
        callers.close()


class GatewayProcess:
    """`python -m sqs_gateway` on a free port."""

    def __init__(
        self, ingest: str, consumer: str, *options: str, environment: Mapping[str, str] = NOTHING
    ) -> None:
        kept = {name: v for name, v in os.environ.items() if not name.startswith("LAKEQUEUE_")}
        self.process = Forked(
            [
                *(sys.executable, "-m", "sqs_gateway", "--port", "0"),
                *("--ingest-url", ingest, "--consumer-url", consumer),
                *("--die-with-parent", str(os.getpid()), *options),
            ],
            cwd=HERE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=kept | dict(environment),
        )
        assert self.process.stdout is not None
        event = json.loads(self.process.stdout.readline() or "{}")
        if event.get("event") != "ready":
            raise RuntimeError(f"the gateway did not start: {event}")
        self.url = str(event["url"])

    def kill(self) -> None:
        """SIGKILL, and wait."""
        self.process.kill()
        self.process.wait(30)
        if self.process.stdout is not None:
            self.process.stdout.close()


def client(
    url: str,
    access_key: str = "anything",
    secret: str = "anything",  # noqa: S107 - none
    ca: Path | None = None,
) -> Any:
    """boto3, as anybody uses it, but that it does not try again what fails."""
    return boto3.client(
        "sqs",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=access_key,
        aws_secret_access_key=secret,
        verify=None if ca is None else str(ca),
        config=Config(retries={"total_max_attempts": 1}, proxies={}, max_pool_connections=50),
    )
