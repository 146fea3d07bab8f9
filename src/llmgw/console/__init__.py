"""Server-rendered pages over the control plane's services; works without internet."""
