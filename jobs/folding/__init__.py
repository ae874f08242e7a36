"""The offsets job: from facts in the journals to the state of groups."""
