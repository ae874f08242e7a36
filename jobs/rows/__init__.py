"""Rows as Spark carries them: this runs in Spark's Python workers."""
