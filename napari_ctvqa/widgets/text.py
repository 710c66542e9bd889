"""Foreign text made safe to show: plain, bounded, with control characters made visible."""

from __future__ import annotations

import html
import itertools
import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from qtpy.QtCore import QEvent, QSize, Qt
from qtpy.QtGui import QEnterEvent, QFontDatabase, QPainter, QPaintEvent, QTextOption
from qtpy.QtWidgets import QApplication, QLabel, QPlainTextEdit, QSizePolicy, QWidget

LABEL_LIMIT = 2_000
BOX_LIMIT = 20_000
CELL_LIMIT = 160
JSON_DEPTH, JSON_ENTRIES = 40, 200
_LONG_WORD = re.compile(r"\S{18}(?=\S)")
_BREAK = "\u200b"

# C0 and C1 controls but tab and newline, zero-width marks, direction overrides and isolates, line
# and paragraph separators, the byte order mark, lone surrogates, and invisible tag characters.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def _named(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return f"⟨U+{code:04X}⟩"


def visible(text: object, limit: int = BOX_LIMIT) -> str:
    """Return text as it may be shown: at most ``limit`` characters, nothing invisible in it.

    Only the part that is shown is looked at, so that a text of any length costs the same.
    """
    raw = text if isinstance(text, str) else str(text)
    shown = _INVISIBLE.sub(_named, raw[:limit].replace("\r\n", "\n"))
    left = len(raw) - limit
    return f"{shown}\n… {left:,} more characters" if left > 0 else shown


def one_line(text: object, limit: int = CELL_LIMIT) -> str:
    """Return text for a table cell or a heading: one line, cut with an ellipsis."""
    raw = text if isinstance(text, str) else str(text)
    shown = _INVISIBLE.sub(_named, raw[:limit].replace("\r\n", " "))
    return re.sub(r"\s", " ", shown) + ("…" if len(raw) > limit else "")


def breakable(text: str) -> str:
    """Return text in which words of more than 18 characters may be broken at the line's end."""
    return _LONG_WORD.sub(lambda match: match.group() + _BREAK, text)


def tooltip(text: object, limit: int = LABEL_LIMIT) -> str:
    """Return text for a tooltip, which Qt would otherwise read as rich text when it looks so."""
    shown = visible(text, limit)
    return f"<qt>{html.escape(shown).replace(chr(10), '<br>')}</qt>" if shown else ""


def number(value: float | str | None, unit: str = "") -> str:
    """Return a value for people, with its unit: two decimals, small numbers in four digits."""
    if value is None:
        return ""
    if isinstance(value, str):
        text = one_line(value)
    elif isinstance(value, bool):
        text = "yes" if value else "no"
    elif not math.isfinite(value):
        text = str(value)
    elif abs(value) < 1 and value != 0:
        text = f"{value:.4g}"
    else:
        text = f"{value:,.2f}".rstrip("0").rstrip(".")
    return f"{text} {unit}".strip()


def pretty_json(record: Any) -> str:
    """Return foreign JSON data as indented JSON; what JSON cannot say is shown by its repr."""
    return json.dumps(_plain(record), indent=2, ensure_ascii=False, default=repr)


def _plain(value: Any, depth: int = 0) -> Any:
    """Copy mappings and sequences into dict and list; very long and very deep ones are cut."""
    if depth > JSON_DEPTH:
        return f"… nested deeper than {JSON_DEPTH} levels"
    if hasattr(value, "items"):
        found = {
            one_line(key): _plain(item, depth + 1)
            for key, item in itertools.islice(value.items(), JSON_ENTRIES)
        }
        more = len(value) - JSON_ENTRIES
        return {**found, "…": f"{more:,} more keys"} if more > 0 else found
    if isinstance(value, list | tuple):
        items = [_plain(item, depth + 1) for item in value[:JSON_ENTRIES]]
        more = len(value) - JSON_ENTRIES
        return [*items, f"… {more:,} more entries"] if more > 0 else items
    if isinstance(value, str) and len(value) > LABEL_LIMIT:
        return f"{value[:LABEL_LIMIT]} … {len(value) - LABEL_LIMIT:,} more characters"
    return value


