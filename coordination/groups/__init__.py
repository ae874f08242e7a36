"""What is agreed on about groups: members, leases, who consumes what, pauses, webhooks."""
