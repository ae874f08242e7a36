"""A queue in memory for users' tests: the real client, the rules of the services, no I/O."""
