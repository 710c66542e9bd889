"""Everything a widget can tell a person, to be searched for what must not be told."""

from qtpy.QtCore import QAbstractItemModel, QModelIndex, Qt
from qtpy.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QComboBox,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QWidget,
)

ROLES = (
    Qt.ItemDataRole.DisplayRole,
    Qt.ItemDataRole.EditRole,
    Qt.ItemDataRole.ToolTipRole,
    Qt.ItemDataRole.StatusTipRole,
    Qt.ItemDataRole.WhatsThisRole,
    Qt.ItemDataRole.AccessibleTextRole,
    Qt.ItemDataRole.AccessibleDescriptionRole,
)
BREAKS = "\u200b"


def texts_of(widget):
    """Return every text of a widget and what is in it, shown at the moment or not."""
    found = []
    for part in (widget, *widget.findChildren(QWidget)):
        found += [part.toolTip(), part.statusTip(), part.whatsThis(), part.windowTitle()]
        found += [part.accessibleName(), part.accessibleDescription()]
        if isinstance(part, QLabel | QAbstractButton):
            found.append(part.text())
        elif isinstance(part, QLineEdit):
            found += [part.text(), part.placeholderText()]
        elif isinstance(part, QPlainTextEdit):
            found.append(part.toPlainText())
        elif isinstance(part, QComboBox | QAbstractItemView):
            found += _model_texts(part.model())
    return "\n".join(text for text in found if text).replace(BREAKS, "")


def _model_texts(model: QAbstractItemModel | None):
    if model is None:
        return []
    found = []
    for row in range(min(model.rowCount(QModelIndex()), 200)):
        for column in range(model.columnCount(QModelIndex())):
            index = model.index(row, column)
            found += [str(model.data(index, role) or "") for role in ROLES]
    for section in range(model.columnCount(QModelIndex())):
        found += [
            str(model.headerData(section, Qt.Orientation.Horizontal, role) or "") for role in ROLES
        ]
    return found


def shown_texts(widget):
    """Return the texts of the labels and text boxes that are shown."""
    parts = [p for p in widget.findChildren(QLabel) if p.isVisibleTo(widget)]
    boxes = [p for p in widget.findChildren(QPlainTextEdit) if p.isVisibleTo(widget)]
    texts = [p.text() for p in parts] + [p.toPlainText() for p in boxes]
    return "\n".join(texts).replace(BREAKS, "")


def labels_are_plain(widget):
    """Return whether no label could take its text for HTML."""
    plain = Qt.TextFormat.PlainText
    return all(p.textFormat() == plain for p in widget.findChildren(QLabel) if p.text())
