"""The page to look at: is it moving, who owns what, how far behind, what is stuck.

Stands above the services and beside the command line: it talks to the services by HTTP, with the
key of whoever looks, and reads tables through `queue_tables`. None of them knows it.
"""
