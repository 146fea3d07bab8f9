"""Model files: readers of headers, sources."""
