"""A Flask application, run with a request that has been read whole. Blocking: for a thread."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import unquote_to_bytes

from serving.front.messages import Answer, Request
from serving.front.parking import Pieces, Steps

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
App = Callable[[Environ, StartResponse], Iterable[bytes]]

CALL = "lakequeue.call"
"""In the environment: the `Call`, where there is a front. Without one a call that waits blocks."""
_DROPPED = frozenset({b"content-length", b"content-type", b"transfer-encoding"})


class Parked:
    """What the application returns in place of a body: a call that waits."""

    def __init__(self, steps: Steps[Answer]) -> None:
        self.steps = steps

    def __iter__(self) -> Iterator[bytes]:
        raise TypeError("a front has to run this")


class Streamed:
    """What the application returns in place of a body: an answer that is written in pieces."""

    def __init__(self, answer: Answer, pieces: Pieces) -> None:
        self.answer = answer
        self.pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        raise TypeError("a front has to run this")


def run(
    app: App, request: Request, server: tuple[str, int], caller: object
) -> Answer | Parked | Streamed:
    """Have `app` answer."""
    told: list[tuple[str, list[tuple[str, str]]]] = []

    def start_response(
        status: str, headers: list[tuple[str, str]], _exc_info: Any = None
    ) -> Callable[[bytes], Any]:
        told[:] = [(status, headers)]
        return lambda _: None

    result = app(environ_of(request, server, caller), start_response)
    if isinstance(result, Parked | Streamed):
        return result
    try:
        body = b"".join(result)
    except BaseException:
        _close(result)
        raise
    status, headers = told[0]
    if request.method == "HEAD":
        body = b""
    elif body:
        headers = [(name, value) for name, value in headers if name.lower() != "content-length"]
    return Answer(
        int(status[:3]),
        body,
        None,
        headers,
        sent=lambda: _close(result),
        lost=lambda: _close(result),
    )


def environ_of(request: Request, server: tuple[str, int], caller: object) -> Environ:
    """The environment of PEP 3333."""
    path, _, _ = request.target.partition(b"?")
    environ: Environ = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "QUERY_STRING": request.query,
        "RAW_URI": request.target.decode("latin-1"),
        "CONTENT_LENGTH": str(len(request.body)),
        "SERVER_NAME": server[0],
        "SERVER_PORT": str(server[1]),
        "SERVER_PROTOCOL": f"HTTP/{request.version}",
        "REMOTE_ADDR": request.address,
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(request.body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        CALL: caller,
    }
    kind = request.header(b"content-type")
    if kind:
        environ["CONTENT_TYPE"] = kind
    for name, value in request.headers:
        # A name with an underscore would pass for the one with a dash.
        if name in _DROPPED or b"_" in name:
            continue
        key = "HTTP_" + name.decode("latin-1").upper().replace("-", "_")
        said = value.decode("latin-1")
        environ[key] = f"{environ[key]},{said}" if key in environ else said
    return environ


def _close(result: object) -> None:
    close = getattr(result, "close", None)
    if close is not None:
        close()
