# Databricks notebook source
# MAGIC %md
# MAGIC # SQL over a live queue
# MAGIC The queue runs on its tables, so a query sees what the services see. Here we query while new
# MAGIC records come in. We look at the records, at groups that are behind, at the records that workers
# MAGIC hold, and at what became of one record.
# MAGIC
# MAGIC Run it once on a queue. Its `assert`s count records, and a second run would count those of the first
# MAGIC as well.

# COMMAND ----------

# Runs in Databricks. In the folder of `lakequeue up` it runs as `ipython sql_live.py`, and in
# Jupyter as `%run sql_live.py`.
# LAKEQUEUE_ROOT names a queue elsewhere; on another machine LAKEQUEUE_INGEST__URL and
# LAKEQUEUE_CONSUMER__URL name its services.
import os

import lakequeue.spark

ROOT = os.environ.get("LAKEQUEUE_ROOT", "lakequeue-data")
spark = lakequeue.spark.session()
spark.conf.set("spark.sql.repl.eagerEval.enabled", True)  # Jupyter's `display` shows the rows

# COMMAND ----------

import threading
import time

import lakequeue.spark
from lakequeue import Admin, Consumer, Producer

admin = Admin()
admin.create_topic("sales", partitions=2)
lakequeue.spark.create_views(spark, ROOT, "live")
enough = threading.Event()


def sell(producer, n):
    """One sale."""
    sale = {"id": n, "total": (n * 7) % 50, "lines": [{"sku": f"s{n % 3}"}]}
    producer.send("sales", sale, key=f"shop-{n % 4}", message_id=f"sale-{n}")


def keep_selling():
    """Two sales a second, until it is enough."""
    with Producer() as producer:
        n = 40
        while not enough.wait(0.5):
            sell(producer, n)
            n += 1


with Producer(acks="ordered") as producer:
    for n in range(40):
        sell(producer, n)
till = threading.Thread(target=keep_selling, daemon=True)
till.start()

# COMMAND ----------

# MAGIC %md
# MAGIC ## Records, and more of them a moment later
# MAGIC `value_json` is a VARIANT: no schema is needed to look into it.

# COMMAND ----------

with Consumer("sales", group="turnover") as consumer:
    taken = set()
    while len(taken) < 20:
        for message in consumer.poll(5.0, 20 - len(taken)):
            message.ack()
            taken.add((message.partition, message.offset))  # a record may come twice
    consumer.commit(30)
worker = Consumer("sales", group="returns", mode="queue", max_in_flight=3)
held = []
while len(held) < 3:
    held += worker.poll(1.0)


def until(sql, holds):
    """Ask until `holds` is true of the rows, for a minute at most."""
    end = time.monotonic() + 60
    while not holds(rows := spark.sql(sql).collect()):
        assert time.monotonic() < end, rows


def count():
    """How many sales are ordered by now."""
    return spark.sql("SELECT count(*) FROM live.records WHERE topic = 'sales'").head()[0]


before = count()
display(
    spark.sql(
        """
        SELECT key_text AS shop, value_json:id::int AS id, value_json:total::int AS total,
               value_json:lines[0].sku::string AS sku
        FROM live.records WHERE topic = 'sales' AND value_json:id::int < 40 AND value_json:total::int > 44
        ORDER BY id
        """
    )
)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Which group is behind, and with which records
# MAGIC A position is in the tables some seconds after the acknowledgement (the offsets job folds it). The
# MAGIC stream group has acknowledged twenty records. `backlog(group)` has the remaining records as rows.
# MAGIC So you can sum, join and search the backlog before anybody works on it.

# COMMAND ----------

behind = "SELECT sum(committed_offset) done, sum(lag) > 0 behind FROM live.lag WHERE `group` = 'turnover'"
until(behind, lambda rows: rows[0].done == 20)
display(spark.sql(behind))
display(
    spark.sql(
        """
        SELECT key_text AS shop, count(*) > 0 AS waits, min(value_json:total::int) AS least
        FROM (SELECT key_text, try_parse_json(value_text) value_json FROM live.backlog('turnover'))
        GROUP BY key_text ORDER BY key_text
        """
    )
)

# COMMAND ----------

# MAGIC %md
# MAGIC ## What workers hold
# MAGIC A worker of the queue group `returns` has taken three records, and has acknowledged none of them
# MAGIC yet.

# COMMAND ----------

until("SELECT * FROM live.in_flight('returns')", lambda rows: len(rows) == 3)
display(
    spark.sql("SELECT topic, attempt, count(*) held FROM live.in_flight('returns') GROUP BY topic, attempt")
)
one = held[0]
one.ack()
worker.commit(30)

# COMMAND ----------

# MAGIC %md
# MAGIC ## What became of one record
# MAGIC If you know the place of a record, there is one row for each group. If you know its message id,
# MAGIC you see whether it was ordered, or why not.

# COMMAND ----------

place = f"topic = 'sales' AND `partition` = {one.partition} AND `offset` = {one.offset}"
status = f"SELECT `group`, status FROM live.record_status WHERE {place} AND `group` = 'returns'"
until(status, lambda rows: rows[0].status == "acked")
display(spark.sql(status))
with Producer(acks="ordered") as producer:
    producer.send("sales", {"id": 0}, key="shop-0", message_id="sale-0").result(60)
display(
    spark.sql(
        "SELECT status, count(*) FROM live.message_status WHERE message_id = 'sale-0' GROUP BY status ORDER BY 1"
    )
)

# COMMAND ----------

enough.set()
till.join()
worker.close()
after = count()
print("more came while this ran:", after > before >= 40)
assert after > before >= 40
