"""Processes of services that start without importing what they consist of."""
