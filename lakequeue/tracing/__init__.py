"""Traces: the W3C context of a record, and OpenTelemetry's spans where the program has that."""
