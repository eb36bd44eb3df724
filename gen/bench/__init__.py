"""Timing kernels on a card: graph replays over rotating inputs, beside baselines and the card's limits."""
