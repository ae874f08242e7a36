"""Asks services and tables, within a time limit each. Knows no page."""
