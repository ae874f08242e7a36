"""What is measured of past hours, and how far back a queue can be taken. No Spark."""
