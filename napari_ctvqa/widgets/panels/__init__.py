"""One file a panel."""