_LOOKS = {
    QEvent.Type.FontChange,
    QEvent.Type.StyleChange,
    QEvent.Type.Polish,
    QEvent.Type.ContentsRectChange,
    QEvent.Type.LayoutDirectionChange,
    QEvent.Type.DevicePixelRatioChange,
    QEvent.Type.ScreenChangeInternal,
}
"""What changes how much room the same text takes."""


class Label(QLabel):
    """A label that shows foreign text: plain, wrapped, selectable by mouse.

    It becomes selectable when the pointer comes: what Qt lets be selected is a whole text editor,
    which is laid out anew in the middle of being painted, and then painted a second time.
    """

    def __init__(
        self, text: object = "", *, role: str = "", selectable: bool = True, wrap: bool = True
    ) -> None:
        super().__init__()
        self._heights: dict[int, int] = {}
        """By width, until text or look changes: wrapping text is what takes a layout its time."""
        self._least: QSize | None = None
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(wrap)
        self._selectable = selectable
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        if role:
            self.setProperty("ctvqa", role)
        self.show_text(text)

    def show_text(self, text: object) -> None:
        """Show text; an empty one hides the label."""
        shown = breakable(visible(text, LABEL_LIMIT))
        if shown != self.text():
            self._forget_sizes()
            self.setText(shown)
        if not shown or self.parentWidget() is not None:  # shown alone it would be a window
            set_visible(self, bool(shown))

    def heightForWidth(self, width: int) -> int:
        """Return the height of the text, wrapped to a width in pixels."""
        if width not in self._heights:
            self._heights[width] = super().heightForWidth(width)
        return self._heights[width]

    def minimumSizeHint(self) -> QSize:
        """Return one line's height, else a scroll area makes room for the narrowest wrapping."""
        if self._least is None:
            self._least = self._least_size()
        return self._least

    def _least_size(self) -> QSize:
        hint = super().minimumSizeHint()
        if not self.wordWrap():
            return hint
        margins = self.contentsMargins()
        edge = margins.top() + margins.bottom() + 2 * self.margin()
        line = self.fontMetrics().lineSpacing() + edge
        return QSize(min(hint.width(), 60), min(hint.height(), line))

    def enterEvent(self, event: QEnterEvent) -> None:
        """Let the text be selected."""
        if self._selectable:
            self.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        super().enterEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        """Be a plain label again, unless some of the text is selected."""
        if not self.hasSelectedText():
            self.setTextInteractionFlags(Qt.TextInteractionFlag.NoTextInteraction)
        super().leaveEvent(event)

    def _forget_sizes(self) -> None:
        self._heights.clear()
        self._least = None

    def event(self, event: QEvent) -> bool:
        """Measure the text anew when its look changes."""
        if event.type() in _LOOKS:
            self._forget_sizes()
        return bool(super().event(event))

    def show_role(self, role: str) -> None:
        """Take another look of the theme."""
        if self.property("ctvqa") != role:
            self.setProperty("ctvqa", role)
            repolish(self)


class ElidedLabel(Label):
    """One line that is cut with an ellipsis where it does not fit; its text stays whole."""

    def __init__(self, text: object = "", *, role: str = "") -> None:
        super().__init__(text, role=role, selectable=False, wrap=False)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)

    @property
    def cut(self) -> bool:
        """Return whether more is to be read than there is room for."""
        return self._shown() != self._line()

    def _line(self) -> str:
        return " ".join(self.text().replace(_BREAK, "").split())

    def _shown(self) -> str:
        room = self.contentsRect().width()
        elided: str = self.fontMetrics().elidedText(self._line(), Qt.TextElideMode.ElideRight, room)
        return elided

    def sizeHint(self) -> QSize:
        """Return one line's height."""
        return QSize(60, self.fontMetrics().lineSpacing() + 2)

    def minimumSizeHint(self) -> QSize:
        """Return a size that never widens a window."""
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint what fits, in the style sheet's colour."""
        painter = QPainter(self)
        self.style().drawItemText(
            painter,
            self.contentsRect(),
            Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft,
            self.palette(),
            self.isEnabled(),
            self._shown(),
            self.foregroundRole(),
        )


