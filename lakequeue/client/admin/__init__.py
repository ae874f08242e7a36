"""`Admin`: topics and groups, for programs and the command line. Blocking."""

from __future__ import annotations

from lakequeue.client.admin.calls import answer_of
from lakequeue.client.admin.groups import GroupCalls
from lakequeue.client.admin.records import Page, RecordCalls
from lakequeue.client.admin.topics import TopicCalls
from lakequeue.client.repartitioning import repartition
from lakequeue.wire import AdviceAnswer, NodeList, TopicDescription

__all__ = ["Admin", "Page"]


class Admin(TopicCalls, GroupCalls, RecordCalls):
    """Creates, alters, describes and deletes topics; describes, moves and deletes groups.

    Every call is repeated for `timeout_s` while the services say "try again" or do not answer.
    It is a context manager.

    Args:
        urls: One or several ingest nodes; None: found as `Producer` finds them.
        consumer_urls: One or several consumer-service nodes; None: found likewise.
        timeout_s: How long a call is repeated.
        credentials: An API key or token, or `Credentials`; by default what the environment says.

    Example:
        from lakequeue import Admin

        with Admin() as admin:
            topic, is_new = admin.create_topic("orders", partitions=4, if_not_exists=True)
            print(topic.partitions, [group.group for group in admin.groups()])
    """

    def grow_topic(self, topic: str, partitions: int, timeout_s: float = 60.0) -> TopicDescription:
        """Add partitions, and keep the records of each key in order.

        The topic takes no records until every group has consumed what is there; its producers wait.
        `alter_topic` does not wait, and keys are not in order over the change.

        Args:
            topic: Name of the topic.
            partitions: The new number of partitions.
            timeout_s: How long to wait for the groups.

        Returns:
            The topic with its new partitions.

        Raises:
            NotDrained: A group has not consumed everything in time. Nothing has changed.
        """
        return repartition(self, topic, partitions, timeout_s)

    def advice(self, over_s: float = 5.0) -> AdviceAnswer:
        """Ask what to add, by how the lag of all groups changes.

        The call takes `over_s`, unless the node was asked shortly before.

        Args:
            over_s: For how many seconds to look; 60 at most.

        Returns:
            The advice, and the numbers behind it.
        """
        query = f"?over_ms={round(over_s * 1_000)}"
        reply = self._call(self._consumer, "GET", f"/v1/advice{query}", takes_s=over_s)
        return answer_of(AdviceAnswer, reply)

    def nodes(self) -> NodeList:
        """List the nodes of both services.

        Returns:
            The nodes that are registered.
        """
        return answer_of(NodeList, self._call(self._ingest, "GET", "/v1/nodes"))
