# Databricks notebook source
# Written for Kafka; the test changes the next two lines and nothing else.
FORMAT = "kafka"
SERVER = ("kafka.bootstrap.servers", "localhost:9092")

# COMMAND ----------

orders = spark.range(0, 200, 1, 1).selectExpr(
    "concat('customer-', id % 17) AS key",
    "to_json(struct(id, id * 2 AS total)) AS value",
    "if(id % 50 = 0, array(struct('trace' AS key, cast(concat('t', id) AS binary) AS value)), null)"
    " AS headers",
)
orders.write.format(FORMAT).option(*SERVER).option("topic", "orders").option(
    "includeHeaders", "true"
).mode("append").save()

# COMMAND ----------

everything = (
    spark.read.format(FORMAT)
    .option(*SERVER)
    .option("subscribe", "orders")
    .option("includeHeaders", "true")
    .load()
)
show("schema", everything.schema.jsonValue())
show("everything", everything.drop("timestamp"))

# COMMAND ----------

part = (
    spark.read.format(FORMAT)
    .option(*SERVER)
    .option("assign", '{"orders": [0, 2]}')
    .option("startingOffsets", '{"orders": {"0": 3, "2": -2}}')
    .option("endingOffsets", '{"orders": {"0": 11, "2": -1}}')
    .option("minPartitions", "5")
    .load()
)
show("part", part.drop("timestamp"))

# COMMAND ----------

stream = (
    spark.readStream.format(FORMAT)
    .option(*SERVER)
    .option("subscribePattern", "ord.*")
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", "90")
    .load()
)

copy = (
    stream.select("key", "value")
    .writeStream.format(FORMAT)
    .option(*SERVER)
    .option("topic", "copy")
    .option("checkpointLocation", f"{folder}/copy")
    .trigger(availableNow=True)
    .start()
)
copy.awaitTermination()
show("batches", [progress["numInputRows"] for progress in copy.recentProgress])

# COMMAND ----------

copied = spark.read.format(FORMAT).option(*SERVER).option("subscribe", "copy").load()
show("copied", copied.selectExpr("cast(key AS string) key", "cast(value AS string) value"))

# COMMAND ----------

wrong = {
    "none of the three": {},
    "two of the three": {"subscribe": "orders", "assign": '{"orders": [0]}'},
    "latest start": {"subscribe": "orders", "startingOffsets": "latest"},
    "earliest end": {"subscribe": "orders", "endingOffsets": "earliest"},
    "not all partitions": {"subscribe": "orders", "startingOffsets": '{"orders": {"0": 0}}'},
    "no partitions wished": {"subscribe": "orders", "minPartitions": "0"},
    "no json": {"assign": "orders"},
}
for name, options in wrong.items():
    refused = spark.read.format(FORMAT).option(*SERVER).options(**options)
    try:
        refused.load().count()
        show(name, "taken")
    except Exception:
        show(name, "refused")
