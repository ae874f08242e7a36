"""What commit files and rows of checkpoints say, judged field by field, whoever wrote them. No I/O.

A field on which nothing depends counts as not said if it makes no sense: a time, a statistic, a
name. Any other makes its action one that cannot be read. In a commit of the queue's own that is
damage, as a torn file is. In a commit of another engine the action is left out, and the commit says
so (`Commit.faults`): in a guarded table it would not count anyhow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar
from urllib.parse import unquote

import orjson

from lakequeue.errors import CorruptTable
from lakequeue.records import Version
from queue_tables.delta.actions import (
    OWN_ENGINE,
    Action,
    Add,
    Commit,
    CommitInfo,
    Metadata,
    Protocol,
    Remove,
    Txn,
    commit_path,
    whole,
)

T = TypeVar("T")

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_LAST_MS = 7_258_118_400_000
"""Year 2200: a later time is none that a commit was made at."""
_INT32 = (1 << 31) - 1
_SHOWN = 60


class Odd(ValueError):
    """A field that makes no sense, and on which something depends."""


def metadata_from(body: Any) -> Metadata:
    """A metaData action, from a commit's JSON or a checkpoint's row. Raises `Odd`."""
    body = _object(body)
    columns = body.get("partitionColumns")
    created = body.get("createdTime")
    return Metadata(
        id=_checked(body, "id", _is_text),
        schema_string=_checked(body, "schemaString", _is_schema),
        partition_columns=() if columns is None else _texts(body, "partitionColumns"),
        configuration=_mapping(body, "configuration", _is_text),
        name=_text(body.get("name")),
        created_time=created if whole(created) is not None else None,
    )


def add_from(body: Any) -> Add:
    """An add action, from a commit's JSON or a checkpoint's row. Raises `Odd`."""
    body = _object(body)
    return Add(
        path=_path(body),
        size=_checked(body, "size", lambda given: whole(given) is not None),
        partition_values=_mapping(body, "partitionValues", _is_text_or_none),
        modification_time=_millis(body.get("modificationTime")),
        data_change=_flag(body, "dataChange"),
        stats=_text(body.get("stats")),
        deletion_vector=_vector(body),
    )


def txn_from(body: Any) -> Txn:
    """A txn action, from a commit's JSON or a checkpoint's row. Raises `Odd`."""
    body = _object(body)
    version = _checked(body, "version", lambda given: whole(given) is not None)
    return Txn(_checked(body, "appId", _is_text), version)


def protocol_from(body: Any) -> Protocol:
    """A protocol action, from a commit's JSON or a checkpoint's row. Raises `Odd`."""
    body = _object(body)
    readers, writers = (
        None if body.get(name) is None else tuple(sorted(_texts(body, name)))
        for name in ("readerFeatures", "writerFeatures")
    )
    return Protocol(
        _checked(body, "minReaderVersion", _is_version),
        _checked(body, "minWriterVersion", _is_version),
        readers,
        writers,
    )


def _remove_from(body: Any) -> Remove:
    body = _object(body)
    values = body.get("partitionValues")
    return Remove(
        path=_path(body),
        deletion_timestamp=_millis(body.get("deletionTimestamp")),
        data_change=_flag(body, "dataChange"),
        partition_values=None
        if values is None
        else _mapping(body, "partitionValues", _is_text_or_none),
        size=whole(body.get("size")),
        deletion_vector=_vector(body),
    )


def _info_from(body: Any) -> CommitInfo:
    body = _object(body)
    ours = body.get("lakequeue")
    return CommitInfo(
        lakequeue=ours if isinstance(ours, dict) else {},
        timestamp=_millis(body.get("timestamp")),
        operation=_text(body.get("operation")) or "",
        txn_id=_text(body.get("txnId")),
        engine=_text(body.get("engineInfo")) or "",
    )


_READ: Mapping[str, Callable[[Any], Action]] = {
    "add": add_from,
    "remove": _remove_from,
    "txn": txn_from,
    "metaData": metadata_from,
    "protocol": protocol_from,
    "commitInfo": _info_from,
}
"""Others (cdc, domainMetadata) are never on the queue's tables, and not ours to judge."""


def parse(version: int, data: bytes, table: str = "") -> Commit:
    """Read a commit file.

    Raises `CorruptTable` for one that is empty, torn or not Delta's, and for one of the queue's own
    with an action that makes no sense.
    """
    actions: list[Action] = []
    faults: list[str] = []
    is_whole = bool(data.strip())
    for line in data.splitlines():
        try:
            for kind, body in orjson.loads(line).items() if line else ():
                if (read := _READ.get(kind)) is not None:
                    _take(actions, faults, kind, partial(read, body))
        except (orjson.JSONDecodeError, AttributeError) as e:
            faults.append(str(e))
            is_whole = False
    makers = {a.engine for a in actions if isinstance(a, CommitInfo)}
    # What is torn and does not say who made it may have been ours.
    if (faults and OWN_ENGINE in makers) or not (is_whole or makers):
        raise unreadable(version, faults[0] if faults else "the file is empty", table)
    return Commit(Version(version), tuple(actions), tuple(faults))


