"""The code of the documents, as it is printed, on one running queue."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coordination.embedded import EmbeddedZooKeeper
from lakequeue.calling.addresses import remove_addresses, write_addresses
from queue_tables.root import QueueRoot
from tests.support.documents.blocks import REPOSITORY, blocks_of
from tests.support.documents.pages import PAGES
from tests.support.documents.running import Reader, run_page
from tests.support.services.backends import real

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def reader(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[Reader]:
    """Somebody on the machine of a queue, who finds its addresses under the root."""
    folder = tmp_path_factory.mktemp("queue")
    with real(folder, zookeeper) as backend:
        (root,) = (path.parent for path in folder.glob("*/_lakequeue"))
        write_addresses(str(root), [backend.ingest_url], [backend.consumer_url])
        folder = tmp_path_factory.mktemp("reader")
        yield Reader(folder, str(root), backend.ingest_url, backend.consumer_url)
        remove_addresses(str(root))


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_a_page(reader: Reader, page: str, tmp_path: Path) -> None:
    if page == "docs/security.md":
        # It locks the queue: one of its own, which no process serves.
        QueueRoot.open(str(tmp_path / "locked"), create=True)
        at = Reader(tmp_path, str(tmp_path / "locked"), reader.ingest_url, reader.consumer_url)
    else:
        at = reader
    run_page(at, blocks_of(REPOSITORY / page), PAGES[page])
