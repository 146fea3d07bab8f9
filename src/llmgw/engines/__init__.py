"""One file per engine: command line, environment, readiness, progress, metric names, failure words."""
