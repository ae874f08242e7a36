"""Both protocols, byte by byte: what older SDKs send, and what nobody should."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree

import httpx2
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqs_gateway.rules.operations import OPERATIONS
from sqs_gateway.rules.shapes import Field, Kind

Name = Callable[..., str]
SPACE = "{http://queue.amazonaws.com/doc/2012-11-05/}"
JSON = {"Content-Type": "application/x-amz-json-1.0"}


@pytest.fixture(scope="module")
def http(url: str) -> httpx2.Client:
    """A client that knows nothing of SQS."""
    return httpx2.Client(base_url=url, trust_env=False, timeout=60.0)


def asked(http: httpx2.Client, operation: str, **body: Any) -> httpx2.Response:
    """By JSON."""
    target = {"X-Amz-Target": f"AmazonSQS.{operation}"}
    return http.post("/", content=orjson.dumps(body), headers=JSON | target)


def queried(
    http: httpx2.Client,
    action: str,
    params: Mapping[str, str],
    path: str = "/",
    status: int = 200,
) -> ElementTree.Element:
    """By a form; the answer without its name space."""
    form = {"Action": action, "Version": "2012-11-05"} | dict(params)
    answer = http.post(path, data=form)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "text/xml"
    return ElementTree.fromstring(answer.text.replace(SPACE[1:-1], ""))  # noqa: S314 - our own


def texts(root: ElementTree.Element, path: str) -> list[str]:
    return [one.text or "" for one in root.findall(path)]


def test_a_message_by_the_older_protocol(http: httpx2.Client, name: Name) -> None:
    queue = name()
    given = {"Attribute.1.Name": "VisibilityTimeout", "Attribute.1.Value": "9"}
    tag = {"Tag.1.Key": "a", "Tag.1.Value": "b"}
    made = queried(http, "CreateQueue", {"QueueName": queue} | given | tag)
    (url,) = texts(made, "CreateQueueResult/QueueUrl")
    path = "/" + url.partition("//")[2].partition("/")[2]
    attribute = {
        "MessageAttribute.1.Name": "n",
        "MessageAttribute.1.Value.DataType": "Number",
        "MessageAttribute.1.Value.StringValue": "5",
    }
    sent = queried(http, "SendMessage", {"MessageBody": "a <b> & \r\n"} | attribute, path)
    wanted = {"AttributeName.1": "All", "MessageAttributeName.1": "All"}
    got = queried(http, "ReceiveMessage", {"QueueUrl": url, "WaitTimeSeconds": "5"} | wanted)
    message = "ReceiveMessageResult/Message"
    assert texts(got, f"{message}/Body") == ["a <b> & \r\n"]
    assert texts(got, f"{message}/MessageId") == texts(sent, "SendMessageResult/MessageId")
    assert texts(got, f"{message}/MessageAttribute/Value/StringValue") == ["5"]
    assert "SentTimestamp" in texts(got, f"{message}/Attribute/Name")
    (handle,) = texts(got, f"{message}/ReceiptHandle")
    one = queried(http, "GetQueueAttributes", {"QueueUrl": url, "AttributeName": "DelaySeconds"})
    assert texts(one, "GetQueueAttributesResult/Attribute/Name") == ["DelaySeconds"]
    told = queried(http, "GetQueueAttributes", {"QueueUrl": url, "AttributeName.1": "All"})
    attributes = "GetQueueAttributesResult/Attribute"
    pairs = zip(texts(told, f"{attributes}/Name"), texts(told, f"{attributes}/Value"), strict=True)
    assert dict(pairs)["VisibilityTimeout"] == "9"
    tags = queried(http, "ListQueueTags", {"QueueUrl": url})
    assert texts(tags, "ListQueueTagsResult/Tag/Key") == ["a"]
    entry = "DeleteMessageBatchRequestEntry"
    entries = {
        f"{entry}.1.Id": "good",
        f"{entry}.1.ReceiptHandle": handle,
        f"{entry}.2.Id": "bad",
        f"{entry}.2.ReceiptHandle": "x",
    }
    deleted = queried(http, "DeleteMessageBatch", {"QueueUrl": url} | entries)
    result = "DeleteMessageBatchResult"
    assert texts(deleted, f"{result}/DeleteMessageBatchResultEntry/Id") == ["good"]
    assert texts(deleted, f"{result}/BatchResultErrorEntry/Code") == ["ReceiptHandleIsInvalid"]
    listed = http.get(f"/?{urlencode({'Action': 'ListQueues', 'QueueNamePrefix': queue})}")
    assert url in listed.text


def test_errors_have_the_codes_of_each_protocol(http: httpx2.Client, url: str) -> None:
    gone = f"{url}/000000000000/nobody"
    told = asked(http, "SendMessage", QueueUrl=gone, MessageBody="x")
    assert told.status_code == 400
    assert told.json()["__type"] == "com.amazonaws.sqs#QueueDoesNotExist"
    old = "AWS.SimpleQueueService.NonExistentQueue"
    assert told.headers["x-amzn-query-error"] == f"{old};Sender"
    assert re.fullmatch("[0-9a-f-]{36}", told.headers["x-amzn-requestid"])
    xml = queried(http, "SendMessage", {"QueueUrl": gone, "MessageBody": "x"}, status=400)
    assert texts(xml, "Error/Code") == [old]
    assert texts(xml, "Error/Type") == ["Sender"]


@pytest.mark.parametrize(
    ("target", "body", "kind"),
    [
        ("AmazonSQS.Nothing", b"{}", "UnknownOperationException"),
        ("DynamoDB_20120810.PutItem", b"{}", "UnknownOperationException"),
        ("AmazonSQS.SendMessage", b"{", "SerializationException"),
        ("AmazonSQS.SendMessage", b"[]", "SerializationException"),
        ("AmazonSQS.SendMessage", b"\xff", "SerializationException"),
        ("AmazonSQS.SendMessage", b"{}", "MissingRequiredParameterException"),
        ("AmazonSQS.SendMessage", b'{"QueueUrl":5}', "SerializationException"),
        ("AmazonSQS.SendMessage", b'{"QueueUrl":"http://[","MessageBody":"x"}', "InvalidAddress"),
        ("AmazonSQS.ListQueues", b'{"MaxResults":true}', "SerializationException"),
        ("AmazonSQS.ListQueues", b'{"MaxResults":0}', "InvalidParameterValueException"),
        ("AmazonSQS.ListQueues", b'{"MaxResults":99999999999}', "SerializationException"),
        ("AmazonSQS.ListQueues", b"[" * 100_000, "SerializationException"),
    ],
)
def test_what_cannot_be_read(http: httpx2.Client, target: str, body: bytes, kind: str) -> None:
    told = http.post("/", content=body, headers=JSON | {"X-Amz-Target": target})
    assert 400 <= told.status_code < 500
    assert told.json()["__type"].rpartition("#")[2] == kind


def test_health_and_metrics(http: httpx2.Client) -> None:
    assert http.get("/healthz").json() == {"status": "alive", "node": "sqs"}
    assert http.get("/readyz").status_code == 200
    asked(http, "ListQueues")
    assert 'lakequeue_sqs_requests_total{operation="ListQueues",outcome="done"}' in (
        http.get("/metrics").text
    )


_TEXT = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["0", "-1", "99999999999999", "All", "q.fifo", "{}", "\x00", "\ud800", "a" * 300]
    ),
)
_ODD = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), _TEXT, st.lists(_TEXT))
_QUEUES = st.sampled_from(["http://h/000000000000/any", "/000000000000/any.fifo", "any", ""])


def _values(field: Field) -> st.SearchStrategy[Any]:
    if field.name == "QueueUrl":
        return st.one_of(_QUEUES, _ODD)
    if field.name in {"QueueName", "MessageGroupId", "Id"}:
        return st.one_of(st.sampled_from(["any", "any.fifo", "1"]), _ODD)
    match field.kind:
        case Kind.TEXT:
            good: st.SearchStrategy[Any] = _TEXT
        case Kind.WHOLE:
            good = st.integers(-2, 5)
        case Kind.TEXTS:
            good = st.lists(_TEXT, max_size=3)
        case Kind.MAP:
            names = st.sampled_from(["FifoQueue", "RedrivePolicy", "DelaySeconds", "Policy", "x"])
            good = st.dictionaries(names, _TEXT, max_size=3)
        case Kind.ATTRIBUTES:
            inner = st.fixed_dictionaries(
                {},
                optional={
                    "DataType": st.one_of(st.sampled_from(["String", "Number", "Binary"]), _ODD),
                    "StringValue": _ODD,
                    "BinaryValue": _ODD,
                },
            )
            good = st.dictionaries(_TEXT, st.one_of(inner, _ODD), max_size=3)
        case Kind.ENTRIES:
            good = st.lists(st.one_of(_input(field.entry), _ODD), max_size=12)
    return st.one_of(good, _ODD)


def _input(fields: tuple[Field, ...]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={one.name: _values(one) for one in fields})


_REQUESTS = st.sampled_from(sorted(OPERATIONS)).flatmap(
    lambda name: st.tuples(st.just(name), _input(OPERATIONS[name].fields))
)


def _sendable(given: Any) -> Any:
    """Without what JSON cannot hold."""
    if isinstance(given, str):
        return given.encode("utf-8", "replace").decode()
    if isinstance(given, Mapping):
        return {_sendable(name): _sendable(value) for name, value in given.items()}
    if isinstance(given, list):
        return [_sendable(one) for one in given]
    return given if not isinstance(given, int) or abs(given) < 2**63 else 2**63


def _flat(given: Any, prefix: str = "") -> dict[str, str]:
    """As a form has it, more or less."""
    if isinstance(given, Mapping):
        parts = [(name, value) for name, value in given.items()]
    elif isinstance(given, list):
        parts = [(str(number), value) for number, value in enumerate(given, 1)]
    else:
        return {prefix: str(given)}
    dot = f"{prefix}." if prefix else ""
    return {k: v for name, value in parts for k, v in _flat(value, f"{dot}{name}").items()}


@given(request=_REQUESTS)
def test_nothing_that_a_client_sends_is_a_failure_of_the_gateway(
    http: httpx2.Client, request: tuple[str, dict[str, Any]]
) -> None:
    operation, body = request
    for name in ("any", "any.fifo"):
        fifo = {"FifoQueue": "true"} if "." in name else {}
        asked(http, "CreateQueue", QueueName=name, Attributes=fifo)
    sendable = _sendable(body)
    sendable["WaitTimeSeconds"] = 0
    by_json = asked(http, operation, **sendable)
    assert by_json.status_code < 500, by_json.text
    if by_json.status_code >= 400:
        assert by_json.json()["message"]
    by_form = http.post("/", data={"Action": operation} | _flat(sendable))
    assert by_form.status_code < 500, by_form.text
    ElementTree.fromstring(by_form.text)  # noqa: S314 - our own


@given(
    body=st.binary(max_size=200),
    kind=st.sampled_from(["", "application/x-www-form-urlencoded", JSON["Content-Type"], "x/y"]),
    path=st.text(max_size=20),
)
def test_any_bytes_are_answered(http: httpx2.Client, body: bytes, kind: str, path: str) -> None:
    target = f"/{urlencode({'': path})[1:]}"
    for method in ("POST", "GET"):
        answer = http.request(method, target, content=body, headers={"Content-Type": kind})
        assert 400 <= answer.status_code < 500 or target.startswith(("/healthz", "/readyz"))
