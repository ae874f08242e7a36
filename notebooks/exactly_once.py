# Databricks notebook source
# MAGIC %md
# MAGIC # Exactly once into a Delta table
# MAGIC A stream counts clicks into a table. Then its checkpoint is lost. Still nothing is counted twice,
# MAGIC because the table itself says which records it has counted.
# MAGIC
# MAGIC Run it once on a queue. Its `assert`s count records, and a second run would count those of the first
# MAGIC as well.

# COMMAND ----------

# Runs in Databricks. In the folder of `lakequeue up` it runs as `ipython exactly_once.py`, and in
# Jupyter as `%run exactly_once.py`.
# LAKEQUEUE_ROOT names a queue elsewhere; on another machine LAKEQUEUE_INGEST__URL and
# LAKEQUEUE_CONSUMER__URL name its services.
import os

import lakequeue.spark

ROOT = os.environ.get("LAKEQUEUE_ROOT", "lakequeue-data")
spark = lakequeue.spark.session()
spark.conf.set("spark.sql.repl.eagerEval.enabled", True)  # Jupyter's `display` shows the rows

# COMMAND ----------

import tempfile

from lakequeue import Admin, Producer

folder = tempfile.mkdtemp()
Admin().create_topic("clicks", partitions=2)


def click(count):
    """Send some clicks, and wait until they have their offsets."""
    with Producer(acks="ordered") as producer:
        for n in range(count):
            producer.send("clicks", {"page": f"/{n % 3}"})


click(30)

# COMMAND ----------

import lakequeue.spark
from lakequeue.spark import DeltaSink


def per_page(records):
    """The rows to append for one micro-batch."""
    page = "get_json_object(cast(value AS string), '$.page') AS page"
    return records.selectExpr(page).groupBy("page").count()


def run(checkpoint):
    """Count all records that are there now, then stop."""
    stream = (
        spark.readStream.format("lakequeue")
        .option("root", ROOT)
        .option("subscribe", "clicks")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 20)
        .load()
    )
    sink = DeltaSink(ROOT, f"{folder}/pages", group="pages", transform=per_page)
    query = (
        stream.writeStream.foreachBatch(sink)
        .option("checkpointLocation", f"{folder}/{checkpoint}")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


run("checkpoint")

# COMMAND ----------

# MAGIC %md
# MAGIC ## The checkpoint is lost
# MAGIC A new checkpoint starts at the earliest record.

# COMMAND ----------

click(15)
run("another-checkpoint")
pages = spark.read.format("delta").load(f"{folder}/pages").groupBy("page").sum("count")
display(pages.orderBy("page"))
assert [row["sum(count)"] for row in pages.collect()] == [15, 15, 15]
