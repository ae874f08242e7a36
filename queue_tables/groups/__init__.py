"""What groups have done with records: facts, their fold, and reading both back. No ZooKeeper."""
