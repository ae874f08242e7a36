"""Predicates: which records a group, a command or an erasure is about."""
