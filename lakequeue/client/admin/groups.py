"""Groups: describe, move, pause, delete; their webhooks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from lakequeue.client.admin.calls import ServiceCalls, answer_of, checked, path_of_group
from lakequeue.wire import (
    GroupDescription,
    GroupList,
    GroupSummary,
    PauseAnswer,
    PauseRequest,
    SeekAnswer,
    SeekRequest,
    SeekTo,
    WebhookDescription,
    WebhookRequest,
)


class GroupCalls(ServiceCalls):
    """What `Admin` does with groups."""

    def groups(self) -> list[GroupSummary]:
        """List the groups.

        Returns:
            All groups, by name.
        """
        return answer_of(GroupList, self._call(self._consumer, "GET", "/v1/groups")).groups

    def group(self, group: str) -> GroupDescription:
        """Describe a group.

        Args:
            group: Name of the group.

        Returns:
            Its positions, lag, owners and members.

        Raises:
            UnknownGroup: There is no such group.
        """
        return answer_of(GroupDescription, self._call(self._consumer, "GET", path_of_group(group)))

    def seek(
        self,
        group: str,
        to: SeekTo | datetime,
        *,
        offset: int | None = None,
        time: int | datetime | None = None,
        shift: int = 0,
        topics: Sequence[str] | None = None,
        partition: int | None = None,
        predicate: str | None = None,
        dry_run: bool = False,
    ) -> SeekAnswer:
        """Move a group that has no member to another position.

        Args:
            group: Name of the group. If `topics` are given, it is created if it does not exist.
            to: Where to: `"earliest"`, `"latest"`, `"committed"`, `"offset"`, `"time"`, or a
                datetime with a zone.
            offset: With `to="offset"`: the next offset to deliver.
            time: With `to="time"`: a datetime with a zone, or microseconds since 1970 UTC.
            shift: Is added to the position.
            topics: Only these topics.
            partition: Only this partition.
            predicate: Predicate of a group that is created.
            dry_run: Only say what would change.

        Returns:
            The old and the new positions.

        Raises:
            GroupActive: The group has members; the error names them.
            UnknownGroup: There is no such group, and no `topics` are given.
        """
        given = {
            "to": "time" if isinstance(to, datetime) else to,
            "offset": offset,
            "time": to if isinstance(to, datetime) else time,
            "shift": shift,
            "topics": None if topics is None else list(topics),
            "partition": partition,
            "predicate": predicate,
            "dry_run": dry_run,
        }
        body = checked(SeekRequest, given).model_dump(exclude_none=True)
        return answer_of(
            SeekAnswer, self._call(self._consumer, "POST", path_of_group(group) + "/seek", body)
        )

    def pause(
        self, group: str, topic: str | None = None, partitions: Sequence[int] | None = None
    ) -> PauseAnswer:
        """Stop the deliveries of a group until `resume`. Acks go on.

        After the call no node sends any more records. Records that were on their way may still
        arrive, and a `Consumer` hands out what it had fetched.

        Args:
            group: Name of the group.
            topic: Only this topic.
            partitions: Only these partitions of `topic`.

        Returns:
            What is paused now.

        Raises:
            UnknownGroup: There is no such group.
        """
        return self._pause(group, "pause", topic, partitions)

    def resume(
        self, group: str, topic: str | None = None, partitions: Sequence[int] | None = None
    ) -> PauseAnswer:
        """Deliver again. For each partition the newest pause or resume counts.

        Args:
            group: Name of the group.
            topic: Only this topic.
            partitions: Only these partitions of `topic`.

        Returns:
            What is still paused.

        Raises:
            UnknownGroup: There is no such group.
        """
        return self._pause(group, "resume", topic, partitions)

    def _pause(
        self, group: str, verb: str, topic: str | None, partitions: Sequence[int] | None
    ) -> PauseAnswer:
        given = {"topic": topic, "partitions": None if partitions is None else list(partitions)}
        body = checked(PauseRequest, given).model_dump(exclude_none=True)
        path = f"{path_of_group(group)}/{verb}"
        return answer_of(PauseAnswer, self._call(self._consumer, "POST", path, body))

    def delete_group(self, group: str) -> None:
        """Delete a group that has no member, with its positions.

        Args:
            group: Name of the group.

        Raises:
            UnknownGroup: There is no such group.
            GroupActive: The group has members.
        """
        self._call(self._consumer, "DELETE", path_of_group(group))

    def set_webhook(
        self, group: str, url: str, topics: Sequence[str], **options: Any
    ) -> WebhookDescription:
        """Send the records of a group to a URL, by POST.

        Args:
            group: Name of the group.
            url: Where to.
            topics: Topics of the group.
            **options: The options of `WebhookRequest`.

        Returns:
            The webhook, with its secret if that is a new one: the receiver checks signatures by it
            (`lakequeue.wire.calls.webhooks.verify`). It is shown once. Without `secret=` a webhook
            keeps the one it has, unless its URL changes.

        Raises:
            InvalidRequest: The URL or an option is not valid.
        """
        body = checked(WebhookRequest, {"url": url, "topics": list(topics)} | options)
        said = body.model_dump(exclude_none=True)
        if body.format == "record":
            del said["format"]  # services of an earlier release do not know it
        path = path_of_group(group) + "/webhook"
        return answer_of(WebhookDescription, self._call(self._consumer, "PUT", path, said))

    def webhook(self, group: str) -> WebhookDescription:
        """Describe the webhook of a group, without its secret.

        Args:
            group: Name of the group.

        Returns:
            The webhook.

        Raises:
            UnknownWebhook: The group has none.
        """
        return answer_of(
            WebhookDescription, self._call(self._consumer, "GET", path_of_group(group) + "/webhook")
        )

    def delete_webhook(self, group: str) -> None:
        """Delete the webhook of a group. The group and its records stay.

        Args:
            group: Name of the group.

        Raises:
            UnknownWebhook: The group has none.
        """
        self._call(self._consumer, "DELETE", path_of_group(group) + "/webhook")
