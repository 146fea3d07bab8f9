"""Guardrails as pure functions: which rules apply, what they find, what judges are asked, and what follows."""
