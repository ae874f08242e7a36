"""An S3 server for tests (moto's), in a thread, with the environment that leads there.

`lax=True` makes one whose conditional puts do not work: it skips `If-None-Match`, as some
servers do that call themselves compatible.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

import httpx2
from werkzeug.serving import make_server

from queue_tables.delta.store import ObjectStore
from tools.s3_server import Application

BUCKET = "bucket"
_KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}


class S3Server:
    """Serves while the `with` block runs; each has buckets of its own process."""

    def __init__(self, *, lax: bool = False) -> None:
        self.requests = 0
        self.away = False
        """While set, every request is answered with 503."""
        self._server = make_server("127.0.0.1", 0, self._counted(Application(), lax), threaded=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        logging.getLogger("werkzeug").setLevel(logging.ERROR)

    @property
    def url(self) -> str:
        """Its endpoint."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def environ(self) -> dict[str, str]:
        """What processes need to find it."""
        return _KEYS | {"AWS_ENDPOINT_URL": self.url, "AWS_ALLOW_HTTP": "true"}

    def store(self, prefix: str, bucket: str = BUCKET) -> ObjectStore:
        """A prefix of a bucket, for this process, whose environment stays as it is."""
        return ObjectStore.from_url(
            f"s3://{bucket}/{prefix}",
            config={
                "access_key_id": _KEYS["AWS_ACCESS_KEY_ID"],
                "secret_access_key": _KEYS["AWS_SECRET_ACCESS_KEY"],
                "region": _KEYS["AWS_REGION"],
                "endpoint": self.url,
            },
            client_options={"allow_http": True},
        )

    def __enter__(self) -> S3Server:
        self._thread.start()
        # A name of its own in moto's memory, which all servers of a process share.
        httpx2.put(f"{self.url}/{BUCKET}", timeout=30).raise_for_status()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _counted(self, app: Application, lax: bool) -> Callable[..., Iterable[bytes]]:
        def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
            self.requests += 1
            if self.away:
                start("503 Slow Down", [("Content-Length", "0")])
                return [b""]
            if lax:
                environ.pop("HTTP_IF_NONE_MATCH", None)
            return app(environ, start)

        return answer
