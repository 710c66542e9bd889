"""Do the work: direct answers, the agent loop, batches; no Qt, no napari."""
