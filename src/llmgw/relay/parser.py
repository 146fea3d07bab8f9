"""Strict parsing of both directions, on llhttp. No I/O here."""
