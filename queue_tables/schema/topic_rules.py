"""What may be said of a topic, and what a topic is. Pure: the table is in `queue_tables.topics`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from lakequeue.clock import MAX_SKEW_S, Micros
from lakequeue.errors import (
    InvalidRequest,
    LakequeueError,
    TopicClosed,
    TopicExists,
    UnknownTopic,
)
from lakequeue.records import Partition, TopicPartition, checked_name
from lakequeue.wire.calls.topics import (
    TopicChanges,
    TopicConfig,
    TopicDescription,
    TopicIdentity,
    TopicSettings,
    default_dead_letters,
)
from queue_tables.schema.values.rules import (
    WITH_VERSIONS,
    EarlierSchema,
    check_next,
    check_settings,
    texts_of,
)

MAX_SKEW_US = int(MAX_SKEW_S * 1e6)
_MOST_RETRY_S = 1.0


class Topic(TopicSettings, TopicIdentity):
    """A topic as it is now. Times are milliseconds, sizes bytes, `None` means no limit."""

    closed_until: int | None = None
    """No records are taken until then, microseconds since 1970; see
    docs/protocols/repartitioning.md.
    """
    earlier_schemas: tuple[EarlierSchema, ...] = ()
    """Schemas with versions that it had before, the oldest first: records may still be of them."""

    model_config = ConfigDict(frozen=True)

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Topic:
        """The topic that a row of the table `topics` holds, as it is: its bounds may be older.

        A row that an earlier release has written lacks the settings that came later.
        """
        return cls.model_construct(**{n: row[n] for n in cls.model_fields if n in row})

    def place(
        self,
        partition: int,
        *,
        field: str | None = "partition",
        error: type[LakequeueError] = InvalidRequest,
    ) -> TopicPartition:
        """A partition of it. Raises `error` if it has none of that number."""
        check_partition(partition, self.partitions, f"topic {self.topic}", field=field, error=error)
        return TopicPartition(self.topic_id, Partition(partition))

    @property
    def dead_letters(self) -> str:
        """Name of the topic that its dead records go to; it may not exist yet."""
        return self.dead_letter_topic or default_dead_letters(self.topic)

    @property
    def config(self) -> dict[str, Any]:
        """What was chosen by whoever created or altered it."""
        return {name: getattr(self, name) for name in TopicConfig.model_fields}

    @property
    def description(self) -> dict[str, Any]:
        """As `wire.TopicDescription` has it."""
        return {name: getattr(self, name) for name in TopicDescription.model_fields}


def checked_config(topic: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The full configuration of a new topic; raise `InvalidRequest` naming the field."""
    full = _checked(topic, TopicConfig, config).model_dump()
    _check_together(topic, full)
    return full


