# Databricks notebook source
# MAGIC %md
# MAGIC # Dead letters: find out why, fix it, send them back
# MAGIC After `max_attempts`, the workers of a queue group give up on a record, and it goes to
# MAGIC `<topic>.dlq`. Here some payments fail. We look at them in SQL, and send each back exactly once.
# MAGIC
# MAGIC Run it once on a queue. Its `assert`s count records, and a second run would count those of the first
# MAGIC as well.

# COMMAND ----------

# Runs in Databricks. In the folder of `lakequeue up` it runs as `ipython dead_letters.py`, and in
# Jupyter as `%run dead_letters.py`.
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
admin.create_topic("payments", partitions=2)
with Producer(acks="ordered") as producer:
    for n in range(20):
        currency = "XXX" if n % 5 == 0 else "EUR"
        producer.send("payments", {"id": n, "currency": currency}, headers={"currency": currency})

# COMMAND ----------

# MAGIC %md
# MAGIC ## A worker that does not know one currency

# COMMAND ----------


def work(known, until):
    """Pay what can be paid; stop when `until` says so."""
    paid = []
    with Consumer(
        "payments", group="pay", mode="queue", max_attempts=2, backoff_ms=100
    ) as consumer:
        while not until(paid):
            for message in consumer.poll(1.0):
                if message.value["currency"] in known:
                    paid.append(message.value["id"])
                    message.ack()
                else:
                    message.nack()
    return sorted(paid)


def dead():
    """How many records the dead-letter topic has (ordered ones)."""
    topics = {topic.topic for topic in admin.topics()}
    if "payments.dlq" not in topics:
        return 0
    frame = spark.read.format("lakequeue").option("root", ROOT).option("subscribe", "payments.dlq")
    return frame.load().count()


paid = work({"EUR"}, lambda so_far: len(so_far) == 16 and dead() == 4)
assert len(paid) == 16

# COMMAND ----------

# MAGIC %md
# MAGIC ## Why did they die?

# COMMAND ----------

import lakequeue.spark

lakequeue.spark.create_views(spark, ROOT, "desk")
display(
    spark.sql(
        """
        SELECT topic, from_partition, from_offset, attempts, reason, value_text
        FROM desk.dead_letters WHERE dead_letter_topic = 'payments.dlq' ORDER BY value_text
        """
    )
)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Send them back
# MAGIC Redrive sends back all of them, or those `Wanted` by headers and times. Each goes back exactly once, even
# MAGIC if you run this several times or stop it in between.

# COMMAND ----------

done = admin.redrive("payments.dlq")
print(done)

# COMMAND ----------

late = work({"EUR", "XXX"}, lambda so_far: len(so_far) == 4)
print(late)
assert late == [0, 5, 10, 15]
