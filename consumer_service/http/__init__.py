"""Requests in, answers out. What a call does is in calls/."""
