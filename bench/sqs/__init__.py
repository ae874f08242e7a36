"""The SQS gateway, ElasticMQ and moto's server under one load.

The load is raw HTTP: an SDK would cost more than a server.
"""
