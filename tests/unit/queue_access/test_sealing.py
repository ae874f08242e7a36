"""Secrets that are sealed."""

from __future__ import annotations

import pytest

from lakequeue.errors import CorruptTable
from queue_access.registry import Registry, described, entry_of_sealing_key
from queue_access.sealing import is_sealed, new_sealing_key

ABOUT = {"group": "mail", "url": "https://example.com/"}


def test_a_sealed_secret_is_opened_with_its_key_for_what_it_is_about() -> None:
    key = new_sealing_key()
    sealed = key.seal("whsec_x", ABOUT)
    assert is_sealed(sealed)
    assert not is_sealed("whsec_x")
    assert "whsec_x" not in sealed
    assert key.open(sealed, ABOUT) == "whsec_x"
    assert key.seal("whsec_x", ABOUT) != sealed


def test_it_is_not_opened_with_another_key_for_something_else_or_when_it_was_changed() -> None:
    key = new_sealing_key()
    sealed = key.seal("whsec_x", ABOUT)
    changed = sealed[:-1] + ("A" if sealed[-1] != "A" else "B")
    for opener, text, about in (
        (new_sealing_key(), sealed, ABOUT),
        (key, sealed, ABOUT | {"url": "https://example.org/"}),
        (key, sealed, ABOUT | {"group": "other"}),
        (key, changed, ABOUT),
        (key, "sealed:", ABOUT),
        (key, "sealed:a.b.c.d.e", ABOUT),
    ):
        with pytest.raises(CorruptTable, match="lakequeue webhook set"):
            opener.open(text, about)


def test_the_key_is_kept_and_not_shown() -> None:
    key = new_sealing_key()
    entry = entry_of_sealing_key(key)
    assert Registry([entry]).sealing_key == key
    assert not Registry([entry]).locked
    assert key.text not in str(described(entry))
    assert key.text not in repr(key)
