"""Anthropic's public wire, as far as the gateway reads it. What it does not read of a block is a hint (caching)."""
