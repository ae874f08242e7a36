"""The rules of the queue as pure functions, for services and memory queue. No I/O, no clock."""
