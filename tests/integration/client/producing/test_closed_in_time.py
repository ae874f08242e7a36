"""A producer that is closed while its node does not answer."""

from __future__ import annotations

import asyncio

import pytest

from lakequeue import AsyncProducer
from lakequeue.errors import LakequeueError, NotReady, OrderTimeout
from tests.integration.client.misbehaving import misbehaving


def test_an_async_producer_gives_up_what_it_has_when_it_is_closed() -> None:
    given_up: list[LakequeueError] = []

    async def scenario() -> None:
        with misbehaving() as server:
            server.acts = ["hang"]
            producer = AsyncProducer(server.url, on_error=lambda _, error: given_up.append(error))
            handle = await producer.send("orders", 1)
            with pytest.raises(OrderTimeout):
                await producer.close(0.1)
            with pytest.raises(NotReady) as refused:
                await asyncio.wait_for(handle, 2)
            assert given_up == [refused.value]
            assert refused.value.stored == "unknown"

    asyncio.run(scenario())
