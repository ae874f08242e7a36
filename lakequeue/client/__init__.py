"""The client: producers, consumers and administration, over HTTP.

Every protocol here is a *script*: a generator that yields what it wants done (an HTTP request, a
wait) and is told the outcome. A script does no I/O and reads no clock of its own, so the blocking
client and its async twin run the very same one, each with its own small driver.
"""
