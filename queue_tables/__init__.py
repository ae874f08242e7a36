"""The tables of a queue: declared, written and read here. No HTTP, no ZooKeeper, no Spark."""
