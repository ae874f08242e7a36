"""An S3 server on this machine (moto's, in memory), and a command that runs with it.

    python -m tools.local_s3 lakequeue up --root s3://bucket/queue
    make demo-s3 RECORDS=20000

It is for trying things and for measuring: what is in it is gone when the command ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from lakequeue_cli.supervisor.preflight import free_port

BUCKET = "bucket"
_START_S = 60.0


@contextmanager
def local_s3() -> Iterator[Mapping[str, str]]:
    """The environment by which processes find the server and its one bucket."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        [sys.executable, "-m", "tools.s3_server", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _make_bucket(url)
        yield {
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": url,
            "AWS_ALLOW_HTTP": "true",
        }
    finally:
        server.terminate()
        server.wait(30)


def _make_bucket(url: str) -> None:
    """As soon as the server answers."""
    request = urllib.request.Request(f"{url}/{BUCKET}", method="PUT")  # noqa: S310 -- our own http:
    deadline = time.monotonic() + _START_S
    while True:
        try:
            urllib.request.urlopen(request, timeout=5).close()  # noqa: S310 -- as above
            return
        except urllib.error.URLError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def main() -> int:
    """Run the command; its exit status."""
    command = sys.argv[1:]
    if not command:
        sys.exit(__doc__)
    with local_s3() as environ:
        return subprocess.run(command, env={**os.environ, **environ}).returncode


if __name__ == "__main__":
    sys.exit(main())
