"""Thin, durable, ordered ingest over HTTP."""
