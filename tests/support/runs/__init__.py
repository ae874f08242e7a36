"""Programs that a test starts and kills: one run of a part, up to a named step."""
