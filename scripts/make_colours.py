"""Find the overlay colours and write them into resources/colours.json.

    python scripts/make_colours.py SEGMENTATIONS_FOLDER...

Every structure of resources/names.json gets a colour of its own, the same in every case. Structures
that touch must differ for everybody: the distance (CIEDE2000) counts as the smallest of four, as
seen with full colour vision and with the three common deficiencies. Which structures touch is
measured in the masks of each SEGMENTATIONS_FOLDER (one NIfTI file each, one grid; the shipped
colours: TotalSegmentator's example scan, then the two cases of the demo) and completed by the pairs
that no single scan shows. Colours near the highlight's, too dark or too grey for a CT, are
left out; reds and magentas are kept for lesions. The search is a seeded annealing: same input,
same colours.
"""

from __future__ import annotations

import json
import re
import sys
from itertools import combinations, pairwise
from pathlib import Path

import nibabel as nib
import numpy as np
from skimage.color import deltaE_ciede2000, lab2rgb, rgb2lab

from napari_ctvqa.core.names import canonical, is_lesion, parent_of, table

RESOURCE = Path(__file__).resolve().parents[1] / "resources" / "colours.json"
HIGHLIGHT = np.array([255, 230, 0])
HIGHLIGHT_ALPHAS = (0.3, 1.0)
STEPPED_BACK = 0.35
"""How much of their opacity masks keep beside the focused one (``widgets/layer_stack.py``)."""
ORGAN_FLOOR, SEEN_TOGETHER, SAME_SLICE, SOFT_SAME_SLICE, AMONG_MAIN = 3.0, 7.0, 9.0, 15.0, 18.0
"""CIEDE2000 aimed at with full colour vision: any two organs; those of one scan; those that one
axial slice of it shows; the soft ones among these; the main ones."""
SOFT = (
    "liver spleen stomach pancreas gall_bladder kidney_left kidney_right adrenal_gland_left "
    "adrenal_gland_right aorta postcava portal_vein_and_splenic_vein duodenum esophagus colon "
    "intestine bladder prostate iliac_artery_left iliac_artery_right iliac_vena_left "
    "iliac_vena_right"
)
"""Organs that a CT shows in nearly one grey, so that colour has to tell them apart."""
MAIN = (
    "liver spleen stomach pancreas gall_bladder kidney_left kidney_right aorta postcava "
    "colon bladder"
)
"""What most questions are about."""
TOUCHING, SOFT_IN_SLICE, RELATED, IN_SLICE, LESION_ON_PARENT = 14.5, 10.0, 9.0, 5.0, 18.0
"""CIEDE2000 aimed at for everybody: organs that touch in the masks; soft ones in one axial slice;
those that may touch or be compared in others; any in one axial slice; a lesion and its organ."""

PROTAN = "0.152286 1.052583 -0.204868 0.114503 0.786281 0.099216 -0.003882 -0.048116 1.051998"
DEUTAN = "0.367322 0.860646 -0.227968 0.280085 0.672501 0.047413 -0.011820 0.042940 0.968881"
TRITAN = "1.255528 -0.076749 -0.178779 -0.078411 0.930809 0.147602 0.004733 0.691367 0.303900"
"""Linear RGB as seen with a deficiency of severity 1: Machado, Oliveira, Fernandes 2009."""


def main() -> None:
    folders = [Path(text) for text in sys.argv[1:]]
    names = list(table().structures)
    organs = [name for name in names if not is_lesion(name)]
    lesions = [name for name in names if is_lesion(name)]
    rng = np.random.default_rng(7)
    data = json.loads(RESOURCE.read_text(encoding="utf-8"))
    candidates = usable_colours(opacities(data))
    reds = np.array([is_red(rgb) for rgb in candidates])
    scans = [scan_of(folder, organs) for folder in folders]
    floors, aimed = wishes_for(scans, organs)
    touching = {pair for labels, _ in scans for pair in touching_pairs(labels)}
    aimed |= dict.fromkeys(touching, TOUCHING)
    organ_colours = search(organs, aimed, floors, candidates[~reds], rng)
    strong = reds & [is_strong(rgb) for rgb in candidates]
    lesion_colours = choose_lesions(lesions, organ_colours, candidates[strong])
    data["distance"] = distance_kept(organs, organ_colours, touching)
    data["structures"] = {name: hexed(organ_colours[name]) for name in organs}
    data["lesions"] = {name: hexed(lesion_colours[name]) for name in lesions}
    taken = set(data["structures"].values())
    data["palette"] = [c for c in map(hexed, spread(candidates[~reds], 120)) if c not in taken]
    taken = set(data["lesions"].values())
    data["lesion_palette"] = [
        c for c in map(hexed, spread(candidates[strong], 60)) if c not in taken
    ]
    RESOURCE.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def hexed(rgb: np.ndarray) -> str:
    return "#" + "".join(f"{int(part):02X}" for part in rgb)


