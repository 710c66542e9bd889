"""See why a CT model got it wrong."""

__version__ = "0.1.0"
