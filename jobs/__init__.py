"""What is run beside the services, one module a job. What a job consists of is in the rooms."""
