"""Where a webhook may point, and what its answers mean."""

from __future__ import annotations

import pytest

from consumer_service.webhooks.target import addresses_of, is_public, judge, target_of
from lakequeue.errors import InvalidRequest


@pytest.mark.parametrize(
    ("url", "port", "header"),
    [
        ("https://example.com/hook?a=1", 443, "example.com"),
        ("http://example.com:8000/", 8000, "example.com:8000"),
        ("http://[2001:db8::1]:81/x", 81, "[2001:db8::1]:81"),
    ],
)
def test_a_good_url_is_taken_apart(url: str, port: int, header: str) -> None:
    target = target_of(url)
    assert (target.port, target.host_header) == (port, header)


def test_the_looked_up_address_takes_the_place_of_the_name() -> None:
    assert target_of("https://example.com/hook?a=1").at("192.0.2.7") == (
        "https://192.0.2.7:443/hook?a=1"
    )
    assert target_of("http://example.com/").at("2001:db8::1") == "http://[2001:db8::1]:80/"


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com",
        "/hook",
        "http://",
        "http://a:b@c/",
        "http://a/#x",
        "http://a:99999/",
        "http://a..b/",
        "http://" + "a" * 64 + "/",
        "http://a/\x7f",
    ],
)
def test_a_bad_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        target_of(url)
    assert caught.value.extra["field"] == "url"


def test_a_name_in_any_script_becomes_one_that_can_be_sent() -> None:
    assert target_of("http://b\u00fccher.example/").host_header == "xn--bcher-kva.example"


NOT_PUBLIC = [
    "0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "169.254.169.254", "172.31.255.255",
    "192.0.0.8", "192.0.0.170", "192.0.2.1", "192.88.99.1", "192.168.0.1", "198.18.0.1",
    "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "168.63.129.16",
    "::", "::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "64:ff9b::a9fe:a9fe",
    "64:ff9b::a83f:8110", "64:ff9b:1::1", "100::1", "2001::1", "2001:2::1", "2001:db8::1",
    "2002:7f00:1::", "2002:101:101::", "3fff::1", "5f00::1", "fc00::1", "fd00::1", "fe80::1",
    "fe80::1%eth0", "fec0::1", "ff02::1", "4000::1",
]  # fmt: skip


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_an_address_that_the_registries_do_not_give_to_the_public_is_refused(
    address: str,
) -> None:
    assert not is_public(address)
    target = target_of("https://hooks.example.org/")
    # One of several is enough: which one is taken is not in our hands.
    with pytest.raises(InvalidRequest, match="not a public address"):
        addresses_of(target, allow_private=False, lookup=lambda *_: ["1.1.1.1", address])
    assert addresses_of(target, allow_private=True, lookup=lambda *_: [address]) == [address]


def test_public_addresses_are() -> None:
    assert all(map(is_public, ["1.1.1.1", "168.63.129.17", "2606:4700::1111", "64:ff9b::101:101"]))


@pytest.mark.parametrize("port", [22, 25, 2181, 2379, 6379, 8081])
def test_ports_of_other_protocols_are_refused(port: int) -> None:
    target = target_of(f"http://hooks.example.org:{port}/")
    with pytest.raises(InvalidRequest, match=f"port {port}"):
        addresses_of(target, allow_private=False, lookup=lambda *_: ["1.1.1.1"])
    for good in (80, 443, 8080, 8443):
        url = f"http://hooks.example.org:{good}/"
        assert addresses_of(target_of(url), allow_private=False, lookup=lambda *_: ["1.1.1.1"])


def test_a_name_that_cannot_be_looked_up_is_refused() -> None:
    def fails(host: str, port: int) -> list[str]:
        raise OSError("no such name")

    with pytest.raises(InvalidRequest, match="looked up"):
        addresses_of(target_of("http://hooks.example.org/"), allow_private=False, lookup=fails)


@pytest.mark.parametrize("host", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "[::1]", "[fd00::1]"])
def test_an_address_that_is_not_public_needs_permission(host: str) -> None:
    target = target_of(f"http://{host}/")
    with pytest.raises(InvalidRequest, match="not a public address"):
        addresses_of(target, allow_private=False)
    assert addresses_of(target, allow_private=True) == [host.strip("[]")]


@pytest.mark.parametrize(
    ("status", "retry_after", "done", "delay_s"),
    [
        (200, None, True, None),
        (204, "9", True, None),
        (302, None, False, None),
        (404, "9", False, None),
        (429, "9", False, 9.0),
        (503, "999999", False, 3600.0),
        (503, "Wed, 21 Oct", False, None),
    ],
)
def test_only_a_2xx_is_done(
    status: int, retry_after: str | None, done: bool, delay_s: float | None
) -> None:
    verdict = judge(status, retry_after)
    assert (verdict.done, verdict.delay_s) == (done, delay_s)
