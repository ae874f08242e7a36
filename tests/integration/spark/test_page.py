"""The blocks of the page about Spark, as they are printed, in order, in one session of their own.

A block may use what blocks above it have made: these are run before it, once.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from queue_tables.root import QueueRoot
from tests.support.data.log_builder import LogBuilder
from tests.support.documents.blocks import REPOSITORY, blocks_of
from tests.support.documents.pages import FOR_SPARK, SPARK_PAGE
from tests.support.documents.running import Reader
from tests.support.services.order_thread import ordering

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]
BLOCKS = [block for block in blocks_of(REPOSITORY / SPARK_PAGE) if block.is_run]


class Page:
    """The page, as far as it has been run."""

    def __init__(self, spark: SparkSession, reader: Reader) -> None:
        self._spark = spark
        self._reader = reader
        self._names: dict[str, object] = {"spark": spark, "root": reader.root}
        self._at = 0
        self._exec("what the page takes for granted", FOR_SPARK)
        self._known = {query.id for query in spark.streams.active}

    def run_to(self, at: int) -> None:
        """Run it to the block of that number. The streams that a block starts have to work."""
        while self._at <= at:
            block = BLOCKS[self._at]
            self._at += 1
            assert block.language == "python", f"{block}: nobody runs it"
            self._exec(str(block), block.text)
            for query in self._spark.streams.active:
                if query.id not in self._known:
                    query.processAllAvailable()
                    query.stop()

    def _exec(self, where: str, code: str) -> None:
        code = self._reader.exchanged(code)
        exec(compile(code, where, "exec"), self._names)  # noqa: S102 -- a document of ours


@pytest.fixture(scope="module")
def page(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """In a notebook: there is a session, and `session()` and `getOrCreate()` return it."""
    folder = tmp_path_factory.mktemp("page")
    root = QueueRoot.open(str(folder / "queue"))
    log = LogBuilder(root)
    for name in ("orders", "totals", "lines"):
        log.append(log.topic(name), ['{"total": 12, "amount": 5}'])
    session = spark.newSession()
    reader = Reader(folder, root.uri, "", "")
    with pytest.MonkeyPatch.context() as patch, ordering(root, epoch=9):
        patch.setattr(SparkSession, "_instantiatedSession", session)
        patch.setenv("LAKEQUEUE_ROOT", root.uri)
        yield Page(session, reader)
        for query in session.streams.active:
            query.stop()
        session.sql("DROP SCHEMA sales CASCADE")


@pytest.mark.parametrize("at", range(len(BLOCKS)), ids=map(str, BLOCKS))
def test_every_block_of_the_page(page: Page, at: int) -> None:
    page.run_to(at)
