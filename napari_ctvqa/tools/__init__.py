"""One file an agent tool."""
