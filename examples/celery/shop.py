"""Sells a few things: `python -m examples.celery.shop [orders]`."""

from __future__ import annotations

import sys

from examples.celery.tasks import charge, remind


def main(orders: int) -> None:
    """One task to charge and one to remind for each order."""
    for order in range(1, orders + 1):
        charge.delay(order, cents=995 + order)
        remind.apply_async((order,), countdown=3)
    print(f"{orders} orders")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 6)
