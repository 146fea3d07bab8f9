"""One per node: discovery, engines, weights, reports."""
