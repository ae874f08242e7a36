"""How requests of SQS are written, and their answers: JSON, the query protocol, signatures."""
