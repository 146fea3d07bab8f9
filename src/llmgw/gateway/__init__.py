"""The data plane: the process that serves /v1. A master that owns the port, and workers."""
