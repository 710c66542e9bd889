"""One file a benchmark: its layout, its records, its scoring, where its cases lie."""
