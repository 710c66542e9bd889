"""Second computations of what volume models are fed with; nothing here goes through our code.

The file is turned by nibabel, sampled by ``scipy.ndimage.map_coordinates`` or by SimpleITK itself.
"""

import nibabel as nib
import numpy as np
from scipy import ndimage

LETTERS = {"R": 0, "L": 0, "A": 1, "P": 1, "S": 2, "I": 2}


def turned(path, axes):
    """(array, spacing in mm, 4 x 4 from its indices to RAS mm), axes increasing to the letters."""
    image = nib.load(path)
    ornt = nib.orientations.ornt_transform(
        nib.io_orientation(image.affine), nib.orientations.axcodes2ornt(tuple(axes))
    )
    image = image.as_reoriented(ornt)
    assert nib.aff2axcodes(image.affine) == tuple(axes)
    return (
        np.asarray(image.dataobj).astype(np.float64),
        np.linalg.norm(image.affine[:3, :3], axis=0),
        image.affine,
    )


def sampled(array, positions, order=1):
    """Values at a grid of positions; beyond the outer centres these go on."""
    grid = np.meshgrid(*positions, indexing="ij")
    return ndimage.map_coordinates(array, grid, order=order, mode="nearest")


def areas(count, wanted):
    """torch, ``align_corners=False``: the middle of each of ``wanted`` equal parts."""
    edges = np.linspace(-0.5, count - 0.5, wanted + 1)
    return (edges[1:] + edges[:-1]) / 2


def boxed(array):
    """(the part that holds everything above the lowest value, where it begins)."""
    there = np.argwhere(array > array.min())
    low, high = there.min(0), there.max(0) + 1
    return array[tuple(map(slice, low, high))], low


def resized(array, shape):
    return sampled(array, [areas(n, m) for n, m in zip(array.shape, shape, strict=True)])


def to_one(array):
    return (array - array.min()) / (array.max() - array.min())


def by_itk(path, shape_zyx, fill):
    """As CT-SpatialVQA's scripts: ITK's linear resampling with origin and pixel type kept."""
    import SimpleITK as sitk

    image = sitk.ReadImage(str(path))
    size = tuple(int(n) for n in shape_zyx[::-1])
    resampler = sitk.ResampleImageFilter()
    resampler.SetInterpolator(sitk.sitkLinear)
    resampler.SetSize(size)
    resampler.SetOutputSpacing(
        [n * mm / m for n, mm, m in zip(image.GetSize(), image.GetSpacing(), size, strict=True)]
    )
    resampler.SetOutputDirection(image.GetDirection())
    resampler.SetOutputOrigin(image.GetOrigin())
    resampler.SetDefaultPixelValue(fill)
    return sitk.GetArrayFromImage(resampler.Execute(image)).astype(np.float64)
