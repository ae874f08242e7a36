"""Message attributes: what they may be called and hold. Pure."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from sqs_gateway.rules.characters import allowed
from sqs_gateway.rules.errors import INVALID_CONTENTS, INVALID_PARAMETER, SqsError, invalid

MOST: Final = 10
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\Z")
_TYPE: Final = re.compile(r"(String|Number|Binary)(\..+)?\Z", re.DOTALL)
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?\Z", re.ASCII)
_MOST_DIGITS: Final = 38
_LEAST, _MOST_NUMBER = Decimal("1e-128"), Decimal("1e126")
_RESERVED: Final = ("aws.", "amazon.")
OUR_HEADERS: Final = ("sqs-", "lakequeue-")
"""How headers begin that say something of a message: no attribute may be called so."""
TRACE_HEADER: Final = "AWSTraceHeader"


@dataclass(frozen=True, slots=True)
class Attribute:
    """One message attribute."""

    type: str
    """`String`, `Number` or `Binary`, and what the sender has added after a dot."""
    value: str | bytes

    def size(self, name: str) -> int:
        """What it adds to the size of its message."""
        value = self.value if isinstance(self.value, bytes) else self.value.encode()
        return len(name.encode()) + len(self.type.encode()) + len(value)

    def wire(self) -> dict[str, str]:
        """As an answer has it; bytes are base64."""
        if isinstance(self.value, bytes):
            encoded = base64.b64encode(self.value).decode("ascii")
            return {"BinaryValue": encoded, "DataType": self.type}
        return {"StringValue": self.value, "DataType": self.type}


def attributes_of(given: Mapping[str, Mapping[str, Any]]) -> dict[str, Attribute]:
    """The message attributes of a request. Raises `SqsError`."""
    if len(given) > MOST:
        raise _wrong(
            f"Number of message attributes [{len(given)}] exceeds the allowed maximum [{MOST}]."
        )
    return {_checked_name(name): _attribute(name, one) for name, one in given.items()}


def system_attributes_of(given: Mapping[str, Mapping[str, Any]]) -> dict[str, Attribute]:
    """The system attributes of a request: there is one. Raises `SqsError`."""
    for name in given:
        if name != TRACE_HEADER:
            raise invalid("MessageSystemAttributes", name, "Invalid MessageSystemAttributeName.")
        if given[name].get("DataType") != "String":
            raise _wrong(f"The message system attribute '{name}' must be of the type String.")
    return {name: _attribute(name, one) for name, one in given.items()}


def _wrong(said: str) -> SqsError:
    return SqsError(INVALID_PARAMETER, said)


def _checked_name(name: str) -> str:
    if len(name) > 256 or not _NAME.match(name):
        raise _wrong(
            "Can only include alphanumeric characters, hyphens, underscores, or dots, and be 1 to"
            f" 256 in length. The message attribute name '{name[:256]}' is invalid."
        )
    if name.lower().startswith(_RESERVED) or name.startswith(OUR_HEADERS):
        raise _wrong(f"The message attribute name '{name[:256]}' begins with a reserved prefix.")
    return name


def _attribute(name: str, given: Mapping[str, Any]) -> Attribute:
    kind = given.get("DataType") or ""
    if not kind:
        raise _wrong(
            f"The message attribute '{name}' must contain a non-empty message attribute type."
        )
    if len(kind) > 256 or not _TYPE.match(kind) or not allowed(kind):
        raise _wrong(
            f"The message attribute '{name}' has an invalid message attribute type, the set of"
            " supported type prefixes is Binary, Number, and String."
        )
    text, encoded = given.get("StringValue"), given.get("BinaryValue")
    if kind.startswith("Binary"):
        return Attribute(kind, _bytes(name, encoded))
    if encoded is not None or not text:
        raise _wrong(
            f"The message attribute '{name}' must contain a non-empty message attribute value for"
            f" message attribute type '{kind.partition('.')[0]}'."
        )
    if not allowed(text):
        raise SqsError(INVALID_CONTENTS, f"Message attribute '{name}' has invalid characters.")
    if kind.startswith("Number") and not _is_number(text):
        raise _wrong(f"Can't cast the value of message (user) attribute '{name}' to a number.")
    return Attribute(kind, text)


def _is_number(text: str) -> bool:
    """Whether SQS has room for it; zeros at its ends are no digits that count."""
    if not _NUMBER.match(text):
        return False
    digits = text.lower().partition("e")[0].lstrip("+-").replace(".", "").strip("0")
    if len(digits) > _MOST_DIGITS:
        return False
    return not digits or _LEAST <= Decimal(text).copy_abs() <= _MOST_NUMBER


def _bytes(name: str, encoded: Any) -> bytes:
    if not encoded:
        raise _wrong(
            f"The message attribute '{name}' must contain a non-empty message attribute value for"
            " message attribute type 'Binary'."
        )
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise _wrong(f"The value of the message attribute '{name}' is not base64.") from None


def wanted(names: Sequence[str]) -> Callable[[str], bool]:
    """Which attributes a receive asks for: a test of a name. `All`, `.*`, `prefix.*`, or names."""
    if "All" in names or ".*" in names:
        return lambda _: True
    prefixes = tuple(name[:-1] for name in names if name.endswith(".*"))
    exact = frozenset(names)
    return lambda name: name in exact or name.startswith(prefixes)
