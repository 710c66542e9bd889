"""Files in and out; no Qt, no napari."""
