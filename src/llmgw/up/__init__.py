"""Everything on one machine: the supervisor behind llmgw up and llmgw down."""
