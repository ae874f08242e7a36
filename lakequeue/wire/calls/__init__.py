"""The shapes of each call, as both sides read and write them."""
