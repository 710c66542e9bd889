"""UndoStack: what was done, step by step, so that it can be taken back and done again.

Qt has a QUndoStack; this one knows no Qt, so that it is tested without a window and a command is
two plain functions that nobody has to own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

MOST_STEPS = 200


@dataclass(frozen=True)
class UndoStep:
    """One thing that was done; ``undo`` and ``redo`` may raise, then the step stays where it is."""

    title: str
    undo: Callable[[], None]
    redo: Callable[[], None]


class UndoStack:
    """The newest ``MOST_STEPS`` steps; doing something new forgets what was taken back."""

    def __init__(self) -> None:
        self._done: list[UndoStep] = []
        self._undone: list[UndoStep] = []

    def push(self, step: UndoStep) -> None:
        """Remember a step that has just been done."""
        self._done = [*self._done, step][-MOST_STEPS:]
        self._undone.clear()

    def undo(self) -> str:
        """Take the last step back and return its title, empty where there is none."""
        if not self._done:
            return ""
        step = self._done[-1]
        step.undo()
        self._undone.append(self._done.pop())
        return step.title

    def redo(self) -> str:
        """Do again what was taken back last and return its title, empty where there is nothing."""
        if not self._undone:
            return ""
        step = self._undone[-1]
        step.redo()
        self._done.append(self._undone.pop())
        return step.title

    def clear(self) -> None:
        """Forget all steps."""
        self._done.clear()
        self._undone.clear()
