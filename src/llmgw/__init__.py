"""llmgw: one address for the language models on a group of machines."""
