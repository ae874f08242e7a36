"""The order job: from a batch of rows to one commit of the log."""
