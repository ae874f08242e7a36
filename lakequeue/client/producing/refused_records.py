"""Which record of a request was refused, and the error as one about it. Pure."""

from __future__ import annotations

from lakequeue.client.producing.outgoing import Outgoing
from lakequeue.client.producing.producer_batch import ProducerBatch
from lakequeue.errors import InvalidRequest, LakequeueError, TooLarge


def index_at_fault(error: LakequeueError, batch: ProducerBatch) -> int | None:
    """The place in the batch of the record that is refused; None: none of them alone."""
    index = error.extra.get("record")
    if not isinstance(error, InvalidRequest | TooLarge) or not isinstance(index, int):
        return None
    return index if 0 <= index < len(batch.records) else None


def was_chosen(error: LakequeueError, record: Outgoing) -> bool:
    """Whether it is refused for a partition that its application did not ask for."""
    return record.chosen is not None and error.extra.get("field") == "partition"


def about_record(error: LakequeueError, index: int, record: Outgoing) -> LakequeueError:
    """`error`, which names a place in a request that the application does not see, as one about
    `record`, by its message id. Pure.
    """
    what = error.detail.removeprefix(f"record {index}: ")
    extra = error.extra | {"message_id": record.message_id}
    del extra["record"]
    detail = f"record {record.message_id}: {what}"
    return type(error)(detail, hint=error.hint, stored=error.stored, **extra)
