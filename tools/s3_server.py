"""moto's S3 server with conditional puts that are atomic, as those of S3 are.

    python -m tools.s3_server PORT

moto looks whether the object is there, and then puts it. Two requests at once would both be told
that they have made it, and a table would lose a commit.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

_CONDITIONS = {"HTTP_IF_NONE_MATCH", "HTTP_IF_MATCH"}


class Application:
    """The WSGI application: conditional requests one at a time."""

    def __init__(self) -> None:
        self._app: Any = DomainDispatcherApplication(create_backend_app)
        self._alone = threading.Lock()

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        """An answer of moto."""
        with self._alone if environ.keys() & _CONDITIONS else nullcontext():
            found: Iterable[bytes] = self._app(environ, start)
        return found


if __name__ == "__main__":
    make_server("127.0.0.1", int(sys.argv[1]), Application(), threaded=True).serve_forever()
