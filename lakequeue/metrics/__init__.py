"""Every metric, once: its name, what it says, its labels. What a role exports is a tuple of these.

The processes count by these declarations (`serving.meters`), `docs/metrics.md` is generated from
them, and dashboard and alert rules are tested against them. Labels whose values users choose
(`group`, `topic`) have at most `MOST_VALUES` values in one process; what is beyond goes together
under `_other`.
"""

from __future__ import annotations

from lakequeue.metrics import consumer, driver, every, front, ingest, sqs
from lakequeue.metrics.declaring import Metric

__all__ = ["ROLES", "consumer", "driver", "every", "front", "ingest", "sqs"]

ROLES: dict[str, tuple[Metric, ...]] = {
    "ingest": ingest.INGEST,
    "consumer service": consumer.CONSUMER,
    "driver": driver.DRIVER,
    "SQS gateway": sqs.SQS,
}
"""What each role exports beside `EVERY`."""
