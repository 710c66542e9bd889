"""A small one-sided phantom, written to disk in any axis order, with any header fault.

Defined in RAS millimetres, so that what a test expects does not come from array indices.
"""

import gzip
from dataclasses import dataclass, field
from itertools import permutations, product
from pathlib import Path

import nibabel as nib
import numpy as np

SHAPE_IJK = (24, 20, 12)
SPACING_MM = (3.0, 3.5, 5.0)
ALL_ORDERS = [
    "".join(letters) for axes in permutations(("RL", "AP", "SI")) for letters in product(*axes)
]
"""The 48 axis orders, e.g. ``"LPS"``."""


@dataclass
class Phantom:
    """Arrays in RAS order (i right, j anterior, k superior) with their affine."""

    ct: np.ndarray
    masks: dict[str, np.ndarray]
    affine: np.ndarray
    centres_mm: dict[str, np.ndarray] = field(default_factory=dict)


def phantom() -> Phantom:
    """Air -1000, body 40, liver 60 on the right, spleen 50 and left kidney 30 on the left.

    Also a right kidney, a bright rod 300 in the spine and a lesion 10 in the liver.
    """
    affine = np.diag([*SPACING_MM, 1.0])
    affine[:3, 3] = [-33.0, -30.0, -100.0]
    index = np.stack(np.meshgrid(*map(np.arange, SHAPE_IJK), indexing="ij"), axis=-1)
    x, y, z = np.moveaxis(index @ affine[:3, :3].T + affine[:3, 3], -1, 0)
    body = (x / 32) ** 2 + (y / 28) ** 2 < 1
    masks = {
        "liver": (abs(x - 15) < 11) & (abs(y - 6) < 11) & (abs(z + 65) < 12),
        "spleen": (abs(x + 19) < 6) & (abs(y + 6) < 8) & (abs(z + 63) < 9),
        "kidney_left": (abs(x + 14) < 5) & (abs(y + 14) < 6) & (abs(z + 82) < 9),
        "kidney_right": (abs(x - 14) < 5) & (abs(y + 14) < 6) & (abs(z + 84) < 9),
        "liver_lesion": (abs(x - 15) < 5) & (abs(y - 9) < 4) & (abs(z + 65) < 6),
    }
    ct = np.full(SHAPE_IJK, -1000, np.int16)
    ct[body] = 40
    hu = {"liver": 60, "spleen": 50, "kidney_left": 30, "kidney_right": 35, "liver_lesion": 10}
    for name, value in hu.items():
        ct[masks[name]] = value
    ct[(abs(x) < 4) & (abs(y + 18) < 4)] = 300
    centres = {n: np.array([x[m].mean(), y[m].mean(), z[m].mean()]) for n, m in masks.items()}
    return Phantom(ct, {n: m.astype(np.uint8) for n, m in masks.items()}, affine, centres)


def turned(array: np.ndarray, affine: np.ndarray, axcodes: str) -> nib.Nifti1Image:
    """Return a RAS array as an image whose axes run in another order; the world stays."""
    ornt = nib.orientations.axcodes2ornt(tuple(axcodes))
    image = nib.Nifti1Image(array, affine)
    image.set_qform(affine, 1)
    return image.as_reoriented(nib.orientations.ornt_transform(nib.io_orientation(affine), ornt))


def save(path: Path, array: np.ndarray, affine: np.ndarray, axcodes: str = "RAS") -> Path:
    """Write one RAS array as NIfTI in the given axis order."""
    path.parent.mkdir(parents=True, exist_ok=True)
    nib.save(turned(array, affine, axcodes), path)
    return path


def save_case(
    folder: Path, shown: Phantom | None = None, axcodes: str = "LPS", masks_axcodes: str = ""
) -> Path:
    """Write ``ct.nii.gz`` and ``segmentations/*.nii.gz``; return the folder."""
    shown = shown or phantom()
    save(folder / "ct.nii.gz", shown.ct, shown.affine, axcodes)
    for name, mask in shown.masks.items():
        path = folder / "segmentations" / f"{name}.nii.gz"
        save(path, mask, shown.affine, masks_axcodes or axcodes)
    return folder


def oblique(shown: Phantom, degrees: float) -> Phantom:
    """Return it turned about the patient's long axis, as a header gives it: in float32."""
    c, s = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
    turn = np.array([[c, -s, 0, 0], [s, c, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    affine = (turn @ shown.affine).astype(np.float32).astype(np.float64)
    return Phantom(shown.ct, shown.masks, affine)


def edit_header(path: Path, **fields: object) -> Path:
    """Overwrite header fields of a NIfTI-1 file in place; nothing else changes."""
    data = bytearray(gzip.decompress(path.read_bytes()))
    header = nib.Nifti1Header(bytes(data[:348]), check=False)
    for name, value in fields.items():
        header[name] = value
    data[:348] = header.binaryblock
    path.write_bytes(gzip.compress(bytes(data), 1))
    return path