def is_red(rgb: np.ndarray) -> bool:
    _, a, b = rgb2lab(rgb / 255.0)
    return bool(-45 < np.rad2deg(np.arctan2(b, a)) < 42)


def is_strong(rgb: np.ndarray) -> bool:
    light, a, b = rgb2lab(rgb / 255.0)
    return bool(np.hypot(a, b) > 48 and light < 80)


def opacities(data: dict) -> list[float]:
    """Return every opacity at which some mask is drawn."""
    looks = data["looks"].values()
    drawn = {look[part] for look in looks for part in ("fill_alpha", "outline_alpha")} - {0.0}
    return sorted(drawn | {STEPPED_BACK * alpha for alpha in drawn})


def usable_colours(alphas: list[float]) -> np.ndarray:
    """Return sRGB colours that stand out on CT grey and cannot be taken for the highlight."""
    found = []
    for light in range(52, 91, 4):
        for chroma in (38, 50, 62, 76):
            for hue in range(0, 360, 6 if chroma > 45 else 9):
                lab = (light, chroma * np.cos(np.deg2rad(hue)), chroma * np.sin(np.deg2rad(hue)))
                rgb = np.rint(lab2rgb(lab) * 255)
                if abs(rgb2lab(rgb / 255.0) - lab).max() > 2:  # outside what a screen can show
                    continue
                if not like_highlight(rgb, alphas):
                    found.append(rgb)
    return np.unique(np.array(found), axis=0)


def like_highlight(rgb: np.ndarray, alphas: list[float]) -> bool:
    """Return whether this colour is yellow, or has the highlight's differences at some opacity."""
    marks = [alpha * np.diff(HIGHLIGHT) for alpha in HIGHLIGHT_ALPHAS]
    own = [alpha * np.diff(rgb) for alpha in alphas]
    near = any(abs(a - b).max() < 14 for a in marks for b in own)
    _, a, b = rgb2lab(rgb / 255.0)
    return near or bool(76 < np.rad2deg(np.arctan2(b, a)) < 124)


def seen_by(rgb: np.ndarray) -> list[np.ndarray]:
    """Return Lab colours as seen with full colour vision and three deficiencies."""
    unit = rgb / 255.0
    linear = np.where(unit <= 0.04045, unit / 12.92, ((unit + 0.055) / 1.055) ** 2.4)
    views = [unit]
    for text in (PROTAN, DEUTAN, TRITAN):
        matrix = np.array(text.split(), float).reshape(3, 3)
        there = np.clip(linear @ matrix.T, 0, 1)
        views.append(
            np.where(there <= 0.0031308, there * 12.92, 1.055 * there ** (1 / 2.4) - 0.055)
        )
    return [rgb2lab(view) for view in views]


