"""How long the slot of a request that was given up stays taken."""

LINGER_S = 120.0
"""Longest time the slot of a request whose client left counts as busy. llama.cpp is told at once, but ends a prompt
only between batches, beside other work only at its end: the slot is free once the engine closes the connection."""
