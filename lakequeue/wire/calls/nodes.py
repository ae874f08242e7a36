"""Which nodes there are, on both ports."""

from __future__ import annotations

from lakequeue.wire.shapes import AnswerShape


class NodeInfo(AnswerShape):
    """A node that is registered: it may have died less than a session timeout ago."""

    node: str
    url: str


class NodeList(AnswerShape):
    """`GET /v1/nodes`: the nodes of both services, sorted by name."""

    ingest: list[NodeInfo]
    consumer: list[NodeInfo]
