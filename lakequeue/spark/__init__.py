"""For notebooks and Spark jobs: the source and sink `format("lakequeue")`, and SQL views.

Needs the extra `lakequeue[spark]`; `import lakequeue` alone loads none of it.
"""

from __future__ import annotations

from lakequeue.spark.delta_sink import DeltaSink
from lakequeue.spark.records import records
from lakequeue.spark.registration import register
from lakequeue.spark.views import create_views

__all__ = ["DeltaSink", "create_views", "records", "register"]
