"""Which headers are a trace context, and which are none and harm nothing."""

from __future__ import annotations

import pytest

from lakequeue.tracing.context import TraceContext, context_of, has_parent, in_headers, in_record

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    "given",
    [PARENT, PARENT.encode(), f"01-{TRACE}-{SPAN}-01", f"cc-{TRACE}-{SPAN}-01-what-comes-later"],
)
def test_a_context_is_read_as_version_0(given: str | bytes) -> None:
    found = context_of(given)
    assert found == TraceContext(PARENT)
    assert (f"{found.trace_id:032x}", f"{found.span_id:016x}", found.flags) == (TRACE, SPAN, 1)


@pytest.mark.parametrize(
    "given",
    [
        None,
        "",
        "?",
        PARENT.upper(),
        PARENT + " ",
        PARENT + "\n",
        PARENT + "-more",
        PARENT[:-1],
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-0x",
        PARENT.replace("4", "٤"),
        b"\xff" * 55,
        PARENT * 2,
        "x" * 1_000_000,
    ],
)
def test_anything_else_is_none(given: str | bytes | None) -> None:
    assert context_of(given) is None


@pytest.mark.parametrize(
    ("state", "kept"),
    [
        ("congo=t61rcWkgMzE", True),
        ("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", True),
        ("a@b=1, ,c=2", True),
        ("no equals sign", False),
        ("A=1", False),
        ("a=\x00", False),
        ("a=" + "x" * 600, False),
        (",".join(f"k{n}=1" for n in range(33)), False),
    ],
)
def test_a_state_that_is_not_well_formed_is_dropped_and_the_context_stays(
    state: str, kept: bool
) -> None:
    assert context_of(PARENT, state) == TraceContext(PARENT, state if kept else "")


def test_it_is_read_from_what_records_carry() -> None:
    context = TraceContext(PARENT, "a=1")
    assert in_headers([("x", b"1"), *context.headers()]) == context
    headers = [{"key": name, "value": text} for name, text in context.of_request().items()]
    assert in_record({"headers": headers}) == context
    assert in_record({"headers": [{"key": "traceparent", "value_base64": "/w=="}]}) is None
    assert in_record({}) is None
    assert in_headers([("traceparent", None)]) is None
    assert has_parent([("traceparent", None)])
