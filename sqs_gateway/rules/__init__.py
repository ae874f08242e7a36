"""What SQS says of names, messages, attributes, receipts and errors. Pure: no I/O here."""