def distances(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return CIEDE2000 (n, m): with full colour vision, and the smallest of all four."""
    every = np.array(
        [
            deltaE_ciede2000(a[:, None], b[None])
            for a, b in zip(seen_by(first), seen_by(second), strict=True)
        ]
    )
    return every[0], every.min(axis=0)


def scan_of(folder: Path, organs: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the index into ``organs`` of every voxel of a folder's masks, and their affine.

    -1 where no mask is; of overlapping masks the smaller one counts, as it is drawn.
    """
    images = {
        canonical(path.name.removesuffix(".nii.gz")): nib.load(path)
        for path in sorted(folder.glob("*.nii.gz"))
    }
    masks = {name: np.asarray(i.dataobj) > 0 for name, i in images.items() if name in organs}
    labels = np.full(next(iter(masks.values())).shape, -1)
    for name in sorted(masks, key=lambda name: -np.count_nonzero(masks[name])):
        labels[masks[name]] = organs.index(name)
    return labels, next(iter(images.values())).affine


def wishes_for(
    scans: list[tuple[np.ndarray, np.ndarray]], organs: list[str]
) -> tuple[np.ndarray, dict[tuple[int, int], float]]:
    """Return the distance wished for with full colour vision (n, n), and for everybody by pair."""
    floors = np.full((len(organs), len(organs)), ORGAN_FLOOR)
    aimed = dict.fromkeys(expected_pairs(organs), RELATED)
    for labels, affine in scans:
        seen = np.unique(labels[labels >= 0])
        floors[np.ix_(seen, seen)] = np.maximum(floors[np.ix_(seen, seen)], SEEN_TOGETHER)
        for a, b in in_one_slice(labels, affine):
            soft = organs[a] in SOFT.split() and organs[b] in SOFT.split()
            floors[[a, b], [b, a]] = SOFT_SAME_SLICE if soft else SAME_SLICE
            aimed[a, b] = max(aimed.get((a, b), 0), SOFT_IN_SLICE if soft else IN_SLICE)
    main_ones = [organs.index(name) for name in MAIN.split()]
    floors[np.ix_(main_ones, main_ones)] = AMONG_MAIN
    return floors, aimed


def touching_pairs(labels: np.ndarray) -> set[tuple[int, int]]:
    """Return the pairs of labels with voxels at most two steps apart along an axis."""
    found: set[tuple[int, int]] = set()
    for axis in range(3):
        for step in (1, 2):
            ahead = np.moveaxis(labels, axis, 0)
            both = np.stack([ahead[step:].ravel(), ahead[:-step].ravel()])
            both = both[:, (both >= 0).all(axis=0) & (both[0] != both[1])]
            found |= set(map(tuple, np.sort(np.unique(both, axis=1).T).tolist()))
    return found


def in_one_slice(labels: np.ndarray, affine: np.ndarray) -> set[tuple[int, int]]:
    """Return the pairs of labels that one axial slice shows."""
    axis = "".join(nib.aff2axcodes(affine)).replace("I", "S").index("S")
    found: set[tuple[int, int]] = set()
    for plane in np.moveaxis(labels, axis, 0):
        found |= set(combinations(np.unique(plane[plane >= 0]).tolist(), 2))
    return found


def distance_kept(
    organs: list[str], colours: dict[str, np.ndarray], touching: set[tuple[int, int]]
) -> dict:
    """Return the distance between touching organs that the colours keep, for the resource."""
    chosen = np.array([colours[name] for name in organs])
    _, worst = distances(chosen, chosen)
    smallest = min(worst[pair] for pair in touching)
    return {
        "about": "Smallest CIEDE2000 between the colours of two organs that touch, for everybody: "
        "with full colour vision and as seen with protanopia, deuteranopia and tritanopia "
        "(matrices of severity 1 by Machado, Oliveira, Fernandes 2009, applied to linear RGB). "
        "Colours on the screen before they are laid over the CT.",
        "touching_ciede2000": float(np.floor(10 * smallest) / 10),
    }


def expected_pairs(organs: list[str]) -> list[tuple[int, int]]:
    """Return pairs of indices into ``organs`` that may touch, or are compared, in other scans."""
    known = set(organs)
    pairs = [(name, table().structures[name].opposite) for name in organs]
    for prefix in ("liver_segment", "lung_", "heart_", "pancrea", "kidney", "adrenal", "gluteus"):
        pairs += combinations([name for name in organs if name.startswith(prefix)], 2)
    spine = [name for name in organs if re.fullmatch(r"vertebrae_\w+", name)]
    for chain in (spine, *([f"rib_{s}_{n}" for n in range(1, 13)] for s in ("left", "right"))):
        pairs += [*pairwise(chain), *zip(chain, chain[2:], strict=False)]
    abdomen = (
        "liver spleen stomach pancreas gall_bladder kidney_left kidney_right adrenal_gland_left "
        "adrenal_gland_right aorta postcava portal_vein_and_splenic_vein duodenum esophagus colon "
        "hepatic_vessel celiac_trunk superior_mesenteric_artery common_bile_duct intestine veins "
        "pancreatic_duct bladder prostate rectum uterus"
    )
    pairs += combinations(abdomen.split(), 2)
    where = {name: index for index, name in enumerate(organs)}
    named = [(a, b) for a, b in pairs if a in known and b in known and a != b]
    return [(min(where[a], where[b]), max(where[a], where[b])) for a, b in named]


def search(
    names: list[str],
    aimed: dict[tuple[int, int], float],
    floors: np.ndarray,
    candidates: np.ndarray,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    plain, worst = distances(candidates, candidates)
    beside: list[list[int]] = [[] for _ in names]
    wanted: list[list[float]] = [[] for _ in names]
    for (a, b), aim in aimed.items():
        beside[a].append(b)
        beside[b].append(a)
        wanted[a].append(aim)
        wanted[b].append(aim)
    wishes = [np.array(row) for row in wanted]
    strict = np.where(floors >= SOFT_SAME_SLICE, 6.0, 2.0)
    weights = [np.where(row == TOUCHING, 8.0, 2.0) for row in wishes]
    chosen = rng.permutation(len(candidates))[: len(names)]

    def cost(index: int, colour: int) -> float:
        lacking = np.clip(floors[index] - plain[colour, chosen], 0, None)
        lacking[index] = 0
        close = (strict[index] * lacking**2).sum()
        near = worst[colour, chosen[beside[index]]]
        short = np.clip(wishes[index] - near, 0, None) ** 2
        return float(close + (weights[index] * short).sum())

    heat = 60.0
    for _ in range(1_500_000):
        index, colour = int(rng.integers(len(names))), int(rng.integers(len(candidates)))
        if colour in chosen:
            continue
        gain = cost(index, int(chosen[index])) - cost(index, colour)
        if gain > 0 or rng.random() < np.exp(gain / heat):
            chosen[index] = colour
        heat = max(heat * 0.999992, 0.01)
    for aim in (TOUCHING, SOFT_IN_SLICE, RELATED, IN_SLICE):
        near = np.array([worst[chosen[a], chosen[b]] for (a, b), w in aimed.items() if w == aim])
        sys.stdout.write(
            f"{len(near)} pairs at {aim:g}: CIEDE2000 smallest {near.min():.1f}, "
            f"median {np.median(near):.1f}, {(near < aim).sum()} below\n"
        )
    every = plain[np.ix_(chosen, chosen)] + 1000 * np.eye(len(chosen))
    for floor in (ORGAN_FLOOR, SEEN_TOGETHER, SAME_SLICE, SOFT_SAME_SLICE, AMONG_MAIN):
        sys.stdout.write(
            f"pairs at {floor:g}, full colour vision: {every[floors == floor].min():.1f}\n"
        )
    return {name: candidates[i] for name, i in zip(names, chosen, strict=True)}


def choose_lesions(
    names: list[str], organs: dict[str, np.ndarray], candidates: np.ndarray
) -> dict[str, np.ndarray]:
    """Choose one after the other: far from the own organ, then far from the other lesions."""
    chosen: dict[str, np.ndarray] = {}
    for name in names:
        parent = parent_of(name)
        own = np.array([organs[n] for n in organs if parent and n.startswith(parent)])
        score = np.zeros(len(candidates))
        if len(own):
            score += (
                np.clip(LESION_ON_PARENT - distances(candidates, own)[1].min(axis=1), 0, None) * 3
            )
        if chosen:
            plain, worst = distances(candidates, np.array(list(chosen.values())))
            score -= np.minimum(plain.min(axis=1), 25) + 0.5 * np.minimum(worst.min(axis=1), 15)
            score[plain.min(axis=1) < 1] = np.inf
        chosen[name] = candidates[int(np.argmin(score))]
    return chosen


def spread(candidates: np.ndarray, count: int) -> np.ndarray:
    """Return colours far from each other, the farthest next each time."""
    plain, _ = distances(candidates, candidates)
    order = [int(np.argmax(plain.sum(axis=0)))]
    while len(order) < min(count, len(candidates)):
        order.append(int(np.argmax(plain[:, order].min(axis=1))))
    return candidates[order]


if __name__ == "__main__":
    main()
