"""Messages and records: what becomes what."""

from __future__ import annotations

import uuid
from hashlib import md5

import pytest

from sqs_gateway.rules import digests
from sqs_gateway.rules.characters import allowed
from sqs_gateway.rules.errors import SqsError
from sqs_gateway.rules.kept import Kept, kept_in, with_kept
from sqs_gateway.rules.message_attributes import Attribute, attributes_of
from sqs_gateway.rules.messages import attributes_in, body_of, message_id_of


def test_the_digest_of_attributes_is_that_of_sqs() -> None:
    """Each part with its length before it, in the order of the names."""
    attributes = {
        "Number": Attribute("Number", "5"),
        "Binary": Attribute("Binary", b"\x00\xff"),
    }
    by_hand = (
        b"\0\0\0\x06Binary\0\0\0\x06Binary\x02\0\0\0\x02\x00\xff"
        b"\0\0\0\x06Number\0\0\0\x06Number\x01\0\0\0\x015"
    )
    assert digests.of_attributes(attributes) == md5(by_hand, usedforsecurity=False).hexdigest()
    assert digests.of_attributes({}) is None


@pytest.mark.parametrize(
    ("record", "body"),
    [
        ({"value": "text"}, "text"),
        ({"value": {"a": [1, 2.5, None]}}, '{"a":[1,2.5,null]}'),
        ({"value": None}, ""),
        ({"value_base64": "AP8="}, "AP8="),
        ({"value": True}, "true"),
    ],
)
def test_every_value_has_a_body(record: dict[str, object], body: str) -> None:
    assert body_of(record) == body


def test_every_record_has_an_id_that_is_a_uuid_and_stays() -> None:
    place = {"topic": "t", "partition": 1, "offset": 7}
    own = str(uuid.uuid4())
    assert message_id_of(place | {"message_id": own}, {}) == own
    for message_id in (None, "till-7:41", "x" * 36):
        record = place | {"message_id": message_id}
        assert message_id_of(record, {}) == message_id_of(record, {})
        assert str(uuid.UUID(message_id_of(record, {}))) == message_id_of(record, {})
    assert message_id_of(place, {}) != message_id_of(place | {"offset": 8}, {})


def test_headers_of_other_clients_are_attributes() -> None:
    headers: dict[str, str | bytes] = {
        "kind": "refund",
        "raw": b"\xff",
        "empty": "",
        "lakequeue-topic": "orders",
        "sqs-types": '{"n":"Number","kind":5,"raw":"String"}',
        "n": "5",
    }
    assert attributes_in(headers) == {
        "kind": Attribute("String", "refund"),
        "raw": Attribute("Binary", b"\xff"),
        "n": Attribute("Number", "5"),
    }


def test_what_others_keep_beside_a_topic_stays() -> None:
    kept = Kept({"DelaySeconds": "5"}, {"team": "a"}, 1, 2)
    text = with_kept('{"owner": "ada"}', kept)
    assert kept_in(text) == kept
    assert '"owner":"ada"' in text
    for other in (
        None,
        "plain text",
        "[]",
        '{"sqs": 5}',
        '{"sqs": {"tags": [], "created_s": "x"}}',
    ):
        assert kept_in(other) == Kept()
    with pytest.raises(SqsError):
        with_kept("plain text", kept)


def test_characters_are_those_of_xml() -> None:
    assert allowed("\t\n\r ~\u00e9\ud7ff\ue000\ufffd\U00010000\U0010ffff")
    for wrong in ("\0", "\x0b", "\x1f", "\ud800", "\udfff", "\ufffe", "\uffff"):
        assert not allowed(f"a{wrong}b")


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("0", True),
        ("-0.000e999", True),
        ("1e126", True),
        ("-1E+126", True),
        ("1.0000000001e126", False),
        ("1e127", False),
        ("1e-128", True),
        ("0.9e-128", False),
        ("9" * 38, True),
        ("-" + "9" * 39, False),
        ("1" + "0" * 100, True),
        (f"0.{'0' * 50}{'7' * 38}00", True),
        ("7" * 1_000_000, False),
        ("1e9999", False),
        ("\u0661", False),
        ("", False),
    ],
)
def test_a_number_has_38_digits_at_most_and_an_end(text: str, good: bool) -> None:
    given = {"n": {"DataType": "Number", "StringValue": text}}
    if good:
        assert attributes_of(given) == {"n": Attribute("Number", text)}
    else:
        with pytest.raises(SqsError):
            attributes_of(given)
