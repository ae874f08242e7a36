"""What values a topic takes: JSON Schema, Avro, Protobuf, and what judging them costs. Pure."""
