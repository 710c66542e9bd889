"""Qt and napari live here and nowhere else."""
