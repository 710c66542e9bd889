"""Small cases and questions for the tests of the evidence, made without a file."""

from pathlib import Path

import numpy as np

from napari_ctvqa.core import names
from napari_ctvqa.core.cases import (
    Case,
    CaseFiles,
    GeometryReport,
    Mask,
    MaskFile,
    Source,
    Volume,
)
from napari_ctvqa.core.geometry import FileSpace, Grid
from napari_ctvqa.core.records import AnswerType, Option, Question, Reference
from napari_ctvqa.core.regions import region_of
from napari_ctvqa.core.rules import rule_for

SHAPE = (40, 50, 60)
SPACING = (2.0, 1.0, 1.0)


def grid(shape=SHAPE, spacing=SPACING):
    """A grid of an LPS-free file: display z, y, x run to Inferior, Posterior, Left."""
    z, y, x = spacing
    affine = np.array([[0, 0, -x, 0], [0, -y, 0, 0], [-z, 0, 0, 0], [0, 0, 0, 1.0]])
    file_affine = affine[:, [2, 1, 0, 3]]
    space = FileSpace(shape[::-1], file_affine, 1, 1)
    return Grid(shape, affine, space)


def block(shape, *slices, value=True, into=None):
    """Return an array with a box set."""
    array = np.zeros(shape, bool) if into is None else into
    array[slices] = value
    return array


def mask(structure, array, on, *, name="", caveats=(), warnings=()):
    region = region_of(array, on)
    return Mask(
        name or structure,
        structure,
        Source.REFERENCE,
        region,
        region,
        lesion=names.is_lesion(structure),
        caveats=caveats,
        warnings=warnings,
    )


def case(arrays, *, hu=None, on=None, report=None, problems=None, files=None):
    """A case of masks given as arrays by structure; HU are 0 unless given."""
    on = on or grid()
    hu = np.zeros(on.shape_zyx, np.int16) if hu is None else hu
    report = report or GeometryReport()
    volume = Volume(hu, on, hu, on, report, Path("ct.nii.gz"), float(hu.min()), float(hu.max()))
    masks = {structure: mask(structure, array, on) for structure, array in arrays.items()}
    listed = tuple(
        MaskFile(name, Path(f"{name}.nii.gz")) for name in (files if files is not None else masks)
    )
    return Case(
        CaseFiles("case_1", Path("ct.nii.gz"), listed), volume, masks, report, {}, problems or {}
    )


def question(subtype, text="?", *, options="", answer="", organ="", lesion="", letter="", id="q1"):
    """A question; ``options`` is ``"Yes|No"``."""
    rule = rule_for(subtype)
    listed = tuple(
        Option("ABCDEFGH"[n], part) for n, part in enumerate(options.split("|") if options else [])
    )
    return Question(
        id,
        "case_1",
        text,
        Reference(answer, letter),
        listed,
        subtype=subtype,
        answer_type=rule.answer_type if rule else AnswerType.OPEN,
        organ=organ,
        lesion=lesion,
    )


def cm3_box(cm3, on, at=(2, 2, 2)):
    """Return an array of exactly so many voxels that they make ``cm3``, filled row by row."""
    voxels = round(cm3 * 1000 / on.voxel_mm3)
    array = np.zeros(on.shape_zyx, bool)
    z, y, x = at
    inner = array[z : on.shape_zyx[0] - 2, y : on.shape_zyx[1] - 2, x : on.shape_zyx[2] - 2]
    flat = np.zeros(inner.size, bool)
    assert voxels <= flat.size
    flat[:voxels] = True
    inner[...] = flat.reshape(inner.shape)
    return array
