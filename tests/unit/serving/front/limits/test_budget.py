"""The bound on memory."""

from __future__ import annotations

import pytest

from lakequeue.errors import Overloaded
from serving.front.limits.budget import Budget


def test_leases_share_the_bound_and_give_back() -> None:
    budget = Budget(100)
    with budget.lease() as one, budget.lease() as two:
        one.grow(60)
        two.grow(40)
        with pytest.raises(Overloaded) as refused:
            two.grow(1)
        assert refused.value.http_status == 429
        assert refused.value.retry_after_s
        assert refused.value.stored == "no"
        one.shrink_to(10)
        one.shrink_to(50)
        assert (one.held, budget.used) == (10, 50)
        two.grow(50)
    assert budget.used == 0


def test_a_failure_inside_gives_back_as_well() -> None:
    budget = Budget(100)

    def fail() -> None:
        with budget.lease() as lease:
            lease.grow(100)
            lease.grow(1)

    with pytest.raises(Overloaded):
        fail()
    assert budget.used == 0
