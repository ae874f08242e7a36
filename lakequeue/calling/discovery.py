"""How a client learns which nodes there are: it asks one that it knows, now and then."""

from __future__ import annotations

import logging
from typing import Literal

from pydantic import ValidationError

from lakequeue.calling.calls import CallPolicy, call
from lakequeue.calling.effects import Now, Request, Script
from lakequeue.calling.nodes import Nodes
from lakequeue.errors import LakequeueError
from lakequeue.wire import NodeList

_log = logging.getLogger("lakequeue.nodes")
_READ_S = 5.0
_TRY_S = 0.5
"""Others are asked if the first one refuses; what hangs is not worth more time."""


def find(
    nodes: Nodes, service: Literal["ingest", "consumer"], now: Now, asked: Nodes | None = None
) -> Script[None]:
    """Ask for the nodes of a service, if it is time; whatever goes wrong, those known stay.

    `asked`: who is asked, if not whichever of `nodes` serves.
    """
    if not nodes.find_now():
        return
    request = Request("GET", "/v1/nodes", read_timeout_s=_READ_S)
    try:
        answer = yield from call(asked or nodes, request, now, CallPolicy(_TRY_S))
        told = NodeList.model_validate_json(answer.reply.body)
    except (LakequeueError, ValidationError) as error:
        # A proxy that lets little through, or an older service: we go on with what was given.
        _log.debug("nodes are not told: %s", error)
        return
    nodes.found([info.url for info in getattr(told, service)], answer.node)
