"""Everything of a dump, part by part. A part that cannot be had says why, and ends no other."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import httpx2

from lakequeue.calling import addresses
from lakequeue.calling.credentials import Bearer, credentials_of
from lakequeue.client.admin import Admin
from lakequeue.errors import Unreachable
from lakequeue.settings import Settings

PATIENCE_S = 5.0
"""For each answer of a node: one that hangs must not hold up the dump."""
MOST_SHARDS = 100
LOG_BYTES = 2 << 20
"""Of each log the end."""

Part = tuple[str, str]
"""Name of a file of the dump, and its text."""


def parts(settings: Settings, shown: dict[str, Any]) -> Iterator[Part]:
    """Each file of the dump, as soon as it is there. `shown`: the settings, secrets masked."""
    yield from _one("about.json", lambda: about(settings.root))
    yield from _one("settings.json", lambda: shown)
    yield from _one("doctor.json", lambda: _doctor(settings))
    yield from _nodes(settings)
    yield from _one("topics.json", lambda: _asked(settings, _topics))
    yield from _one("groups.json", lambda: _asked(settings, _groups))
    yield from _tables(settings.root)
    try:
        from lakequeue_cli.supervisor.preflight import default_work_dir
    except ImportError as error:
        # Without the packages of the services no process of a queue has written a log here.
        yield "logs/unknown.txt", f"{error}\n"
        return
    work_dir = settings.work_dir or default_work_dir(settings.root)
    yield from _beside(settings, work_dir)
    yield from _logs(work_dir / "logs")


def about(root: str) -> dict[str, Any]:
    """The machine, Python, and the installed packages."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "root": root,
        "machine": platform.platform(),
        "python": sys.version,
        "packages": {one.metadata["Name"]: one.version for one in distributions()},
    }


def _one(name: str, make: Callable[[], Any]) -> Iterator[Part]:
    try:
        made = make()
    except Exception as error:  # noqa: BLE001 -- whatever it is, the others are worth having
        made = {"could not be had": f"{type(error).__name__}: {error}"}
    yield name, made if isinstance(made, str) else json.dumps(made, indent=1, default=str) + "\n"


def _doctor(settings: Settings) -> list[Any]:
    from lakequeue_cli.supervisor.health import examine

    found = examine(settings, settings.ingest.port, settings.consumer.port)
    return [vars(finding) for finding in found]


def _nodes(settings: Settings) -> Iterator[Part]:
    try:
        urls = {
            "ingest": addresses.named(addresses.ingest_urls(None, settings, 0)),
            "consumer": addresses.named(addresses.consumer_urls(None, settings, 0)),
        }
    except Unreachable as error:  # no queue runs there
        yield "nodes/unknown.txt", f"{error}\n"
        return
    try:
        listed = _asked(settings, lambda admin: admin.nodes())
        urls["ingest"] += [node.url for node in listed.ingest]
        urls["consumer"] += [node.url for node in listed.consumer]
    except Exception as error:  # noqa: BLE001 -- as above
        yield "nodes/unknown.txt", f"{type(error).__name__}: {error}\n"
    urls |= {"driver": list(settings.console.drivers), "sqs": list(settings.console.gateways)}
    yield from _answers(urls, Bearer(credentials_of()))


def _beside(settings: Settings, work_dir: Path) -> Iterator[Part]:
    """Drivers and gateways of `lakequeue up`. It may have ended, and somebody else may listen
    there: no key goes to them."""
    file = work_dir / "prometheus-targets.json"
    if not file.exists() or settings.console.drivers:
        return
    try:
        urls = {
            str(said["labels"]["role"]): [
                f"{said['labels'].get('__scheme__', 'http')}://{target}"
                for target in said["targets"]
            ]
            for said in json.loads(file.read_text(encoding="utf-8"))
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        yield "nodes/beside.txt", f"{file}: {type(error).__name__}: {error}\n"
        return
    yield from _answers({role: urls.get(role, []) for role in ("driver", "sqs")}, None)


def _answers(urls: dict[str, list[str]], auth: Bearer | None) -> Iterator[Part]:
    with httpx2.Client(
        timeout=PATIENCE_S, auth=auth, verify=credentials_of().trust(), trust_env=False
    ) as http:
        for role, found in urls.items():
            for url in dict.fromkeys(found):
                where = url.partition("://")[2].strip("/").replace(":", "-")
                for path in ("healthz", "readyz", "metrics"):
                    name = f"nodes/{role}-{where}/{path}.txt"
                    yield from _one(name, partial(_answer, http, url, path))


def _answer(http: httpx2.Client, url: str, path: str) -> str:
    answer = http.get(f"{url.rstrip('/')}/{path}")
    return f"{answer.status_code}\n{answer.text}\n"


def _asked(settings: Settings, ask: Callable[[Admin], Any]) -> Any:
    ingest = addresses.ingest_urls(None, settings, 0)
    with Admin(ingest, addresses.consumer_urls(None, settings, 0), timeout_s=PATIENCE_S) as admin:
        return ask(admin)


def _topics(admin: Admin) -> list[dict[str, Any]]:
    return [topic.model_dump() for topic in admin.topics()]


def _groups(admin: Admin) -> list[dict[str, Any]]:
    """Members, owners, epochs, positions, lag of each."""
    return [admin.group(one.group).model_dump() for one in admin.groups()]


def _tables(root: str) -> Iterator[Part]:
    try:
        from lakequeue_cli.support.table_heads import table_head
        from queue_tables.root import QueueRoot
        from queue_tables.upkeep.health import table_paths

        queue = QueueRoot.existing(root, replica_too=True)
        paths = list(table_paths(queue))
    except Exception as error:  # noqa: BLE001 -- as above
        yield "tables/unknown.txt", f"{type(error).__name__}: {error}\n"
        return
    shards = [path for path in paths if "/" in path]
    left_out = set(shards[MOST_SHARDS:])
    for path in paths:
        if path not in left_out:
            yield from _one(f"tables/{path}.json", partial(table_head, queue.store, path))
    if left_out:
        yield "tables/left_out.txt", "\n".join(sorted(left_out)) + "\n"


def _logs(folder: Path) -> Iterator[Part]:
    for file in sorted(folder.glob("*")):
        if file.is_file():
            yield from _one(f"logs/{file.name}", partial(_end_of, file))


def _end_of(file: Path) -> str:
    with file.open("rb") as log:
        log.seek(max(0, file.stat().st_size - LOG_BYTES))
        return log.read(LOG_BYTES).decode("utf-8", "replace")
