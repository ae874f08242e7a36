"""Both protocols of SQS, spoken without an SDK: what is given is sent, whatever it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree

import httpx2
import orjson

from sqs_gateway.rules.operations import OPERATIONS
from sqs_gateway.rules.shapes import Field, Kind

SPACE = "http://queue.amazonaws.com/doc/2012-11-05/"


@dataclass(frozen=True, slots=True)
class Told:
    """An answer. `code` is that of the older protocol, which JSON has in a header; "" if good."""

    status: int
    code: str = ""
    message: str = ""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Codes of entries that failed, by id."""
    found: tuple[str, ...] = ()
    """What a receive or a list has found: bodies or URLs."""


Speak = Callable[..., Told]
"""(operation, **parameters as JSON has them) → what was told."""


def by_json(http: httpx2.Client) -> Speak:
    """AWS JSON 1.0."""

    def ask(operation: str, **given: Any) -> Told:
        headers = {
            "Content-Type": "application/x-amz-json-1.0",
            "X-Amz-Target": f"AmazonSQS.{operation}",
        }
        answer = http.post("/", content=orjson.dumps(given), headers=headers)
        said = answer.json() if answer.content else {}
        if answer.status_code != 200:
            code = answer.headers["x-amzn-query-error"].partition(";")[0]
            assert "#" in said["__type"]
            return Told(answer.status_code, code, said["message"])
        failed = {one["Id"]: one["Code"] for one in said.get("Failed", ())}
        found = [one["Body"] for one in said.get("Messages", ())] + said.get("QueueUrls", [])
        return Told(200, "", "", failed, tuple(found))

    return ask


def by_query(http: httpx2.Client) -> Speak:
    """A form in, XML out."""

    def ask(operation: str, **given: Any) -> Told:
        form = {"Action": operation, "Version": "2012-11-05"}
        fields = OPERATIONS[operation].fields if operation in OPERATIONS else ()
        answer = http.post("/", data=form | form_of(fields, given))
        root = ElementTree.fromstring(answer.text.replace(f' xmlns="{SPACE}"', ""))  # noqa: S314 - our own
        if answer.status_code != 200:
            code, message = (root.findtext(f"Error/{name}") or "" for name in ("Code", "Message"))
            return Told(answer.status_code, code, message)
        failed = {
            one.findtext("Id") or "": one.findtext("Code") or ""
            for one in root.iter("BatchResultErrorEntry")
        }
        found = [one.text or "" for name in ("Body", "QueueUrl") for one in root.iter(name)]
        return Told(200, "", "", failed, tuple(found))

    return ask


def form_of(
    fields: tuple[Field, ...], given: Mapping[str, Any], prefix: str = ""
) -> dict[str, str]:
    """Parameters as a form has them."""
    names = {one.name: one for one in fields}
    found: dict[str, str] = {}
    for name, value in given.items():
        one = names.get(name, Field(name))
        place = prefix + one.query_name
        match one.kind:
            case Kind.TEXTS:
                found |= {f"{place}.{n}": str(text) for n, text in enumerate(value, 1)}
            case Kind.MAP:
                label = "Key" if one.query_name == "Tag" else "Name"
                for n, (key, text) in enumerate(value.items(), 1):
                    found |= {f"{place}.{n}.{label}": key, f"{place}.{n}.Value": text}
            case Kind.ATTRIBUTES:
                for n, (key, attribute) in enumerate(value.items(), 1):
                    found[f"{place}.{n}.Name"] = key
                    found |= {f"{place}.{n}.Value.{k}": v for k, v in attribute.items()}
            case Kind.ENTRIES:
                for n, entry in enumerate(value, 1):
                    found |= form_of(one.entry, entry, f"{place}.{n}.")
            case _:
                found[place] = str(value)
    return found
