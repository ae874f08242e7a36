"""Runs the whole queue on one machine: ZooKeeper, the two services and the Spark driver."""
