"""Predicates of groups: which records of the history a group is about."""
