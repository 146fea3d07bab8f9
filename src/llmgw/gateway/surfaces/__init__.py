"""One module per API: what it reads of a request, and whom it may ask."""
