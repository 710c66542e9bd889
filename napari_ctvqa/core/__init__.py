"""The domain: records, geometry, measurements, scoring and the session; no Qt, no napari."""
