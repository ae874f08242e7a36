"""Processes of ours: how they start, what they log, with whom they end, which Java they use."""
