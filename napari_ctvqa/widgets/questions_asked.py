"""What the window asks before it goes on: whether pictures may leave this machine."""

from __future__ import annotations

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QApplication, QMessageBox

from napari_ctvqa.widgets.text import visible


def may_send(host: str) -> bool:
    """Ask once for a host whether pictures of CTs may be sent to it; no is the default."""
    box = QMessageBox(QApplication.activeWindow())
    box.setWindowTitle("Send pictures to another machine?")
    box.setIcon(QMessageBox.Icon.Warning)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setText(f"Pictures of this CT and the question would be sent to\n{visible(host, 200)}")
    box.setInformativeText(
        "Only the pixels and the question's text leave this machine, without the file's header. "
        "Agree only if your data may go there. The answer is remembered for this host."
    )
    send = box.addButton("Send to this host", QMessageBox.ButtonRole.AcceptRole)
    stay = box.addButton("Do not send", QMessageBox.ButtonRole.RejectRole)
    box.setDefaultButton(stay)
    box.setEscapeButton(stay)
    box.exec()
    return box.clickedButton() is send
