"""ProgressBar: one that waits for the window's next painting."""

from __future__ import annotations

from qtpy.QtWidgets import QProgressBar


class ProgressBar(QProgressBar):
    """A progress bar whose new value is painted with everything else that has changed.

    Qt's own paints the window at each new value, before it returns, also when the bar is behind
    another tab. With a picture drawn by OpenGL in the window that takes 10 to 20 ms (software
    OpenGL), several times for each answer of a model.
    """

    def show_value(self, value: int, most: int | None = None) -> None:
        """Show a value, of at most ``most``."""
        most = self.maximum() if most is None else most
        if (value, most) == (self.value(), self.maximum()):
            return
        self.setUpdatesEnabled(False)
        self.setMaximum(most)
        self.setValue(value)
        self.setUpdatesEnabled(True)
