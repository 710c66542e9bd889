"""Focus: from an evidence step to the slice where its mask stands out, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from napari_ctvqa.core.regions import focus_slice, slices_of
from napari_ctvqa.core.session import MaskFocus
from napari_ctvqa.core.step_masks import made_for, single_mask

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case, Mask
    from napari_ctvqa.core.chains import ChainComparison, EvidenceStep
    from napari_ctvqa.core.session import Session
    from napari_ctvqa.widgets.layers import CaseLayers


class Focus:
    """Sets ``session.focus``; the layers draw it.

    Parameters
    ----------
    session
        Whose case, chains and focus these are.
    layers
        Asked which slice is shown, never changed.
    """

    def __init__(self, session: Session, layers: CaseLayers) -> None:
        self.session, self.layers = session, layers
        self._pending: str | None = None
        self._targets: WeakKeyDictionary[Case, dict[str, tuple[Mask, tuple[str, ...]] | None]] = (
            WeakKeyDictionary()
        )

    def chains_arrived(self) -> None:
        """Show the first difference that was asked for before the chains were known."""
        pending = self._pending
        if pending is not None and pending in self.session.comparisons:
            self._pending = None
            self._show_first_difference(self.session.comparisons[pending])

    def anything(self) -> None:
        """Show what the question is about, where nothing stands out yet: for a picture.

        The first difference of the first model that has one, else the reference's first mask.
        """
        if self.session.focus is not None:
            return
        for comparison in self.session.comparisons.values():
            self._show_first_difference(comparison)
            if self.session.focus is not None:
                return
        chain = self.session.reference_chain
        for step in chain.steps if chain is not None and self.session.revealed else ():
            if self.mask_of(step) is not None:
                self.step(step)
                return

    def forget(self) -> None:
        """Drop what was asked for and is not yet shown."""
        self._pending = None

    def step(self, step: EvidenceStep) -> None:
        """Go to the slice where the step's mask is largest and make it stand out."""
        mask = self.mask_of(step)
        if mask is None:  # nothing to go to: the reader stays where the former step led
            self.session.update(focused_step=step)
            return
        self._focus(mask, focus_slice(mask.region), step)

    def mask(self, mask: Mask) -> None:
        """Go to the slice where a mask is largest and make it stand out; nothing for an empty one.

        Also one that lies beside the case's own.
        """
        if not mask.region.empty:
            self._focus(mask, focus_slice(mask.region), None)

    def first_difference(self, model: str) -> None:
        """Make the first differing step of a model stand out, as soon as its chain is known."""
        if model in self.session.comparisons:
            self._show_first_difference(self.session.comparisons[model])
        else:
            self._pending = model

    def _show_first_difference(self, comparison: ChainComparison) -> None:
        first = comparison.first_difference
        if first is None:
            return
        for row in reversed(comparison.rows[: first + 1]):
            for step in (row.model, row.reference):
                if step is not None and self.mask_of(step) is not None:
                    self.step(step)
                    return

    def mask_of(self, step: EvidenceStep) -> Mask | None:
        """Return the mask that a step speaks of, None where the case has none to draw."""
        case = self.session.case
        if case is None:
            return None
        made = self._made(case, step.target)
        if made is not None:
            return None if made[0].region.empty else made[0]
        return single_mask(case, step)

    def _made(self, case: Case, target: str) -> tuple[Mask, tuple[str, ...]] | None:
        """Return a target that is no mask of the case as a mask, and the structures it is made of.

        Several masks together are one, and so are the components of a mask that a target means:
        of these the others stay in sight, so no structure is named.
        """
        known = self._targets.setdefault(case, {})
        if target not in known:
            known[target] = made_for(case, target)
        return known[target]

    def _focus(self, mask: Mask, display_slice: int, step: EvidenceStep | None) -> None:
        found = mask.region.grid.file_slice(0, display_slice)
        file_slice = None if found is None else found[1]
        case = self.session.case
        own = case is not None and case.masks.get(mask.structure) is mask
        made = self._made(case, mask.name) if case is not None and not own else None
        focus = MaskFocus(
            mask.structure,
            display_slice,
            file_slice,
            mask.source.value,
            None if own else mask,
            made[1] if made is not None and made[0] is mask else (),
        )
        self.session.update(focus=focus, focused_step=step)

    def mask_slice(self, step: int) -> None:
        """Go to the next or previous slice that holds voxels of the focused mask."""
        case, focus = self.session.case, self.session.focus
        if case is None or focus is None:
            return
        mask = focus.mask or case.masks.get(focus.structure)
        if mask is None:
            return
        slices = slices_of(mask.region)
        here = self.layers.current_slice(0)
        side = slices[slices > here] if step > 0 else slices[slices < here][::-1]
        if len(side):
            self._focus(mask, int(side[0]), self.session.focused_step)

    def back(self) -> None:
        """Return to where the reader was before the first focus."""
        self.session.update(focus=None, focused_step=None)
