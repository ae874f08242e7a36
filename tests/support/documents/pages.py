"""The documents whose blocks are run, each with what it takes for granted."""

from __future__ import annotations

_RECORDS = """
from lakequeue import Admin, Consumer, Producer

admin = Admin()
admin.create_topic("orders", if_not_exists=True)
with Producer(acks="ordered") as producer:
    for n in range(250):
        producer.send("orders", {"id": n, "total": float(n)}, key=f"customer-{n}")
"""
_DEAD = """
admin.create_topic("orders.dlq", if_not_exists=True)
if not admin.dead_letters("orders.dlq"):
    with Consumer("orders", group="dies", mode="queue", max_attempts=1) as worker:
        for message in worker.poll(30, max_records=1):
            message.nack()
        worker.commit()
"""
PAGES = {
    "docs/sdk.md": _RECORDS
    + """
import pathlib
pathlib.Path("input").write_text("one\\ntwo\\n")
admin.create_topic("out")
admin.create_topic("lines")
class MailServerBusy(Exception): ...
def send_mail(order): assert order
""",
    "docs/coming-from.md": """
from lakequeue import Admin, Producer
Admin().create_topic("mails")
with Producer() as producer:
    producer.send("mails", {"to": "ada"})
def send_mail(to): assert to == "ada"
""",
    "docs/delivery-modes.md": _RECORDS
    + """
import pyarrow as pa
from deltalake import DeltaTable
DeltaTable.create("/data/report", pa.schema([("total", pa.float64())]))
admin.create_topic("enriched")
def process(message): assert message.value
def enrich(order): return order | {"rich": True}
""",
    "docs/testing.md": "",
    "docs/http-ingest.md": "",
    "docs/http-consumer.md": _RECORDS + _DEAD,
    "docs/queues.md": "",
    "docs/operations.md": _RECORDS + _DEAD,
    "docs/security.md": "",
    "examples/celery/README.md": "",
    "examples/iot/README.md": "",
}
"""Run on plain services; the value is run before the page."""
WITH_SPARK = ("README.md", "docs/tutorial.md")
"""Run on a queue of `lakequeue up`."""
SPARK_PAGE = "docs/spark.md"
"""Run in the Spark session of the tests, on a root: `tests/integration/spark/test_page.py`."""
FOR_SPARK = """
import tempfile

class Fresh:
    # The page has one name for the checkpoints of several streams: each gets its own.
    def __str__(self):
        return tempfile.mkdtemp()

checkpoint = Fresh()
spark.sql("CREATE SCHEMA IF NOT EXISTS sales")
sales = spark.range(5).selectExpr("id", "2 * id AS total")
lines = spark.readStream.format("lakequeue").options(
    root=root, subscribe="lines", startingOffsets="earliest"
)
stream = lines.load().selectExpr("CAST(value AS string) AS value")
counts = stream.groupBy("value").count().selectExpr("to_json(struct(*)) AS value")
query = stream.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
query.processAllAvailable()
"""
"""What it takes for granted: beside these a session `spark`, and a `root` with its topics."""
