"""One call to a service: which node, how often again, with blocking I/O or asyncio."""
