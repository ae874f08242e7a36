"""The ingest service: takes records by HTTP, and commits them to its shard of the inbox."""
