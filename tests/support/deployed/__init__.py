"""What is installed or deployed, as a test reads it: the wheel, the bundle, its schedules."""
