"""One file an export format."""
