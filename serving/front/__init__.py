"""What carries HTTP in both services: connections, deadlines, budgets, shares, calls that wait.

Knows neither records nor groups: a service gives it a Flask application, and names the calls that
are answered without it. Nothing else may live here.
"""
