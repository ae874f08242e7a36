"""Pictures of the console on a real queue under some load, for the documents.

python -m tests.support.console.screenshots docs/console
"""

from __future__ import annotations

import sys
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path

from lakequeue import Admin, Consumer, Producer
from lakequeue_cli.supervisor.cluster import Cluster, ClusterOptions
from tests.support.console.browser import chromium, emulate
from tests.support.console.running import fill
from tests.support.services.endpoint import Endpoint, status

PICTURES = {
    "overview": ("/", 1280, 1000, "light"),
    "overview-dark": ("/", 1280, 1000, "dark"),
    "overview-phone": ("/", 390, 1300, "light"),
    "topic": ("/topics/orders", 1280, 1000, "light"),
    "records": ("/topics/orders/records", 1280, 900, "light"),
    "group": ("/groups/billing", 1280, 900, "light"),
    "webhooks": ("/webhooks", 1280, 480, "light"),
    "dead-letters": ("/dead-letters/payments.dlq", 1280, 620, "light"),
}
LOAD_S = 75.0


def main(folder: Path) -> None:
    """Start a queue, load it, take the pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        options = ClusterOptions(
            root=f"{place}/queue",
            console=("127.0.0.1", 0),
            environ={"LAKEQUEUE_CONSUMER__WEBHOOK_ALLOW_PRIVATE": "true"},
        )
        cluster = stack.enter_context(Cluster(options))
        cluster.wait_ready()
        ingest, consumer = cluster.ingest_urls[0], cluster.consumer_urls[0]
        fill(ingest, consumer)
        endpoint = stack.enter_context(Endpoint(status(200)))
        with Admin(ingest, consumer) as admin:
            admin.set_webhook("invoices", f"{endpoint.url}/invoices", ["payments"], concurrency=4)
        over = threading.Event()
        threads = [
            threading.Thread(target=_send, args=(ingest, over)),
            threading.Thread(target=_take, args=(consumer, over)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            stack.callback(thread.join)
        stack.callback(over.set)
        over.wait(LOAD_S)
        with chromium() as browser:
            # What takes longer than a page may take is there when it is looked at again.
            for path in {path for path, *_ in PICTURES.values()}:
                browser.get(f"{cluster.console_url}{path}")
            over.wait(10)
            for name, (path, width, height, scheme) in PICTURES.items():
                emulate(browser, width, height, scheme)
                browser.get(f"{cluster.console_url}{path}")
                browser.save_screenshot(str(folder / f"{name}.png"))


def _send(ingest: str, over: threading.Event) -> None:
    with Producer(ingest) as producer:
        number = 0
        while not over.wait(0.05):
            for _ in range(8):
                producer.send("orders", {"order": number, "city": "Oslo"}, key=f"key-{number % 9}")
                number += 1


def _take(consumer: str, over: threading.Event) -> None:
    with Consumer("orders", group="billing", urls=consumer) as worker:
        while not over.is_set():
            for message in worker.poll(0.5):
                message.ack()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
