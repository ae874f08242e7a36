"""Turns are short while a thread is within, and as they were afterwards."""

from __future__ import annotations

import sys

import pytest

from serving.front.limits.turns import SOON_S, Turns


def test_turns_are_short_until_the_last_has_ended() -> None:
    usual, turns = sys.getswitchinterval(), Turns()
    with turns:
        with pytest.raises(ZeroDivisionError), turns:
            _ = 1 / 0
        assert sys.getswitchinterval() == pytest.approx(SOON_S)
    assert sys.getswitchinterval() == usual
