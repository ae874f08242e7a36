"""What supports the tests: no test lives here, and nothing of it is installed."""
