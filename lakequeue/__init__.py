"""lakequeue: a message queue whose storage is open Delta Lake tables.

`from lakequeue import Producer, Consumer` is the client; it loads httpx2 and pydantic, and only
when it is used. The services are other packages, and are never loaded from here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakequeue.calling.credentials import Credentials
    from lakequeue.client.admin import Admin
    from lakequeue.client.consuming.async_consumer import AsyncConsumer
    from lakequeue.client.consuming.consumer import Consumer
    from lakequeue.client.consuming.fetch_buffer import Lost
    from lakequeue.client.message import Message
    from lakequeue.client.messages import Messages
    from lakequeue.client.producing.outgoing import Delivered, RecordMetadata
    from lakequeue.client.producing.producer import AsyncProducer, Producer
    from lakequeue.client.queue import Queue
    from lakequeue.client.record import Record
    from lakequeue.client.redrive import redrive_async
    from lakequeue.client.redriven import DeadLetters, Redriven, Wanted
    from lakequeue.errors import LakequeueError

__version__ = "0.1.0"

_HOME = {
    "Admin": "lakequeue.client.admin",
    "AsyncConsumer": "lakequeue.client.consuming.async_consumer",
    "AsyncProducer": "lakequeue.client.producing.producer",
    "Credentials": "lakequeue.calling.credentials",
    "Consumer": "lakequeue.client.consuming.consumer",
    # The old name of `RecordMetadata`, until 0.3.
    "Delivered": "lakequeue.client.producing.outgoing",
    "RecordMetadata": "lakequeue.client.producing.outgoing",
    "LakequeueError": "lakequeue.errors",
    "Lost": "lakequeue.client.consuming.fetch_buffer",
    "Message": "lakequeue.client.message",
    "Messages": "lakequeue.client.messages",
    "Producer": "lakequeue.client.producing.producer",
    "Queue": "lakequeue.client.queue",
    "Record": "lakequeue.client.record",
    "DeadLetters": "lakequeue.client.redriven",
    "Redriven": "lakequeue.client.redriven",
    "Wanted": "lakequeue.client.redriven",
    "redrive_async": "lakequeue.client.redrive",
}

__all__ = [
    "Admin",
    "AsyncConsumer",
    "AsyncProducer",
    "Consumer",
    "Credentials",
    "DeadLetters",
    "Delivered",
    "RecordMetadata",
    "LakequeueError",
    "Lost",
    "Message",
    "Messages",
    "Producer",
    "Queue",
    "Record",
    "Redriven",
    "Wanted",
    "redrive_async",
]


def __getattr__(name: str) -> Any:
    """Load what is asked for: the services import this package too, and need none of it."""
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'lakequeue' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
