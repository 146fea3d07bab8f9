"""Anthropic's messages, put into a chat's words and back. Pure."""
