# Databricks notebook source
# MAGIC %md
# MAGIC # Lag and backlog, with plots
# MAGIC The table `log` says when each record was ordered. The journals say when it was acknowledged. So a
# MAGIC query can show the backlog of a group at any moment of the past, and nobody has to measure it at
# MAGIC the time.
# MAGIC
# MAGIC Run it once on a queue. Its `assert`s count records, and a second run would count those of the first
# MAGIC as well.

# COMMAND ----------

# Runs in Databricks. In the folder of `lakequeue up` it runs as `ipython lag_plots.py`, and in
# Jupyter as `%run lag_plots.py`.
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
admin.create_topic("tickets", partitions=3)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Make a backlog
# MAGIC We send six waves of tickets. The desk falls behind in the first three, and then catches up.

# COMMAND ----------

sent, done = [60, 60, 60, 20, 20, 20], [20, 20, 20, 60, 60, 40]
with (
    Producer(acks="ordered") as producer,
    Consumer("tickets", group="desk") as consumer,
):
    for wave, (more, less) in enumerate(zip(sent, done)):
        for n in range(more):
            producer.send("tickets", {"wave": wave, "n": n}, key=f"caller-{n % 30}")
        producer.flush(60)
        while less:
            for message in consumer.poll(5.0, less):
                message.ack()
                less -= 1
        consumer.commit(30)
print("behind by", sum(place.lag for place in admin.group("desk").partitions))

# COMMAND ----------

# MAGIC %md
# MAGIC ## The backlog over time

# COMMAND ----------

import lakequeue.spark

lakequeue.spark.create_views(spark, ROOT, "desk")
moves = spark.sql(
    """
    SELECT unix_micros(ordered_at) AS at, 1 AS ordered, 0 AS acked
    FROM desk.records WHERE topic = 'tickets'
    UNION ALL
    SELECT unix_micros(acked_at), 0, to_offset - coalesce(from_offset, 0)
    FROM desk.who_acked_what WHERE topic = 'tickets' AND `group` = 'desk'
    ORDER BY at
    """
).toPandas()
seconds = (moves["at"] - moves["at"].min()) / 1e6
ordered, acked = moves["ordered"].cumsum(), moves["acked"].cumsum()
print(f"{ordered.max()} ordered, {acked.max()} acknowledged, at most {(ordered - acked).max()} behind")
assert (ordered.max(), acked.max()) == (240, 220)

# COMMAND ----------

from matplotlib.figure import Figure

figure = Figure(figsize=(7, 3), layout="constrained")
axes = figure.subplots()
axes.step(seconds, ordered, where="post", label="ordered")
axes.step(seconds, acked, where="post", label="acknowledged by desk")
axes.fill_between(seconds, acked, ordered, step="post", alpha=0.2, label="backlog")
axes.set_xlabel("seconds")
axes.set_ylabel("records")
axes.legend()
display(figure)

# COMMAND ----------

# MAGIC %md
# MAGIC ## How long records wait
# MAGIC For each record: the time from being ordered to being acknowledged. The two are joined by offsets.

# COMMAND ----------

waits = spark.sql(
    """
    SELECT (unix_micros(a.acked_at) - unix_micros(r.ordered_at)) / 1e6 AS wait
    FROM desk.records r JOIN desk.who_acked_what a
      ON a.topic_id = r.topic_id AND a.`partition` = r.`partition`
     AND r.`offset` >= coalesce(a.from_offset, 0) AND r.`offset` < a.to_offset
    WHERE r.topic = 'tickets' AND a.`group` = 'desk'
    """
).toPandas()["wait"]
figure = Figure(figsize=(7, 2.5), layout="constrained")
axes = figure.subplots()
axes.hist(waits, bins=20)
axes.set_xlabel("seconds between ordered and acknowledged")
axes.set_ylabel("records")
display(figure)
assert len(waits) == 220

# COMMAND ----------

# MAGIC %md
# MAGIC ## The lag now, by partition
# MAGIC The consumer service knows the lag without reading the tables.

# COMMAND ----------

lags = {place.partition: place.lag for place in admin.group("desk").partitions}
figure = Figure(figsize=(7, 2), layout="constrained")
axes = figure.subplots()
axes.barh([f"partition {partition}" for partition in lags], lags.values())
axes.set_xlabel("records behind")
display(figure)
assert sum(lags.values()) == 20
