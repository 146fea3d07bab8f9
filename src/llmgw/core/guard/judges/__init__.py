"""Judges: how each family is asked, how its answers are read, how it is recognised, and whether it judges at all."""
