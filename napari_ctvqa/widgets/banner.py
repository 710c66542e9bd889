"""Small parts that several panels show: a banner, and a part that can be folded away."""

from __future__ import annotations

from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QFrame, QSizePolicy, QToolButton, QVBoxLayout, QWidget

from napari_ctvqa.widgets.text import Label
from napari_ctvqa.widgets.theme import set_look


class Banner(QFrame):
    """A framed message; gone when there is none."""

    def __init__(self) -> None:
        super().__init__()
        self._label = Label()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._label)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        self.hide()

    def show_message(self, look: str, text: str) -> None:
        """Show a text as ``red``, ``amber`` or ``info``; an empty one hides the banner."""
        set_look(self, look or "info")
        self._label.show_text(text)
        self.setAccessibleName(text[:200])
        self.setVisible(bool(text))


class Folding(QWidget):
    """A heading that shows or hides what is under it.

    superqt's QCollapsible animates a fixed height, which cuts text whose height changes with the
    dock's width; this one leaves the height to the layout.
    """

    toggled = Signal(bool)

    def __init__(self, title: str, content: QWidget) -> None:
        super().__init__()
        self.button = QToolButton()
        self.button.setText(title)
        self.button.setCheckable(True)
        self.button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.button.setArrowType(Qt.ArrowType.RightArrow)
        self._content = content
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.button)
        layout.addWidget(content)
        content.hide()
        self.button.toggled.connect(self._fold)

    def show_title(self, title: str) -> None:
        """Show another heading."""
        self.button.setText(title)

    @property
    def unfolded(self) -> bool:
        """Return whether the content is shown."""
        return bool(self.button.isChecked())

    def unfold(self, shown: bool = True) -> None:
        """Show or hide the content."""
        self.button.setChecked(shown)

    def _fold(self, shown: bool) -> None:
        arrow = Qt.ArrowType.DownArrow if shown else Qt.ArrowType.RightArrow
        self.button.setArrowType(arrow)
        self._content.setVisible(shown)
        self.toggled.emit(shown)
