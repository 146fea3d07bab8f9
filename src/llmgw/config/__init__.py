"""One struct per process, one TOML file; environment for secrets only."""
