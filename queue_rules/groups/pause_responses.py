"""What may be paused, and how it is told. Pure."""

from __future__ import annotations

from collections.abc import Callable

from lakequeue.errors import InvalidRequest
from lakequeue.wire import PauseAnswer, PauseRequest
from queue_rules.groups.pause_rules import PauseRules
from queue_tables.schema.topic_rules import Topic


def response_of(group: str, rules: PauseRules) -> PauseAnswer:
    """The body of the 200."""
    return PauseAnswer.model_validate({"group": group, **described(rules)})


def described(rules: PauseRules) -> dict[str, object]:
    """The rules for people: what is paused as a whole, and what is not as its whole is. Pure."""
    return {
        "paused": rules.paused(),
        "rules": [
            {"topic": topic, "partition": partition, "paused": said}
            for (topic, partition), said in sorted(
                rules.rules.items(), key=lambda rule: (rule[0][0] or "", rule[0][1] or -1)
            )
            if topic is not None
        ],
    }


def check_pause(request: PauseRequest, topic_of: Callable[[str], Topic]) -> None:
    """Raise `InvalidRequest` for partitions that do not exist, and what `topic_of` raises."""
    if request.topic is None:
        if request.partitions is not None:
            raise InvalidRequest(
                "partitions without a topic",
                hint="name the topic, or leave both out for the whole group",
                field="topic",
            )
        return
    topic = topic_of(request.topic)
    for partition in request.partitions or ():
        topic.place(partition, field="partitions")
