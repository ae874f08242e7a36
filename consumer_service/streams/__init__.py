"""Stream groups: polls and acknowledgements. The rules are in queue_rules/streams."""
