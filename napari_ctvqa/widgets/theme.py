"""Colours and spacing of our panels, derived from the palette: napari dark, light, or none."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING

from qtpy.QtCore import QEvent, QObject, QTimer, Signal
from qtpy.QtGui import QColor, QPalette

from napari_ctvqa.core.records import Outcome
from napari_ctvqa.widgets.picture_text import type_scale
from napari_ctvqa.widgets.text import repolish

if TYPE_CHECKING:
    from qtpy.QtWidgets import QWidget

TEXT_CONTRAST = 4.5
"""Least contrast of any text against any ground it may stand on (WCAG 2, AA)."""

GAP_PX = 6
MARGIN_PX = 8

GLYPHS = {
    Outcome.RIGHT: "✓",
    Outcome.WRONG: "✗",
    Outcome.UNREAD: "?",
    Outcome.UNSCORED: "–",
}
WORDS = {
    Outcome.RIGHT: "right",
    Outcome.WRONG: "wrong",
    Outcome.UNREAD: "unread: no answer could be read from the text",
    Outcome.UNSCORED: "not scored",
}
HIDDEN_GLYPH = "·"
DIFFERS_GLYPH = "≠"
"""Stands between two scores that count an answer differently."""

# Okabe-Ito: told apart with common colour vision deficiencies; lightness follows the ground.
_GREEN, _VERMILION, _ORANGE, _SKY, _GREY = "#009E73", "#D55E00", "#E69F00", "#56B4E9", "#999999"


@dataclass(frozen=True)
class Theme:
    """Colours as ``#rrggbb``.

    Text and muted are readable on every ground, the others on window, card and selection.
    """

    window: str
    card: str
    selection: str
    border: str
    text: str
    muted: str
    accent: str
    right: str
    wrong: str
    unread: str
    unscored: str
    amber_ground: str
    red_ground: str
    info_ground: str

    def of(self, outcome: Outcome) -> str:
        """Return the colour of an outcome's glyph."""
        return {
            Outcome.RIGHT: self.right,
            Outcome.WRONG: self.wrong,
            Outcome.UNREAD: self.unread,
            Outcome.UNSCORED: self.unscored,
        }[outcome]


def contrast(first: str, second: str) -> float:
    """Return the WCAG contrast ratio of two colours, 1 to 21."""
    one, two = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (one + 0.05) / (two + 0.05)


def _luminance(colour: str) -> float:
    parts: list[float] = [channel / 255 for channel in QColor(colour).getRgb()[:3]]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def blend(base: str, other: str, share: float) -> str:
    """Return ``base`` with ``share`` (0 to 1) of ``other`` mixed in."""
    pairs = zip(QColor(base).getRgb()[:3], QColor(other).getRgb()[:3], strict=True)
    mixed = (round(a + (b - a) * share) for a, b in pairs)
    return "#{:02x}{:02x}{:02x}".format(*mixed)


def readable(colour: str, *grounds: str, ratio: float = TEXT_CONTRAST) -> str:
    """Return the colour, made lighter or darker until it is readable on every ground."""
    towards = max(("#ffffff", "#000000"), key=lambda end: min(contrast(end, g) for g in grounds))
    for share in range(0, 101, 4):
        candidate = blend(colour, towards, share / 100)
        if all(contrast(candidate, ground) >= ratio for ground in grounds):
            return candidate
    return towards


def theme_of(palette: QPalette) -> Theme:
    """Derive our colours from a palette's window and text colours."""
    return _theme(
        palette.color(QPalette.ColorRole.Window).name(),
        palette.color(QPalette.ColorRole.WindowText).name(),
    )


@lru_cache(maxsize=8)
def _theme(window: str, text: str) -> Theme:
    text = readable(text, window, ratio=7)
    card = blend(window, text, 0.07)
    selection = blend(window, _SKY, 0.2)
    amber_ground = blend(window, _ORANGE, 0.2)
    red_ground = blend(window, _VERMILION, 0.28)
    info_ground = blend(window, _SKY, 0.14)
    plain = (window, card, selection)
    grounds = (*plain, amber_ground, red_ground, info_ground)
    return Theme(
        window=window,
        card=card,
        selection=selection,
        border=blend(window, text, 0.28),
        text=readable(text, *grounds),
        muted=readable(blend(window, text, 0.62), *grounds),
        accent=readable(_SKY, *grounds, ratio=3),
        right=readable(_GREEN, *plain),
        wrong=readable(_VERMILION, *plain),
        unread=readable(_ORANGE, *plain),
        unscored=readable(_GREY, *plain),
        amber_ground=amber_ground,
        red_ground=red_ground,
        info_ground=info_ground,
    )


