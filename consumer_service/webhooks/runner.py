"""Delivers the records of one webhook: a worker of its group like any other, with an endpoint.

Everything that a queue group promises holds: attempts, visibility, back-off, dead letters. Each
webhook has its own threads and connections, so a slow or dead endpoint holds up nobody else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import structlog

from consumer_service.clients import Record, Worker
from consumer_service.webhooks.endpoint import Endpoint
from consumer_service.webhooks.target import target_of
from coordination.groups.webhooks import Webhook
from lakequeue.errors import LakequeueError
from lakequeue.wire.calls.webhooks import secret_bytes

log = structlog.get_logger(__name__)

POLL_S = 0.5
FIRST_RETRY_S, LAST_RETRY_S = 1.0, 30.0


class WebhookRunner:
    """Runs in a thread until `stop`."""

    def __init__(
        self,
        webhook: Webhook,
        worker: Callable[[], Worker],
        secret: Callable[[], str],
        *,
        allow_private: bool,
        ca: Path | None = None,
    ) -> None:
        """`secret`: opens the webhook's own. `ca`: as of `Endpoint`."""
        self.webhook = webhook
        self._worker = worker
        self._secret = secret
        self._allow_private = allow_private
        self._ca = ca
        self._stopping = threading.Event()
        name = f"webhook-{webhook.group}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> WebhookRunner:
        """Begin to post."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Ask it to end: what is under way is finished, what is fetched is given back."""
        self._stopping.set()

    def join(self, timeout_s: float) -> None:
        """Wait for its end."""
        self._thread.join(timeout_s)

    def _run(self) -> None:
        retry_s = FIRST_RETRY_S
        while not self._stopping.is_set():
            try:
                self._deliver()
                retry_s = FIRST_RETRY_S
            except Exception as e:
                # Whatever it is: nobody would begin again for a runner that has ended.
                foreseen = isinstance(e, LakequeueError)
                log.warning(
                    "webhook.failed",
                    group=self.webhook.group,
                    error=str(e) or repr(e),
                    exc_info=not foreseen,
                )
                self._stopping.wait(retry_s)
                retry_s = min(retry_s * 2, LAST_RETRY_S)

    def _deliver(self) -> None:
        webhook = self.webhook
        with ExitStack() as stack:
            endpoint = Endpoint(
                target_of(webhook.url),
                secret_bytes(self._secret()),
                webhook.timeout_ms / 1_000,
                allow_private=self._allow_private,
                ca=self._ca,
                form=webhook.format,
            )
            stack.callback(endpoint.close)
            worker = self._worker()
            stack.callback(worker.close)
            pool = ThreadPoolExecutor(webhook.concurrency, f"webhook-{webhook.group}")
            # First of all: answers of what is under way still count.
            stack.callback(pool.shutdown, wait=True)
            while not self._stopping.is_set():
                for record in worker.poll(POLL_S, max_records=webhook.concurrency):
                    pool.submit(self._post, endpoint, record)

    def _post(self, endpoint: Endpoint, record: Record) -> None:
        try:
            verdict = endpoint.post(self.webhook.group, record)
            if verdict.done:
                record.ack()
                return
            log.info(
                "webhook.refused",
                group=self.webhook.group,
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                attempt=record.attempt,
                reason=verdict.reason,
            )
            record.nack(verdict.delay_s)
        except Exception as e:
            # Not settled: it is delivered again when its time is over.
            log.exception("webhook.failed", group=self.webhook.group, error=str(e))
