"""What is hidden of records is hidden everywhere, and text of others cannot play tricks."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from console.rules.masks import HIDDEN, Masks
from console.rules.texts import ago, amount, harmless, moment
from lakequeue.errors import InvalidSetting

HEADERS: list[tuple[str, bytes | None]] = [("Authorization", b"secret"), ("trace", b"1")]


def test_fields_of_values_are_hidden_wherever_they_stand() -> None:
    masks = Masks(["orders:card.number", "orders:people.email", "orders:any.*.pin"])
    value = {
        "card": {"number": 1, "kind": "x"},
        "people": [{"email": "a"}, {"email": "b", "n": 1}],
        "any": {"a": {"pin": 1}, "b": {"pin": 2}},
    }
    clear = masks.apply("orders", "k", value, [])
    assert clear.hidden
    assert clear.value == {
        "card": {"number": HIDDEN, "kind": "x"},
        "people": [{"email": HIDDEN}, {"email": HIDDEN, "n": 1}],
        "any": {"a": {"pin": HIDDEN}, "b": {"pin": HIDDEN}},
    }
    assert value["card"] == {"number": 1, "kind": "x"}
    # Text and bytes that hold JSON are no way around it.
    for written in (json.dumps(value), json.dumps(value).encode()):
        assert json.loads(masks.apply("orders", "k", written, []).value) == clear.value


def test_a_value_that_cannot_be_read_is_hidden_whole() -> None:
    masks = Masks(["orders:card"])
    assert masks.apply("orders", None, b"\x00card: 1", []).value == HIDDEN
    assert masks.apply("orders", None, "card: 1", []).value == HIDDEN
    assert masks.apply("orders", None, None, []).value is None
    assert masks.apply("other", None, "card: 1", []).value == "card: 1"


def test_keys_values_and_headers_are_hidden_whole() -> None:
    masks = Masks(["o*:key", "o*:value", "*:headers.authorization"])
    clear = masks.apply("orders", "me", {"a": 1}, HEADERS)
    assert (clear.key, clear.value) == (HIDDEN, HIDDEN)
    assert clear.headers == [("Authorization", HIDDEN.encode()), ("trace", b"1")]
    untouched = masks.apply("t", "me", "v", [("trace", b"1")])
    assert (untouched.key, untouched.value, untouched.hidden) == ("me", "v", False)


def test_the_rules_that_the_page_shows_hide_what_it_says() -> None:
    page = Path(__file__).parents[3] / "docs" / "console.md"
    blocks = re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    (shown,) = (block for block in blocks if "mask" in block)
    masks = Masks(tomllib.loads(shown)["console"]["mask"])
    card = masks.apply("orders", "k", {"card": {"number": 1, "kind": "x"}}, HEADERS)
    assert card.value == {"card": {"number": HIDDEN, "kind": "x"}}
    assert card.headers[0] == ("Authorization", HIDDEN.encode())
    assert masks.apply("people.eu", "ada", "v", []).key == HIDDEN


@pytest.mark.parametrize("rule", ["orders", ":key", "orders:", "orders:a..b", "orders:headers"])
def test_a_rule_without_a_form_is_refused(rule: str) -> None:
    with pytest.raises(InvalidSetting, match=r"console\.mask"):
        Masks([rule])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x00b\x1b[31m\x7f", "a⟨U+0000⟩b⟨U+001B⟩[31m⟨U+007F⟩"),
        ("pay\u202eexe.fdp", "pay⟨U+202E⟩exe.fdp"),
        ("zero\u200bwidth", "zero⟨U+200B⟩width"),
        ("Łódź\n\t日本 <b>", "Łódź\n\t日本 <b>"),
    ],
)
def test_nothing_hides_in_text(text: str, shown: str) -> None:
    assert harmless(text) == shown


def test_times_and_amounts_are_readable() -> None:
    assert [amount(n) for n in (12, 1536, 5 << 30, None)] == ["12 B", "1.5 KiB", "5.0 GiB", "–"]
    assert [ago(s) for s in (5, 600, 10_000, 200_000, None)] == ["5 s", "10 min", "3 h", "2 d", "–"]
    assert moment(1_700_000_000_123_456) == "2023-11-14 22:13:20.123"
    assert moment(1 << 62) == f"{1 << 62} µs"


def test_what_a_nack_said_is_hidden_like_the_header_that_it_is() -> None:
    masks = Masks(["*.dlq:headers.lakequeue-nack-reason"])
    assert masks.header("orders.dlq", "lakequeue-nack-reason", "card 4111") == HIDDEN
    assert masks.header("orders", "lakequeue-nack-reason", "card 4111") == "card 4111"
