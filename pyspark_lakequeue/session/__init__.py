"""What a session is given: registration, views, large scans, exactly-once results."""
