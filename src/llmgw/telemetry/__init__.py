"""Logs, metrics (every metric in one table), health warnings."""
