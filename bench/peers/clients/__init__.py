"""Lives here: what sends to each system and receives; in processes of its own, in .venv/peers."""
