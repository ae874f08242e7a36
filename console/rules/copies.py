"""The same view elsewhere: as SQL for Spark, as a call with curl, as Python. Pure."""

from __future__ import annotations

from shlex import quote
from urllib.parse import urlencode

_COLUMNS = (
    "topic, partition, offset, CAST(key AS STRING) AS key, CAST(value AS STRING) AS value,\n"
    "       headers, timestamp, ordered_at"
)


def text_of_sql(text: str) -> str:
    """A text as a literal of Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def table(root: str, name: str) -> str:
    """A table of the queue, as Spark names it by its path."""
    path = f"{root.rstrip('/')}/{name}".replace("`", "``")
    return f"delta.`{path}`"


def sql_of_records(
    root: str, topic_id: str, partition: int | None, *, newest: bool, begin: str = "", key: str = ""
) -> str:
    """The records of a page; `begin` is a condition of its own."""
    conditions = [f"topic_id = {text_of_sql(topic_id)}"]
    if partition is not None:
        conditions.append(f"partition = {partition}")
    if begin:
        conditions.append(begin)
    if key:
        conditions.append(f"key = encode({text_of_sql(key)}, 'UTF-8')")
    order = "timestamp DESC" if partition is None else "offset"
    if newest and partition is not None:
        order = "offset DESC"
    return (
        f"SELECT {_COLUMNS}\nFROM {table(root, 'log')}\nWHERE "
        + "\n  AND ".join(conditions)
        + f"\nORDER BY {order}\nLIMIT 100"
    )


def sql_of_group(root: str, group: str) -> str:
    """The positions of a group."""
    return (
        "SELECT topic, partition, mode, generation, committed_offset, epoch, member, changed_at\n"
        f"FROM {table(root, 'group_offsets')}\nWHERE `group` = {text_of_sql(group)}\n"
        "ORDER BY topic, partition"
    )


def sql_of_groups(root: str) -> str:
    """All groups."""
    return (
        "SELECT `group`, topic, mode, count(*) AS partitions, max(changed_at) AS changed_at\n"
        f"FROM {table(root, 'group_offsets')}\nGROUP BY `group`, topic, mode\nORDER BY `group`"
    )


def sql_of_topics(root: str) -> str:
    """All topics, with every version of them."""
    return f"SELECT *\nFROM {table(root, 'topics')}\nORDER BY topic, version DESC"


def sql_of_dead_letters(root: str, topic_id: str) -> str:
    """Dead letters by origin, group and reason."""
    headers = "map_from_entries(transform(headers, h -> struct(h.key, CAST(h.value AS STRING))))"
    return (
        "SELECT h['lakequeue-topic'] AS origin, h['lakequeue-group'] AS `group`,\n"
        "       h['lakequeue-reason'] AS reason, count(*) AS records,\n"
        "       min(timestamp) AS oldest, max(timestamp) AS newest\n"
        f"FROM (SELECT timestamp, {headers} AS h\n      FROM {table(root, 'log')}\n"
        f"      WHERE topic_id = {text_of_sql(topic_id)})\nGROUP BY ALL\nORDER BY records DESC"
    )


def sql_of_all_dead_letters(root: str) -> str:
    """How many dead letters each topic holds, those included that have gone back."""
    return (
        "SELECT topic, count(*) AS records, min(timestamp) AS oldest, max(timestamp) AS newest\n"
        f"FROM {table(root, 'log')}\nWHERE exists(headers, h -> h.key = 'lakequeue-reason')\n"
        "GROUP BY topic\nORDER BY records DESC"
    )


def sql_of_webhooks(root: str, group: str | None = None) -> str:
    """What groups post where, and since when. The table comes with the first such setting."""
    only = "" if group is None else f" AND `group` = {text_of_sql(group)}"
    return (
        "SELECT `group`, get_json_object(newest.body, '$.url') AS url,\n"
        "       get_json_object(newest.body, '$.topics') AS topics, newest.changed_at\n"
        "FROM (SELECT `group`, max_by(struct(body, deleted, changed_at), version) AS newest\n"
        f"      FROM {table(root, 'group_settings')}\n"
        f"      WHERE kind = 'webhook'{only} GROUP BY `group`)\n"
        "WHERE NOT newest.deleted\nORDER BY `group`"
    )


def sql_of_hours(root: str) -> str:
    """What came in and went out, hour by hour."""
    return (
        "SELECT hour, sum(records_in) AS records_in, sum(records_out) AS records_out,\n"
        "       sum(lag) AS lag\n"
        f"FROM {table(root, 'metrics')}\nGROUP BY hour\nORDER BY hour DESC\nLIMIT 24"
    )


def curl_of(url: str, path: str, query: dict[str, object], *, locked: bool) -> str:
    """A call of a service for a shell; a key is taken from the environment, and stands nowhere."""
    given = {name: value for name, value in query.items() if value not in {None, ""}}
    there = f"{url}{path}" + (f"?{urlencode(given)}" if given else "")
    key = ' -H "Authorization: Bearer $LAKEQUEUE_API_KEY"' if locked else ""
    return f"curl{key} {quote(there)}"


def python_of_records(topic: str, arguments: dict[str, object]) -> str:
    """The same with the SDK."""
    given = {name: value for name, value in arguments.items() if value not in {None, ""}}
    said = "".join(f", {name}={value!r}" for name, value in given.items())
    return (
        "from lakequeue import Admin\n\nwith Admin() as admin:\n"
        f"    page = admin.browse({topic!r}{said})\n"
        "    for record in page.records:\n"
        "        print(record.partition, record.offset, record.key, record.value)\n"
    )


def python_of_record(topic: str, partition: int, offset: int) -> str:
    """One record with the SDK."""
    return (
        "from lakequeue import Admin\n\nwith Admin() as admin:\n"
        f"    record = admin.record({topic!r}, {partition}, {offset})\n"
        "    print(record.key, record.value, record.headers)\n"
    )
