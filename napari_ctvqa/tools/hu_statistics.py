"""``hu_statistics``: how HU spread over a structure."""

from napari_ctvqa.tools._steps import StepTool

TOOL = StepTool(
    "hu_statistics",
    "measure",
    (
        "HU over an organ without its lesions, or over a lesion: standard deviation, median, 10th "
        "and 90th percentile. Returns value, unit, measurement_type, target and region_id."
    ),
    (
        "sd_hu",
        "median_hu",
        "p10_hu",
        "p90_hu",
    ),
)