class SteadyLabel(Label):
    """Some lines whose room does not follow their text, for a text that changes all the time.

    A label's new text has everything around it laid out again, which paints the window twice: with
    a picture drawn by OpenGL in it, 20 to 30 ms (software OpenGL). Here only the text is painted.
    """

    def __init__(self, *, lines: int = 2, role: str = "") -> None:
        self._steady = ""
        self._lines = lines
        super().__init__(role=role, selectable=False)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)

    def text(self) -> str:
        """Return the text that is shown."""
        return self._steady

    def show_text(self, text: object) -> None:
        """Show text; an empty one hides the label."""
        shown = breakable(visible(text, LABEL_LIMIT))
        if shown == self._steady and self.isHidden() != bool(shown):
            return
        self._steady = shown
        self.setAccessibleName(shown.replace(_BREAK, ""))
        self.update()
        if not shown or self.parentWidget() is not None:
            set_visible(self, bool(shown))

    def hasHeightForWidth(self) -> bool:
        """Return that the height is always the same."""
        return False

    def sizeHint(self) -> QSize:
        """Return the height of the lines."""
        return QSize(60, self._lines * self.fontMetrics().lineSpacing() + 2)

    def minimumSizeHint(self) -> QSize:
        """Return a size that never widens a window."""
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the text, wrapped, in the style sheet's colour, where a label has it."""
        painter = QPainter(self)
        indent = self.fontMetrics().horizontalAdvance("x") // 2
        self.style().drawItemText(
            painter,
            self.contentsRect().adjusted(indent, 0, -indent, 0),
            Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft | Qt.TextFlag.TextWordWrap,
            self.palette(),
            self.isEnabled(),
            self._steady,
            self.foregroundRole(),
        )


class TextBox(QPlainTextEdit):
    """Read-only plain text, as high as its text up to ``max_lines``, then scrolling."""

    def __init__(self, accessible_name: str, *, max_lines: int = 12, code: bool = False) -> None:
        super().__init__()
        self.setReadOnly(True)
        self.setTabChangesFocus(True)
        self.setAccessibleName(accessible_name)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._max_lines = max_lines
        self._raw = ""
        if code:
            self.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.document().documentLayout().documentSizeChanged.connect(self._fit)

    def show_text(self, text: object, limit: int = BOX_LIMIT) -> None:
        """Show text; the whole of it stays available to ``copy_all``."""
        raw = text if isinstance(text, str) else str(text)
        if raw is not self._raw:
            self._raw = raw
            self.setPlainText(visible(raw, limit))
            self.updateGeometry()

    def copy_all(self) -> None:
        """Put the whole text on the clipboard, verbatim."""
        QApplication.clipboard().setText(self._raw)

    def sizeHint(self) -> QSize:
        """Return the height of the text, bounded."""
        lines = max(1, min(self._line_count(), self._max_lines))
        margins = self.contentsMargins()
        frame = 2 * (self.frameWidth() + int(self.document().documentMargin()))
        height = lines * self.fontMetrics().lineSpacing() + frame
        return QSize(200, height + margins.top() + margins.bottom() + 2)

    def minimumSizeHint(self) -> QSize:
        """Return a size that never widens a dock."""
        return QSize(60, self.sizeHint().height())

    def _fit(self) -> None:
        """Ask for room; a bar only where there is more text than there will be room for."""
        policy = Qt.ScrollBarPolicy
        more = self._line_count() > self._max_lines
        self.setVerticalScrollBarPolicy(
            policy.ScrollBarAsNeeded if more else policy.ScrollBarAlwaysOff
        )
        self.updateGeometry()

    def _line_count(self) -> int:
        return int(self.document().documentLayout().documentSize().height())


def set_visible(widget: QWidget, visible: bool) -> None:
    """Show or hide a part of a panel; what is so already costs nothing."""
    decided = widget.testAttribute(Qt.WidgetAttribute.WA_WState_ExplicitShowHide)
    if not decided or widget.isHidden() == visible:
        widget.setVisible(visible)


@contextmanager
def laid_out_once(*widgets: QWidget) -> Iterator[None]:
    """Change several parts of these widgets and have them laid out at the end, not with each part.

    Qt lays out everything around a part, up to the window, at the moment in which it is shown.
    """
    layouts = [layout for widget in widgets if (layout := widget.layout()) is not None]
    for layout in layouts:
        layout.setEnabled(False)
    try:
        yield
    finally:
        for layout in layouts:
            layout.setEnabled(True)
            layout.invalidate()
        for widget in widgets:
            widget.updateGeometry()


def repolish(widget: QWidget) -> None:
    """Let the style sheet see a changed property."""
    style = widget.style()
    style.unpolish(widget)
    style.polish(widget)
    widget.update()
