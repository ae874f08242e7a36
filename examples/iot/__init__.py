"""Sensors that send readings and controllers that act on them."""
