"""Guardrails in a worker: which rules apply to a request, who is asked, and what the client gets."""
