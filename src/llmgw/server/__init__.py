"""The control plane: API, console, agent server, reconciler."""
