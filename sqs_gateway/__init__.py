"""The SQS gateway: speaks the protocol of Amazon SQS, and asks the queue's services by HTTP.

It holds nothing that must last, so any number of gateways are equal. Nothing below knows of it.
"""
