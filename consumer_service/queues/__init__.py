"""Queue groups: polls, receipts, dead letters. The rules are in queue_rules/queues."""
