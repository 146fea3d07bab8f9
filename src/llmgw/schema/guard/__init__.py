"""Guardrails: policies, their rules, verdicts, and the record of what was covered."""
