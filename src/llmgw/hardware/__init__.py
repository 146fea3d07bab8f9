"""What a machine has: processors, memory, mounts, processes. Parsers are pure functions over text."""
