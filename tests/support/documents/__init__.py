"""The code of the documents: what stands there, and how it is run against a queue."""
