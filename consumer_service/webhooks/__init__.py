"""Webhooks: records of queue groups, posted to a URL."""
