"""Where the services are, for every client that was not told.

The first of these that says something: the environment (`LAKEQUEUE_INGEST__URL`), the settings
file, what `lakequeue up` has written under the root of a queue on this machine, the default. If a
root on this machine is named and no queue runs there, the default is not taken: see
`stopped_queue`.

A queue that is still starting has its addresses there as well, and is waited for: at the default
ports another queue may listen.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from lakequeue.calling.stopped_queue import check_default
from lakequeue.clock import boot_seconds
from lakequeue.errors import NotReady, RootUnusable
from lakequeue.processes.folders import local_root
from lakequeue.processes.started import started_at
from lakequeue.settings import Settings
from lakequeue.wire import DEFAULT_CONSUMER_URL, DEFAULT_INGEST_URL

Service = Literal["ingest", "consumer"]
Urls = str | Sequence[str]
"""One or several nodes of a service; one text may hold several, separated by commas."""

_DEFAULTS = {"ingest": DEFAULT_INGEST_URL, "consumer": DEFAULT_CONSUMER_URL}
_PATH = Path("_lakequeue") / "addresses.json"
_log = logging.getLogger("lakequeue.addresses")

STARTING_S = 120.0
"""How long a queue that starts on this machine is waited for."""
_LOOK_EVERY_S = 0.1


def ingest_urls(
    given: Urls | None = None, settings: Settings | None = None, patience_s: float = STARTING_S
) -> Urls:
    """The ingest nodes: those given, else those that are found.

    Waits `patience_s` for a queue that is still starting (in an event loop: not at all). Raises
    `InvalidSetting`; `NotReady` if that queue ends instead; `Unreachable` if the root that is set
    is on this machine and no queue runs there.
    """
    return given or _found("ingest", settings or Settings(), patience_s)


def consumer_urls(
    given: Urls | None = None, settings: Settings | None = None, patience_s: float = STARTING_S
) -> Urls:
    """The consumer-service nodes; see `ingest_urls`."""
    return given or _found("consumer", settings or Settings(), patience_s)


def queue_root() -> str | None:
    """The queue itself, for what reads tables: the root that is set, else the default folder.

    An absolute path or a URI. None: nothing is set, and the default folder has no queue. Raises
    `InvalidSetting`.
    """
    settings = Settings()
    folder = local_root(settings.root)
    if folder is None:
        return settings.root
    if "root" not in settings.model_fields_set and not (folder / _PATH).parent.is_dir():
        return None
    return str(folder)


def root_to_read(given: str | None) -> str:
    """The root that is given, else that of `queue_root`.

    Raises `InvalidSetting`; `RootUnusable` if there is none.
    """
    found = given or queue_root()
    if found is None:
        folder = Path(Settings().root).absolute()
        raise RootUnusable(
            f"no root is given or set, and there is no queue in {folder}",
            hint="give the root of the queue (`lakequeue up` prints it), or set LAKEQUEUE_ROOT",
        )
    return found


def write_addresses(
    root: str, ingest: Sequence[str], consumer: Sequence[str], *, starting: bool = False
) -> None:
    """Leave the addresses under the root, so that clients on this machine find them.

    `starting`: nothing answers there yet.
    """
    path = _path(root)
    if path is None or not path.parent.is_dir():
        return
    told = {"ingest": list(ingest), "consumer": list(consumer)} | _this_process()
    text = json.dumps(told | ({"starting": True} if starting else {}))
    # A reader sees a whole file, whenever it looks.
    new = path.with_suffix(f".{os.getpid()}")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def remove_addresses(root: str) -> None:
    """They serve no longer; another process that has written its own since is left alone."""
    path = _path(root)
    if path is not None and _read(path).get("pid") == os.getpid():
        path.unlink(missing_ok=True)


def named(urls: Urls) -> list[str]:
    """Each URL by itself. Pure."""
    return urls.split(",") if isinstance(urls, str) else list(urls)


def _found(service: Service, settings: Settings, patience_s: float) -> Urls:
    own = settings.ingest if service == "ingest" else settings.consumer
    scheme = "http" if settings.tls.cert is None else "https"
    if own.url:
        return own.url
    if own.model_fields_set & {"host", "port"}:
        return f"{scheme}://{own.host}:{own.port}"
    path = _path(settings.root)
    told = {} if path is None else _read(path)
    if path is not None and _starts(told):
        told = _when_ready(path, told, patience_s)
    urls = told.get(service)
    if isinstance(urls, list) and urls and _runs(told):
        return [str(url) for url in urls]
    default = _DEFAULTS[service].replace("http", scheme)
    if path is not None and not _places_set(settings):
        check_default(
            default,
            path.parent.parent,
            explicit="root" in settings.model_fields_set,
            option="--url" if service == "ingest" else "--consumer-url",
            setting=f"LAKEQUEUE_{service.upper()}__URL",
        )
    return default


def _places_set(settings: Settings) -> bool:
    """Whether the settings say where one of the services is: then the other is not looked for by
    the root, as in a container of a cluster whose root is a volume.
    """
    return any(
        bool(own.url or own.model_fields_set & {"host", "port"})
        for own in (settings.ingest, settings.consumer)
    )


def _starts(told: dict[str, object]) -> bool:
    return bool(told.get("starting")) and _runs(told)


def _when_ready(path: Path, told: dict[str, object], patience_s: float) -> dict[str, object]:
    """What is told when the queue has started, or at the end of the patience. Raises `NotReady`."""
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        return told
    root = path.parent.parent
    if patience_s > 0:
        _log.warning("the queue at %s is starting; waiting until it is ready", root)
    deadline, never = boot_seconds() + patience_s, threading.Event()
    while _starts(told) and boot_seconds() < deadline:
        never.wait(_LOOK_EVERY_S)
        told = _read(path)
    if not _runs(told):
        raise NotReady(
            f"the queue at {root} ended while it was starting",
            hint="`lakequeue up` says why; its logs are in the folder _work/logs of the root",
        )
    return told


def _this_process() -> dict[str, Any]:
    return {"pid": os.getpid(), "started": started_at(os.getpid())}


def _runs(told: dict[str, object]) -> bool:
    """Whether the process that wrote them is still there: a killed one leaves its file.

    Its id may be another's by now, of another queue at the same ports. Files of release 0.1 do not
    say when it was started.
    """
    pid = told.get("pid")
    if not isinstance(pid, int):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's
    started, now = told.get("started"), started_at(pid)
    return not (started and now) or started == now


def _path(root: str) -> Path | None:
    """None: the root is in an object store, which is no place for addresses of one machine."""
    folder = local_root(root)
    return None if folder is None else folder / _PATH


def _read(path: Path) -> dict[str, object]:
    with contextlib.suppress(OSError, ValueError):
        told = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(told, dict):
            return told
    return {}
