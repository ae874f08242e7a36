"""The session with ZooKeeper and what any process builds on it: leaders, nodes, notifications."""
