"""The llmgw command: loads one process, lazily."""
