"""``lesion_spread``: how lesions spread over the parts of their organ."""

from napari_ctvqa.tools._steps import StepTool

TOOL = StepTool(
    "lesion_spread",
    "measure",
    (
        "How many lesions the fullest part of the organ holds (liver segments, parts of the "
        "pancreas, kidneys), or the two fullest; or which share of the lesions' volume. Returns "
        "value, counts, target and region_id."
    ),
    (
        "lesions_in_fullest_part",
        "lesions_in_fullest_two_parts",
        "volume_share_of_fullest_part",
        "volume_share_of_fullest_two_parts",
    ),
)
