# Databricks notebook source
# MAGIC %md
# MAGIC # Produce and consume
# MAGIC The first half sends: keys and headers, what an acknowledgement says, records that are refused,
# MAGIC and several records of which all are stored or none. The second half consumes: members that share
# MAGIC partitions, and workers that share records.
# MAGIC
# MAGIC Run it once on a queue. Its `assert`s count records, and a second run would count those of the first
# MAGIC as well.

# COMMAND ----------

# Runs in Databricks. In the folder of `lakequeue up` it runs as `ipython produce_consume.py`, and in
# Jupyter as `%run produce_consume.py`.
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
admin.create_topic("parcels", partitions=3, max_record_bytes=1_000)
admin.create_topic("invoices", partitions=1)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Send
# MAGIC Records of one key go to one partition, in the order of sending. With `acks="ordered"` the answer
# MAGIC has the offset. The default answers sooner: as soon as the record is durable.

# COMMAND ----------

with Producer(acks="ordered") as producer:
    handles = [
        producer.send(
            "parcels", {"id": n}, key=f"street-{n % 4}", headers={"kind": "large" if n % 3 else "small"}
        )
        for n in range(12)
    ]
    placed = [handle.result(timeout=60) for handle in handles]
rows = [(n, f"street-{n % 4}", done.partition, done.offset) for n, done in enumerate(placed)]
display(spark.createDataFrame(rows, "id int, key string, partition int, offset long"))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Records that are refused, and records that are sent twice
# MAGIC If a record is too large, only that record is refused. If a `message_id` was sent before, no
# MAGIC second record is stored: the answer has the place of the first.

# COMMAND ----------

from lakequeue.errors import LakequeueError

try:
    with Producer() as producer:
        producer.send("parcels", "x" * 2_000)
except LakequeueError as error:
    print(error.code, "-", error.hint)
with Producer(acks="ordered") as producer:
    first, again = (
        producer.send("parcels", {"id": 12}, key="street-0", message_id="parcel-12").result(60)
        for _ in range(2)
    )
print(again.duplicate, (first.partition, first.offset) == (again.partition, again.offset))
assert again.duplicate

# COMMAND ----------

# MAGIC %md
# MAGIC ## Together, or not at all
# MAGIC These records are in several topics and partitions. One version of the log makes all of them
# MAGIC visible.

# COMMAND ----------

with Producer(acks="ordered") as producer, producer.atomic() as batch:
    batch.send("parcels", {"id": 13}, key="street-1")
    batch.send("invoices", {"parcel": 13, "total": 5})
versions = (
    spark.read.format("delta")
    .load(f"{ROOT}/log")
    .where("topic IN ('parcels', 'invoices') AND decode(value, 'UTF-8') LIKE '%13%'")
    .selectExpr("topic", "decode(value, 'UTF-8') value", "_metadata.file_path file")
)
display(versions.drop("file").orderBy("topic"))
assert versions.select("file").distinct().count() == 1

# COMMAND ----------

# MAGIC %md
# MAGIC ## A group whose members share the partitions
# MAGIC The group has two members. Each partition has one owner at a time, and its records come in the
# MAGIC order of their offsets.

# COMMAND ----------

seen = []
with (
    Consumer("parcels", group="vans") as one,
    Consumer("parcels", group="vans") as two,
):
    while len({message.value["id"] for message in seen}) < 14:
        for member in (one, two):
            for message in member.poll(0.1):
                seen.append(message)
                message.ack()
    one.commit(30)
    two.commit(30)
offsets = sorted({(message.partition, message.offset, message.value["id"]) for message in seen})
display(spark.createDataFrame(offsets, "partition int, offset long, id long"))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Workers that share the records
# MAGIC In a queue group each record is acknowledged by itself. Here the first attempt at one record
# MAGIC fails, and the record is delivered again.

# COMMAND ----------

attempts = {}
with Consumer("parcels", group="packers", mode="queue") as worker:
    while len(attempts) < 14 or attempts[7] < 2:
        for message in worker.poll(1.0):
            parcel = message.value["id"]
            attempts[parcel] = message.attempt
            if parcel == 7 and message.attempt == 1:
                message.nack(delay_s=0.1)
            else:
                message.ack()
    worker.commit(30)
print({parcel: count for parcel, count in sorted(attempts.items()) if count > 1})
assert attempts[7] == 2
