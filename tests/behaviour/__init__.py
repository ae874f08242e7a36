"""What users rely on, said once and asked of both: the in-memory queue and the real services."""
