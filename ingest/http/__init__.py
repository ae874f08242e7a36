"""Requests in, answers out: the calls of a node and the bodies they take. Knows no table."""
