"""For notebooks and Spark jobs: the source and sink `format("lakequeue")`, and SQL views.

Needs the extra `lakequeue[spark]`; `import lakequeue` alone loads none of it.
"""

from __future__ import annotations

from lakequeue.extras import brought_by

with brought_by("spark"):
    from pyspark_lakequeue.session.delta_sink import DeltaSink
    from pyspark_lakequeue.session.local_session import session
    from pyspark_lakequeue.session.progress import offsets_behind_latest
    from pyspark_lakequeue.session.records import records
    from pyspark_lakequeue.session.registration import register
    from pyspark_lakequeue.session.views import create_views

__all__ = [
    "DeltaSink",
    "create_views",
    "offsets_behind_latest",
    "records",
    "register",
    "session",
]
