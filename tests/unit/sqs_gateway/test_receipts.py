"""Receipt handles: whole, and of their queue, or refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqs_gateway.rules.errors import RECEIPT_INVALID, SqsError
from sqs_gateway.rules.receipts import Handle, handle_of

HANDLE = Handle("q.78c979c1b5fd4a71.3.41.0.1.3904355907", 1_795_981_590_037)


def test_a_handle_says_what_it_was_made_of() -> None:
    assert handle_of(HANDLE.text("orders"), "orders") == HANDLE


@given(st.data())
def test_a_handle_that_was_altered_by_one_character_is_refused(data: st.DataObject) -> None:
    text = HANDLE.text("orders")
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters().filter(lambda one: one != text[at]))
    for wrong in (text[:at] + other + text[at + 1 :], text[:at] + text[at + 1 :], text + other):
        with pytest.raises(SqsError) as error:
            handle_of(wrong, "orders")
        assert error.value.code is RECEIPT_INVALID


@given(st.text())
def test_any_text_is_refused(text: str) -> None:
    with pytest.raises(SqsError):
        handle_of(text, "orders")


def test_a_handle_of_another_queue_is_refused() -> None:
    with pytest.raises(SqsError):
        handle_of(HANDLE.text("orders"), "payments")
