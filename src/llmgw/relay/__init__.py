"""HTTP/1.1 at Protocol level: server side, upstream pools, verbatim forwarding, hard limits. The hot path."""
