"""What clients that are not boto3 do; each runs in `.venv/clients`, and prints what it was told."""
