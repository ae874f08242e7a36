# Databricks notebook source
# MAGIC %md
# MAGIC # Quick start
# MAGIC Send records, consume them in a group, and query the same records as a table while the queue runs.
# MAGIC The services are those of `lakequeue up`, found by its folder.
# MAGIC
# MAGIC Run it once on a queue. Its `assert`s count records, and a second run would count those of the first
# MAGIC as well.

# COMMAND ----------

# Runs in Databricks. In the folder of `lakequeue up` it runs as `ipython quick_start.py`, and in
# Jupyter as `%run quick_start.py`.
# LAKEQUEUE_ROOT names a queue elsewhere; on another machine LAKEQUEUE_INGEST__URL and
# LAKEQUEUE_CONSUMER__URL name its services.
import os

import lakequeue.spark

ROOT = os.environ.get("LAKEQUEUE_ROOT", "lakequeue-data")
spark = lakequeue.spark.session()
spark.conf.set("spark.sql.repl.eagerEval.enabled", True)  # Jupyter's `display` shows the rows

# COMMAND ----------

from lakequeue import Admin, Consumer, Producer

admin = Admin()
admin.create_topic("first_orders", partitions=2)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Send
# MAGIC `acks="ordered"` waits until the records have their offsets.

# COMMAND ----------

with Producer(acks="ordered") as producer:
    sent = [
        producer.send("first_orders", {"id": n, "total": 10 * n}, key=f"customer-{n % 5}")
        for n in range(12)
    ]
    placed = [handle.result(timeout=60) for handle in sent]
rows = [(record.partition, record.offset) for record in placed]
display(spark.createDataFrame(rows, "partition int, offset long"))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Consume
# MAGIC A group reads each partition in order. `ack` commits its position.

# COMMAND ----------

totals = {}
with Consumer("first_orders", group="billing") as consumer:
    for message in consumer:
        totals[message.key] = totals.get(message.key, 0) + message.value["total"]
        message.ack()
        if sum(totals.values()) == 660:
            break
display(spark.createDataFrame(sorted(totals.items()), "customer string, total int"))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Query
# MAGIC The queue is a set of Delta tables. `create_views` makes views of them, with names and types.

# COMMAND ----------

import lakequeue.spark

lakequeue.spark.create_views(spark, ROOT, "sales")
display(
    spark.sql(
        """
        SELECT key_text AS customer, count(*) AS orders
        FROM sales.records WHERE topic = 'first_orders' GROUP BY key_text ORDER BY key_text
        """
    )
)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Read with Spark
# MAGIC `format("lakequeue")` has the same options and columns as `format("kafka")`.

# COMMAND ----------

orders = spark.read.format("lakequeue").option("root", ROOT).option("subscribe", "first_orders").load()
texts = orders.selectExpr("partition", "offset", "cast(value AS string) value")
display(texts.orderBy("partition", "offset"))
assert orders.count() == 12
