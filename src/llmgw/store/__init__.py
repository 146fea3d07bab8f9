"""The database: SQLite by default, and a memory store for tests. One contract suite over all of them."""
