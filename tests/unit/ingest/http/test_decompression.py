"""Decompression is bounded, and says what is wrong."""

from __future__ import annotations

import gzip
import time

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ingest.http.decompression import decompress
from lakequeue.errors import LakequeueError, MalformedBody, TooLarge, UnsupportedMediaType

LIMIT = 1 << 20
PACK = {"gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress}


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "GZIP", " zstd "])
def test_round_trip_and_exact_limit(encoding: str) -> None:
    pack = PACK[encoding.strip().lower()]
    data = bytes(range(256)) * 4096
    grown: list[int] = []
    assert decompress(pack(data), encoding, len(data), grown.append) == data
    assert sum(grown) == len(data)
    with pytest.raises(TooLarge):
        decompress(pack(data), encoding, len(data) - 1)


@pytest.mark.parametrize("encoding", ["", "identity"])
def test_plain_is_returned_as_it_is(encoding: str) -> None:
    assert decompress(b"abc", encoding, LIMIT) == b"abc"


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_bomb_is_refused_at_the_limit(encoding: str) -> None:
    bomb = PACK[encoding](b"\0" * (64 << 20))
    grown: list[int] = []
    with pytest.raises(TooLarge) as refused:
        decompress(bomb, encoding, LIMIT, grown.append)
    assert refused.value.stored == "no"
    assert sum(grown) <= LIMIT


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_several_members_follow_one_another(encoding: str) -> None:
    pack = PACK[encoding]
    assert decompress(pack(b"one") + pack(b"") + pack(b"two"), encoding, LIMIT) == b"onetwo"


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
@pytest.mark.parametrize("spoil", ["truncated", "trailing", "text"])
def test_damage_is_malformed(encoding: str, spoil: str) -> None:
    whole = PACK[encoding](b"hello" * 1000)
    body = {"truncated": whole[:-3], "trailing": whole + b"rubbish", "text": b"hello"}[spoil]
    with pytest.raises(MalformedBody, match=encoding):
        decompress(body, encoding, LIMIT)


def test_unknown_encoding() -> None:
    with pytest.raises(UnsupportedMediaType, match="br"):
        decompress(b"", "br", LIMIT)


@given(body=st.binary(max_size=200), encoding=st.sampled_from(["gzip", "zstd"]))
def test_any_bytes_give_bytes_or_a_clear_refusal(body: bytes, encoding: str) -> None:
    stored = "no"
    try:
        decompress(body, encoding, LIMIT)
    except LakequeueError as e:
        stored = str(e.stored)
    assert stored == "no"


@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_many_empty_frames_cost_no_more_than_their_length(name: str) -> None:
    """A megabyte of them took seconds: the rest was copied at the end of each."""
    one = gzip.compress(b"") if name == "gzip" else zstandard.ZstdCompressor().compress(b"")
    body = one * (4_000_000 // len(one))
    began = time.process_time()
    with pytest.raises(MalformedBody, match="frames"):
        decompress(body, name, 1 << 20)
    assert time.process_time() - began < 1


@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_a_body_cut_into_frames_is_put_together(name: str) -> None:
    compress = gzip.compress if name == "gzip" else zstandard.ZstdCompressor().compress
    parts = [bytes([n]) * 10_000 for n in range(100)]
    assert decompress(b"".join(map(compress, parts)), name, 1 << 20) == b"".join(parts)
