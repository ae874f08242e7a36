"""Makes `format("lakequeue")` known to a session, its frames new and its large scans quick."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql.session import SparkSession as ClassicSession

from pyspark_lakequeue import DefaultSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession, name: str = "lakequeue", *, native: bool = True) -> str:
    """Make `format("lakequeue")` known to a session.

    If Spark has found the package `pyspark_lakequeue` by itself, "lakequeue" is known already.
    Give streams that start at the same moment a name each: Spark keeps one map of environment
    variables for a Python source, and two queries that fill it at once can corrupt it (seen in
    Spark 4.2 as `java.io.OptionalDataException` in every task).

    Args:
        spark: The session.
        name: The name for `format`. Each call with another name registers another class.
        native: Let each action on a frame of `spark.read` show what has come since, and let Spark
            read the files itself if a batch wants most of the log (that needs Delta Lake in the
            session). If not, `spark.read` is left alone.

    Returns:
        The name.

    Example:
        spark.read.format(register(spark)).option("root", root).option("subscribe", "orders").load()
    """
    if not _has_found(spark, name):
        source = type("LakequeueSource", (DefaultSource,), {"name": classmethod(lambda _: name)})
        try:
            spark.dataSource.register(source)
        except AnalysisException as error:
            if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
                raise
    # A client of Spark Connect need not reach the root, nor have what a session with a JVM has.
    if native and isinstance(spark, ClassicSession):
        from pyspark_lakequeue.session.native_reader import read_natively

        read_natively(spark, name)
    return name


def _has_found(spark: SparkSession, name: str) -> bool:
    """Whether Spark has found the package by itself.

    A source that is registered over it works as well, but Spark warns of that, also at the start
    of every stream.
    """
    if name.lower() != DefaultSource.name() or not isinstance(spark, ClassicSession):
        return False
    # A client of Spark Connect alone has none.
    from py4j.protocol import Py4JError

    try:
        state = spark._jsparkSession.sessionState()  # noqa: SLF001 -- PySpark has no call for it
        found: bool = state.dataSourceManager().dataSourceExists(name)
    except Py4JError:
        return False  # a Spark of somebody else's making may have it elsewhere
    return found
