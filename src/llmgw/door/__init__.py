"""One per node: lets gateways of other machines reach the node's engines."""
