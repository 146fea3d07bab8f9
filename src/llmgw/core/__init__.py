"""Decisions: pure functions over immutable values. No I/O, no clock, no randomness, no logging."""
