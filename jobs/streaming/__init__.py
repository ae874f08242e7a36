"""A streaming query over shards that works only while its job leads, and who watches it."""
