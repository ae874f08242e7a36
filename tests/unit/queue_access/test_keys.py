"""API keys."""

from __future__ import annotations

import pytest

from queue_access.keys import MOST_CHARS, id_of, new_key


def test_a_key_is_known_by_its_id_and_fits_only_as_a_whole() -> None:
    text, key = new_key("ada")
    assert id_of(text) == key.id
    assert key.fits(text)
    assert text not in repr(key)
    for at in range(len(text)):
        other = "A" if text[at] != "A" else "B"
        assert not key.fits(text[:at] + other + text[at + 1 :])
    assert not key.fits(text + "A")
    assert not key.fits(text[:-1])


def test_two_keys_have_nothing_in_common() -> None:
    made = {new_key("ada")[0] for _ in range(1_000)}
    assert len({id_of(text) for text in made}) == 1_000


def test_a_key_expires() -> None:
    _, key = new_key("ada", expires_at=1_000)
    assert not key.expired(999)
    assert key.expired(1_000)
    assert not new_key("ada")[1].expired(1 << 62)


@pytest.mark.parametrize(
    "text", ["", "lq_", "lq_a", "lq_a_", "lq__b", "xx_a_b", "lq_a_é", "lq_a_" + "b" * MOST_CHARS]
)
def test_what_is_no_key_has_no_id(text: str) -> None:
    assert id_of(text) is None
