"""What is measured of past hours, how far back a queue can go, what order waits for. No Spark."""
