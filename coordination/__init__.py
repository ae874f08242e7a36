"""What processes agree on through ZooKeeper. It knows no table and no HTTP."""
