"""A request body as sent, to bytes as meant, never more than a bound. Pure.

Output is made in pieces and counted, so that a small body that would unpack to gigabytes (a "zip
bomb") costs no more than the bound and is refused with 413. Input is given in pieces, so that a
body of many small frames costs no more than its length: what is left of a piece at the end of a
frame is copied, and the whole rest would be at each.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterator

import zstandard

from lakequeue.errors import MalformedBody, TooLarge, UnsupportedMediaType

_PIECE = 256 << 10
_GIVEN = 4 << 10
"""Input at once."""
MAX_FRAMES = 1_024
"""Members of gzip, frames of zstd: each costs time, also when it is empty. Writers that cut their
output into frames make them of 64 KiB and more."""
_MAX_WINDOW = 32 << 20
"""A zstd frame may ask for a window of this size at most; it is memory before any output."""

Grow = Callable[[int], None]
"""Called before each piece is kept, with its bytes: the place to reserve memory."""


def decompress(body: bytes, encoding: str, limit: int, grow: Grow = lambda _: None) -> bytes:
    """The body of a Content-Encoding ("", "identity", "gzip" or "zstd").

    Raises `UnsupportedMediaType` for another encoding, `MalformedBody` for damaged or truncated
    data or more than `MAX_FRAMES` frames, `TooLarge` past `limit` bytes of output.
    """
    name = encoding.strip().lower()
    if name in {"", "identity"}:
        return body
    if name in {"gzip", "x-gzip"}:
        return _gunzip(body, limit, grow)
    if name == "zstd":
        return _unzstd(body, limit, grow)
    raise UnsupportedMediaType(
        f"Content-Encoding {encoding[:100]!r} is not supported",
        hint="gzip, zstd or none",
        stored="no",
    )


def too_large_body(limit: int) -> TooLarge:
    """413 for the whole request."""
    return TooLarge(
        f"the body is larger than {limit} bytes (decompressed)",
        hint="send fewer records in one request",
        stored="no",
    )


def _gunzip(body: bytes, limit: int, grow: Grow) -> bytes:
    pieces: list[bytes] = []
    total = 0
    member = None
    frames = 0
    try:
        for given in _in_pieces(body):
            rest = given
            while rest:  # a gzip file may hold several members
                if member is None:
                    frames = _one_more(frames, "gzip")
                    member = zlib.decompressobj(wbits=31)
                piece = member.decompress(rest, _PIECE)
                rest = member.unconsumed_tail
                total += len(piece)
                if total > limit:
                    raise too_large_body(limit)
                if piece:
                    grow(len(piece))
                    pieces.append(piece)
                if member.eof:
                    rest, member = member.unused_data, None
        if member is not None:
            raise _damaged("gzip", "it ends in the middle")
    except zlib.error as e:
        raise _damaged("gzip", str(e)) from None
    return b"".join(pieces)


def _unzstd(body: bytes, limit: int, grow: Grow) -> bytes:
    # Two passes, since neither reader does both: the stream reader bounds its output but takes a
    # truncated frame for a finished one, the decompression object tells the end of a frame but
    # not how much a step will yield.
    unpacker = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
    try:
        total = 0
        reader = unpacker.stream_reader(io.BytesIO(body), read_across_frames=True)
        while piece := reader.read(_PIECE):
            total += len(piece)
            if total > limit:
                raise too_large_body(limit)
        grow(total)
        pieces: list[bytes] = []
        frame = None
        frames = 0
        for given in _in_pieces(body):
            rest = given
            while rest:
                if frame is None:
                    frames = _one_more(frames, "zstd")
                    frame = unpacker.decompressobj()
                pieces.append(frame.decompress(rest))
                rest = b""
                if frame.eof:
                    rest, frame = frame.unused_data, None
        if frame is not None:
            raise _damaged("zstd", "it ends in the middle")
    except zstandard.ZstdError as e:
        raise _damaged("zstd", str(e)) from None
    return b"".join(pieces)


def _in_pieces(body: bytes) -> Iterator[bytes]:
    view = memoryview(body)
    for begin in range(0, len(body), _GIVEN):
        yield bytes(view[begin : begin + _GIVEN])


def _one_more(frames: int, name: str) -> int:
    if frames >= MAX_FRAMES:
        raise _damaged(name, f"it is cut into more than {MAX_FRAMES} frames")
    return frames + 1


def _damaged(name: str, why: str) -> MalformedBody:
    return MalformedBody(
        f"the body is not {name}: {why}",
        hint=f"compress it with {name}, or leave Content-Encoding out",
        stored="no",
    )
