"""One ingest process for the tests that do not harm it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.services.ingest_service import IngestService


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IngestService]:
    with IngestService(tmp_path_factory.mktemp("ingest") / "root") as running:
        running.create("orders", partitions=4)
        running.create("small", partitions=1, max_record_bytes=100)
        yield running
