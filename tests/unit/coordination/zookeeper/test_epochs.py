"""An epoch is above the counter and above what the tables record."""

from hypothesis import given
from hypothesis import strategies as st

from coordination.zookeeper.epochs import following


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 40))
def test_the_next_epoch_is_above_both(counter: int, above: int) -> None:
    assert following(counter, above) > max(counter, above)
