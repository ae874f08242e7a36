"""ZooKeeper: leases, epochs, election, membership, bells. The only importer of kazoo."""