def checked_change(topic: Topic, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The full configuration after `changes`; raise `InvalidRequest` naming the field."""
    _checked(topic.topic, TopicChanges, changes)
    lasting = {name: value for name, value in changes.items() if name != "closed_for_ms"}
    full = _checked(topic.topic, TopicConfig, topic.config | lasting).model_dump()
    if full["partitions"] < topic.partitions:
        raise InvalidRequest(
            f"topic {topic.topic!r} has {topic.partitions} partitions, not {full['partitions']} "
            "or fewer: partitions only grow",
            hint="create another topic and copy the records",
            field="partitions",
        )
    _check_together(topic.topic, full)
    return full


def _check_still_closed(topic: Topic, now: Micros) -> None:
    """Raise unless no node can have taken a record since the topic was closed."""
    if topic.closed_until is None or now + MAX_SKEW_US >= topic.closed_until:
        raise InvalidRequest(
            f"topic {topic.topic!r} has opened again before it could grow",
            hint="close it for longer, and drain it again",
            field="closed_for_ms",
        )


def refuse_if_closed(
    topic: Topic, now: Micros, hint: str = "send again then; the clients do so by themselves"
) -> None:
    """Raise `TopicClosed` while the topic takes no records."""
    if topic.closed_until is not None and now < topic.closed_until:
        left_s = (topic.closed_until - now) / 1e6
        raise TopicClosed(
            f"topic {topic.topic} takes no records for {left_s:.1f} s more: it is drained to grow",
            hint=hint,
            stored="no",
            retry_after_s=min(left_s, _MOST_RETRY_S),
        )


def refuse_if_open(topic: Topic, now: Micros) -> None:
    """Raise `InvalidRequest` while the topic takes records."""
    if topic.closed_until is None or now >= topic.closed_until:
        raise InvalidRequest(
            f"topic {topic.topic} takes records: close it first",
            hint="PATCH it with closed_for_ms, or use `lakequeue topic alter -p N --drain`",
            field="topic",
        )


def refuse_if_grown(
    topic: Topic,
    placed_among: int,
    hint: str = "send again at once; the clients do so by themselves",
) -> None:
    """Raise `TopicClosed` if records were placed among another number of partitions."""
    if topic.partitions != placed_among:
        raise TopicClosed(
            f"topic {topic.topic} has just grown to {topic.partitions} partitions",
            hint=hint,
            stored="no",
            retry_after_s=0.0,
        )


def is_new(name: str, full: Mapping[str, Any], others: Mapping[str, Topic]) -> bool:
    """Whether a topic with these settings is to be made; False if it is there, just so.

    Raises `TopicExists` if there is one with other settings, `InvalidRequest` for a circle.
    """
    found = others.get(name)
    if found is None:
        check_dead_letters(name, full, others)
        return True
    if found.config != full:
        other = [f"{k} {found.config[k]!r}" for k in full if found.config[k] != full[k]]
        raise TopicExists(
            f"topic {name!r} exists with {', '.join(other)}",
            hint="alter it (PATCH), or choose another name",
        )
    return False


def altered(
    found: Topic, changes: Mapping[str, Any], others: Mapping[str, Topic], now: Micros
) -> dict[str, Any] | None:
    """The settings of a topic after `changes`, `closed_until` too; None if nothing changes."""
    full = checked_change(found, changes)
    kind, text = full["value_schema_type"], full["value_schema"]
    if kind in WITH_VERSIONS and text != found.value_schema:
        had = texts_of(kind, schemas_of(found))
        check_next(full["value_compatibility"], kind, text, had)
    closed_until = found.closed_until
    if "closed_for_ms" in changes:
        for_ms = changes["closed_for_ms"]
        if not for_ms and full["partitions"] > found.partitions:
            _check_still_closed(found, now)
        closed_until = now + for_ms * 1_000 if for_ms else None
    if full == found.config and closed_until == found.closed_until:
        return None
    check_dead_letters(found.topic, full, others)
    return full | {"closed_until": closed_until}


def schemas_of(topic: Topic) -> tuple[EarlierSchema, ...]:
    """The schemas with versions that a topic has had, the oldest first, with the present one."""
    kind, text = topic.value_schema_type, topic.value_schema
    if kind is None or kind not in WITH_VERSIONS or text is None:
        return topic.earlier_schemas
    present = EarlierSchema(kind, text)
    return (*(one for one in topic.earlier_schemas if one != present), present)


def unknown_topic(name: str) -> UnknownTopic:
    """The error of a topic that is not there."""
    return UnknownTopic(
        f"topic {name!r} does not exist",
        hint=f"create it: PUT /v1/topics/{name}, or `lakequeue topic create {name}`",
    )


def check_partition(
    partition: Any,
    count: int,
    of: str = "the topic",
    *,
    field: str | None = "partition",
    error: type[LakequeueError] = InvalidRequest,
) -> None:
    """Raise `error` unless `partition` is one of 0 … count - 1."""
    if type(partition) is not int or not 0 <= partition < count:
        named: dict[str, Any] = {} if field is None else {"field": field}
        raise error(
            f"partition {repr(partition)[:100]} does not exist: {of} has {count}",
            hint=f"give one of 0 to {count - 1}",
            **named,
        )


def check_dead_letters(topic: str, full: Mapping[str, Any], others: Mapping[str, Topic]) -> None:
    """Raise `InvalidRequest` if dead records of `topic` (settings `full`) could come back to it.

    `others` are the topics that exist. A record that dies again and again would go round for ever.
    """
    path = [topic, full["dead_letter_topic"] or default_dead_letters(topic)]
    while path[-1] not in path[:-1]:
        following = others.get(path[-1])
        if following is None:
            return
        path.append(following.dead_letters)
    if path[-1] == topic:
        raise InvalidRequest(
            f"topic {topic!r}: dead letters would go in a circle: {' → '.join(path)}",
            hint="name another dead_letter_topic",
            field="dead_letter_topic",
        )


def _checked(topic: str, model: type[BaseModel], config: Mapping[str, Any]) -> BaseModel:
    for name in config:
        if name not in model.model_fields:
            near = difflib.get_close_matches(name[:100], model.model_fields, n=1)
            also = f"did you mean {near[0]!r}?" if near else ""
            known = f"a topic has {', '.join(model.model_fields)}"
            raise InvalidRequest(
                f"topic {topic!r}: {name[:100]!r} is not a setting that can be given here",
                hint=f"{also} {known}".strip(),
                field=name[:100],
            )
    try:
        return model.model_validate(dict(config), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise InvalidRequest(
            f"topic {topic!r}: {field} = {repr(first['input'])[:100]}: {first['msg']}",
            hint=f"give another {field}",
            field=field,
        ) from error


def _check_together(topic: str, full: Mapping[str, Any]) -> None:
    retention_ms, window_ms = full["retention_ms"], full["dedup_window_ms"]
    if retention_ms is not None and retention_ms < window_ms:
        # The index of ids is rebuilt from the log: what it remembers must still be there.
        raise InvalidRequest(
            f"topic {topic!r}: retention_ms {retention_ms} is below dedup_window_ms {window_ms}",
            hint="raise retention_ms, or lower dedup_window_ms",
            field="retention_ms",
        )
    pause_ms, longest_ms = full["backoff_ms"], full["backoff_max_ms"]
    if pause_ms is not None and longest_ms is not None and longest_ms < pause_ms:
        raise InvalidRequest(
            f"topic {topic!r}: backoff_max_ms {longest_ms} is below backoff_ms {pause_ms}",
            hint="raise backoff_max_ms, or lower backoff_ms",
            field="backoff_max_ms",
        )
    if full["dead_letter_topic"] is not None:
        checked_name(full["dead_letter_topic"], "dead_letter_topic")
    check_settings(full)
