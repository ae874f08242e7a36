"""What a request says of positions, partition by partition, and who may say it."""

from __future__ import annotations

import pytest

from lakequeue.errors import InvalidRequest
from lakequeue.records import Partition, TopicId
from lakequeue.wire import AckAnswer, AckRequest, receipt_of
from queue_rules.streams.commit_request import (
    CommitRequest,
    Owner,
    commit_requests_of,
    refusal_of,
    refused_by,
    superseded,
)
from queue_tables.groups.facts import Key

IDS = {"orders": "t1"}
PLACE = Key("g", TopicId("t1"), Partition(0))


def test_receipts_are_sorted_by_partition_and_epoch_and_positions_stand_beside_them() -> None:
    request = AckRequest.model_validate(
        {
            "acks": [
                receipt_of("t1", 0, 4, 7),
                receipt_of("t1", 0, 5, 7),
                receipt_of("t1", 0, 1, 6),
            ],
            "commit": [{"topic": "orders", "partition": 1, "offset": 9, "epoch": 3}],
        }
    )
    assert commit_requests_of("g", request, IDS) == {
        PLACE: [CommitRequest("orders", 7, [4, 5]), CommitRequest("orders", 6, [1])],
        Key("g", TopicId("t1"), Partition(1)): [CommitRequest("orders", 3, [], 9)],
    }


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"acks": ["t1.0.x"]}, "acks"),
        ({"commit": [{"topic": "bills", "partition": 0, "offset": 1}]}, "commit"),
        ({"nacks": [{"receipt": receipt_of("t1", 0, 4, 7)}]}, "nacks"),
        (
            {"extend": [{"receipt": receipt_of("t1", 0, 4, 7), "visibility_timeout_ms": 1_000}]},
            "extend",
        ),
    ],
)
def test_what_says_nothing_of_a_position_is_refused_by_its_field(
    given: dict[str, object], field: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        commit_requests_of("g", AckRequest.model_validate(given), IDS)
    assert caught.value.extra["field"] == field


def test_only_the_owner_commits_and_only_under_its_epoch() -> None:
    parts = [CommitRequest("orders", 7, [4]), CommitRequest("orders", 6, [1])]
    parts.append(CommitRequest("orders", None, [], 9))
    owner = Owner("orders", "ada", 7)

    def refused(member: str, has: Owner | None) -> list[tuple[int, int | None]]:
        return [(r.epoch, r.current_epoch) for r in refused_by(has, member, PLACE, parts)]

    assert refused("ada", owner) == [(6, 7)]
    assert refused("bob", owner) == [(7, 7), (6, 7), (0, 7)]
    assert refused("ada", owner._replace(accepts=False)) == [(7, 7), (6, 7), (0, 7)]
    assert refused("ada", None) == [(7, None), (6, None), (0, None)]


@pytest.mark.parametrize(
    ("owner", "epoch", "said"),
    [
        (Owner("orders", "ada", 8), 7, "partition 0 of orders: epoch 7 presented, 8 current"),
        (None, 7, "partition 0 of orders: epoch 7 presented, another current"),
        (None, None, "partition 0 of orders is not this member's now"),
    ],
)
def test_a_refusal_has_both_epochs(owner: Owner | None, epoch: int | None, said: str) -> None:
    refusal = refusal_of(owner, PLACE, CommitRequest("orders", epoch, [4]))
    error = superseded(AckAnswer(committed=[], refused=[refusal]))
    assert error.detail == said
    assert error.stored == "no"
