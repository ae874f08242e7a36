# Databricks notebook source
# MAGIC %md
# MAGIC # Replay, and a group that gets only some of the records
# MAGIC Records stay in the queue after they are consumed. So a group can go back and read them again.
# MAGIC Another group can read only the records that match an SQL predicate. Nothing is copied for that.
# MAGIC
# MAGIC Run it once on a queue. Its `assert`s count records, and a second run would count those of the first
# MAGIC as well.

# COMMAND ----------

# Runs in Databricks. In the folder of `lakequeue up` it runs as `ipython replay.py`, and in
# Jupyter as `%run replay.py`.
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
admin.create_topic("trips", partitions=2)
with Producer(acks="ordered") as producer:
    for n in range(24):
        kind = "refund" if n % 8 == 0 else "sale"
        producer.send("trips", {"id": n}, key=f"car-{n % 4}", headers={"kind": kind})


def consume(group, count, **options):
    """The ids of the next `count` records of a group, acknowledged."""
    found = []
    with Consumer("trips", group=group, **options) as consumer:
        for message in consumer:
            found.append(message.value["id"])
            message.ack()
            if len(found) == count:
                return sorted(found)


assert consume("audit", 24) == list(range(24))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Read everything once more
# MAGIC The group must have no members. `dry_run=True` only shows what would move.

# COMMAND ----------

moved = admin.seek("audit", "earliest")
for partition in moved.partitions:
    print(partition)
assert consume("audit", 24) == list(range(24))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Refunds only

# COMMAND ----------

refunds = consume("refunds", 3, predicate="headers['kind'] = 'refund'")
print(refunds)
assert refunds == [0, 8, 16]
