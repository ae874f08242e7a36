"""Real services that a test starts: nodes, ZooKeeper, S3, Prometheus, endpoints."""
