"""What is written onto machines: configuration of the parts around llmgw, as pure functions from values to text."""