def _take(actions: list[Action], faults: list[str], kind: str, read: Callable[[], Action]) -> None:
    try:
        actions.append(read())
    except Odd as odd:
        faults.append(f"{kind}: {odd}")


def parse_or_pass(version: int, data: bytes, table: str = "") -> Commit:
    """As `parse`; a file that cannot be read is a commit of nothing, `torn`."""
    try:
        return parse(version, data, table)
    except CorruptTable as damage:
        return Commit(Version(version), (), torn=damage.detail)


def unreadable(version: int, why: str, table: str = "") -> CorruptTable:
    """What is raised for a commit that cannot be read."""
    where = commit_path(table, version) if table else f"{version:020d}.json"
    # Of a shard the data file tells what the commit brought.
    remedy = (
        f"say `lakequeue repair --table {table}`, which writes it anew"
        if "/" in table
        else "if it is the newest version and there was a power loss, nobody has acted on it: move"
        f" {where} away; else restore it from a backup"
    )
    return CorruptTable(
        f"{f'{table}: ' if table else ''}commit {version} cannot be read: {why}",
        hint="lakequeue makes a commit durable before it is visible, so another engine wrote this"
        f" one: {remedy}",
    )


# -- fields ---------------------------------------------------------------------------------------


def _object(body: Any) -> Mapping[str, Any]:
    if not isinstance(body, dict):
        raise Odd(f"it is {_told(body)}")
    return body


def _checked(body: Mapping[str, Any], name: str, is_sound: Callable[[Any], bool]) -> Any:
    given = body.get(name)
    if not is_sound(given):
        raise Odd(f"{name} is {_told(given)}")
    return given


def _told(given: object) -> str:
    return "missing" if given is None else repr(given)[:_SHOWN]


def _is_text(given: object) -> bool:
    return isinstance(given, str)


def _is_text_or_none(given: object) -> bool:
    return given is None or isinstance(given, str)


def _is_version(given: object) -> bool:
    return type(given) is int and 0 < given <= _INT32


def _text(given: object) -> str | None:
    return given if isinstance(given, str) else None


def _millis(given: object) -> int:
    """A time; 0 for what is none."""
    return given if type(given) is int and 0 < given < _LAST_MS else 0


def _flag(body: Mapping[str, Any], name: str) -> bool:
    given = body.get(name)
    if given is None:
        return True
    if type(given) is not bool:
        raise Odd(f"{name} is {_told(given)}")
    return given


def _texts(body: Mapping[str, Any], name: str) -> tuple[str, ...]:
    given = body.get(name)
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise Odd(f"{name} is {_told(given)}")
    return tuple(given)


def _mapping(
    body: Mapping[str, Any], name: str, is_sound: Callable[[object], bool]
) -> dict[str, Any]:
    given = body.get(name)
    if given is None:
        return {}
    if not isinstance(given, dict) or not all(
        isinstance(key, str) and is_sound(value) for key, value in given.items()
    ):
        raise Odd(f"{name} is {_told(given)}")
    return dict(given)


def is_inside(path: str) -> bool:
    """Whether a path leads to a data file of the table itself: what is read, and may be deleted."""
    parts = path.split("/")
    return (
        not any(part in {"", ".", ".."} for part in parts)
        and not parts[0].startswith("_delta_log")
        and "\0" not in path
        and not _SCHEME.match(path)
    )


def _path(body: Mapping[str, Any]) -> str:
    path = unquote(_checked(body, "path", _is_text))
    if not is_inside(path):
        raise Odd(f"path {path[:_SHOWN]!r} is not in the table")
    return path


def _vector(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    given = body.get("deletionVector")
    if given is None:
        return None
    if (
        not isinstance(given, dict)
        or not all(isinstance(given.get(n), str) for n in ("storageType", "pathOrInlineDv"))
        or not all(whole(given.get(n)) is not None for n in ("sizeInBytes", "cardinality"))
        or not (given.get("offset") is None or whole(given["offset"]) is not None)
    ):
        raise Odd(f"deletionVector is {_told(given)}")
    return given


def _is_schema(given: object) -> bool:
    if not isinstance(given, str):
        return False
    try:
        return _is_struct(orjson.loads(given))
    except orjson.JSONDecodeError:
        return False


def _is_struct(kind: object) -> bool:
    return (
        isinstance(kind, dict)
        and isinstance(kind.get("fields"), list)
        and all(_is_field(one) for one in kind["fields"])
    )


def _is_field(one: object) -> bool:
    return (
        isinstance(one, dict)
        and isinstance(one.get("name"), str)
        and isinstance(one.get("metadata"), dict)
        and _is_type(one.get("type"))
    )


def _is_type(kind: object) -> bool:
    if isinstance(kind, str):
        return True
    if not isinstance(kind, dict):
        return False
    if "fields" in kind:
        return _is_struct(kind)
    inner = [kind[name] for name in ("elementType", "keyType", "valueType") if name in kind]
    return bool(inner) and all(_is_type(one) for one in inner)
