"""``contact``: how far around a vessel a tumour touches it."""

from napari_ctvqa.tools._steps import StepTool

TOOL = StepTool(
    "contact",
    "measure",
    (
        "Contact of a vessel (target) with a tumour (other): the angle around the vessel in "
        "degrees, within 4 mm. Returns value, unit, surface_voxels, target and region_id."
    ),
    ("contact_angle_deg",),
    with_other=True,
)
