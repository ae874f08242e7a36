"""What HTTP costs: many clients, slow clients, hostile clients."""
