"""One bounded part of a redrive, as a request asks for it: a client's, wherever it runs.

The rule is `lakequeue.client.redrive`'s; the service and the queue in memory run the same part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lakequeue.client.redrive import redrive_some
from lakequeue.client.redriven import Wanted
from lakequeue.wire import RedriveAnswer, RedriveRequest


def redrive_part(
    topic: str,
    request: RedriveRequest,
    ingest_urls: Sequence[str],
    consumer_url: str,
    stopping: Callable[[], bool],
    may_send: Callable[[str], bool] = lambda _: True,
) -> RedriveAnswer:
    """Redrive some, as a client of these nodes. Raises what a redrive raises.

    `may_send`: whether whoever asked for it may send to a topic.
    """
    part = redrive_some(
        topic,
        urls=ingest_urls,
        consumer_urls=consumer_url,
        wanted=Wanted(request.headers, request.since, request.until),
        most=request.max,
        within_s=request.wait_ms / 1_000,
        to=request.to,
        ends=None if request.end_offsets is None else dict(enumerate(request.end_offsets)),
        stopping=stopping,
        may_send=may_send,
    )
    done = part.done
    return RedriveAnswer(
        **done.counts(),
        more=part.more,
        end_offsets=[part.ends[partition] for partition in sorted(part.ends)],
    )
