"""The newest records of the log, in memory and as bytes of an answer. Knows no group."""
