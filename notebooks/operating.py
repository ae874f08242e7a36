# Databricks notebook source
# MAGIC %md
# MAGIC # Operating the jobs: retention, compaction, erasing
# MAGIC A job runs once and ends, beside a running queue. If it is killed, start it again. With
# MAGIC `--dry-run` it only says what it would do. After a run it reports what it did. `lakequeue up` runs
# MAGIC retention and compaction by itself; here we run them by hand.
# MAGIC
# MAGIC Run it once on a queue. Its `assert`s count records, and a second run would count those of the first
# MAGIC as well.

# COMMAND ----------

# Runs in Databricks. In the folder of `lakequeue up` it runs as `ipython operating.py`, and in
# Jupyter as `%run operating.py`.
# LAKEQUEUE_ROOT names a queue elsewhere; on another machine LAKEQUEUE_INGEST__URL and
# LAKEQUEUE_CONSUMER__URL name its services.
import os

import lakequeue.spark

ROOT = os.environ.get("LAKEQUEUE_ROOT", "lakequeue-data")
spark = lakequeue.spark.session()
spark.conf.set("spark.sql.repl.eagerEval.enabled", True)  # Jupyter's `display` shows the rows

# COMMAND ----------

import json
import subprocess
import sys

from lakequeue import Admin, Producer


def run(*command):
    """The report of a command. If the command fails, its error."""
    done = subprocess.run([sys.executable, "-P", "-m", *command, "--root", ROOT, "--json"], capture_output=True)
    if done.returncode:
        raise RuntimeError(f"exit code {done.returncode}: {done.stderr.decode()}")
    return json.loads(done.stdout)


admin = Admin()
admin.create_topic("letters", partitions=2, retention_ms=7 * 86_400_000)
with Producer(acks="ordered") as producer:
    for n in range(60):
        who = "alice" if n % 20 == 0 else f"customer-{n}"
        producer.send("letters", {"from": who, "text": "…"}, key=who)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Retention
# MAGIC Retention removes whole hours that are over, but no record that a live group has not consumed.
# MAGIC These records came just now, so none is removed.

# COMMAND ----------

report = run("jobs.retention", "--dry-run")
print(json.dumps(report, indent=1))
assert report["dry_run"]

# COMMAND ----------

# MAGIC %md
# MAGIC ## Compaction
# MAGIC Compaction merges the small files of hours that are over, and deletes files that no version needs.
# MAGIC It writes a checkpoint of every table, and removes the commits before it. Readers notice nothing.

# COMMAND ----------

table = spark.read.format("delta").load(f"{ROOT}/log").where("topic = 'letters'")
before = table.count()
report = run("jobs.compaction", "--target-mb", "64")
print(json.dumps({part: report[part] for part in ("job", "log", "vacuum")}, indent=1))
assert table.count() == before == 60

# COMMAND ----------

# MAGIC %md
# MAGIC ## Erasing
# MAGIC Alice asks to be forgotten. The dry run counts her records. The real run erases them everywhere:
# MAGIC in `log`, among dead letters and refused copies, and in the inbox. Then everything is read once
# MAGIC more: `left` says how many of her records were found.

# COMMAND ----------

erase = ("lakequeue_cli.app", "erase", "letters", "--where", "key = 'alice'", "--yes")
found = run(*erase, "--dry-run")
print("would be erased:", found["records"], "records")
report = run(*erase, "--delete-now")
print("erased:", report["records"], "left:", report["left"]["records"], "old files:", report["old_files"])
assert (found["records"], report["records"], report["left"]["records"]) == (3, 3, 0)

# COMMAND ----------

# MAGIC %md
# MAGIC A tombstone stays at each offset, so for readers and positions nothing changes.

# COMMAND ----------

records = (
    spark.read.format("lakequeue")
    .option("root", ROOT)
    .option("subscribe", "letters")
    .option("includeHeaders", "true")
    .load()
)
erased = records.where("value IS NULL")
display(erased.selectExpr("topic", "key", "value", "headers[0].key AS header").distinct())
assert (records.count(), erased.count()) == (60, 3)
assert records.where("decode(value, 'UTF-8') LIKE '%alice%'").count() == 0
