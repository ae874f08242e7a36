"""The client: producers, consumers and administration, over HTTP. Services do not use it."""