class Styling(QObject):
    """Keeps one panel's style sheet in step with the palette around it.

    Widgets choose a look by the dynamic property ``ctvqa`` (see ``_sheet``); nothing else in the
    panels sets colours, but item models, which ask ``theme``.
    """

    changed = Signal()

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget)
        self._widget = widget
        self.theme, self._scale = theme_of(widget.palette()), type_scale()
        # Setting a style sheet passes through the palettes without it: look when all is settled.
        self._settled = QTimer(self)
        self._settled.setSingleShot(True)
        self._settled.setInterval(0)
        self._settled.timeout.connect(self._follow)
        widget.setStyleSheet(_sheet(self.theme))
        widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Follow a change of napari's theme or of the system's palette."""
        kinds = (QEvent.Type.StyleChange, QEvent.Type.PaletteChange, QEvent.Type.Polish)
        settled = getattr(self, "_settled", None)  # gone where Python collects us before Qt does
        if settled is not None and event.type() in kinds:
            settled.start()
        return False

    def _follow(self) -> None:
        theme, scale = theme_of(self._widget.palette()), type_scale()
        if (theme, scale) != (self.theme, self._scale):
            self.theme, self._scale = theme, scale
            self._widget.setStyleSheet(_sheet(theme))
            self.changed.emit()


def set_look(widget: QWidget, look: str) -> None:
    """Give a widget one of the looks in the style sheet."""
    if widget.property("ctvqa") != look:
        widget.setProperty("ctvqa", look)
        repolish(widget)


def _sheet(theme: Theme) -> str:
    values = {field.name: getattr(theme, field.name) for field in fields(theme)}
    values |= {"large_pt": round(11 * type_scale()), "small_pt": round(9 * type_scale())}
    return _RULES.format(**values)


_RULES = """
QLabel {{ background: transparent; }}
QScrollArea, QScrollArea > QWidget > QWidget {{ background: transparent; border: 0px; }}
*[ctvqa="title"] {{ font-weight: bold; font-size: {large_pt}pt; color: {text}; }}
*[ctvqa="heading"] {{ font-weight: bold; color: {text}; }}
*[ctvqa="muted"] {{ color: {muted}; }}
*[ctvqa="small"] {{ color: {muted}; font-size: {small_pt}pt; }}
*[ctvqa="value"] {{ font-weight: bold; font-size: {large_pt}pt; color: {text}; }}
*[ctvqa="right"] {{ color: {right}; font-weight: bold; }}
*[ctvqa="wrong"] {{ color: {wrong}; font-weight: bold; }}
*[ctvqa="unread"] {{ color: {unread}; font-weight: bold; }}
*[ctvqa="unscored"] {{ color: {unscored}; font-weight: bold; }}
*[ctvqa="caveat"] {{ color: {unread}; font-size: {small_pt}pt; }}
*[ctvqa="red"] {{ background: {red_ground}; color: {text}; border: 1px solid {wrong};
    border-radius: 4px; padding: 6px; }}
*[ctvqa="amber"] {{ background: {amber_ground}; color: {text}; border: 1px solid {unread};
    border-radius: 4px; padding: 6px; }}
*[ctvqa="info"] {{ background: {info_ground}; color: {text}; border: 1px solid {border};
    border-radius: 4px; padding: 6px; }}
QFrame[ctvqa="card"] {{ background: {card}; border: 1px solid {border}; border-radius: 4px; }}
QFrame[ctvqa="card-first"] {{ background: {card}; border: 2px solid {wrong}; border-radius: 4px; }}
QFrame[ctvqa="card-chosen"] {{ background: {selection}; border: 2px solid {accent};
    border-radius: 4px; }}
QFrame[ctvqa="card-missing"] {{ background: transparent; border: 1px dashed {border};
    border-radius: 4px; }}
QFrame[ctvqa="card-option"] {{ background: transparent; border: 0px; }}
QPlainTextEdit {{ background: {card}; color: {text}; border: 1px solid {border};
    border-radius: 3px; }}
QToolButton[ctvqa="menu"]::menu-indicator {{ image: none; width: 0px; }}
QComboBox[ctvqa="facet"] {{ padding: 3px 2px 3px 5px; }}
QComboBox[ctvqa="facet"]::drop-down {{ width: 16px; border: 0px; }}
QComboBox[ctvqa="facet-used"] {{ padding: 3px 2px 3px 5px; border: 1px solid {accent}; }}
QComboBox[ctvqa="facet-used"]::drop-down {{ width: 16px; border: 0px; }}
QLineEdit {{ border: 1px solid {border}; border-radius: 3px; padding: 3px; }}
QLineEdit:focus, QPlainTextEdit:focus {{ border: 1px solid {accent}; }}
QTableView {{ background: {window}; color: {text}; border: 1px solid {border}; outline: 0px;
    gridline-color: {border}; selection-background-color: {selection};
    selection-color: {text}; }}
QTableView:focus {{ border: 1px solid {accent}; }}
QTableView::item:selected {{ background: {selection}; color: {text}; }}
QPushButton:focus, QToolButton:focus, QComboBox:focus, QCheckBox:focus, QRadioButton:focus {{
    border: 1px solid {accent}; }}
"""
