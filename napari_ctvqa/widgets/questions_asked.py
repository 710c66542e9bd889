"""What the window asks before it goes on: where pictures may go, what may run, whom to trust."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QApplication, QMessageBox

from napari_ctvqa.widgets.text import visible

if TYPE_CHECKING:
    from napari_ctvqa.io.code_consents import CodeConsent


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


def may_use_scheduler(address: str) -> bool:
    """Ask once for a cluster's scheduler whether it may be used; no is the default."""
    box = QMessageBox(QApplication.activeWindow())
    box.setWindowTitle("Let this cluster answer?")
    box.setIcon(QMessageBox.Icon.Warning)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setText(f"The questions would be answered by the workers of\n{visible(address, 200)}")
    box.setInformativeText(
        "What comes back from a dask scheduler can run any code on this machine. Agree only if it "
        "is yours, on a network that you trust. The answer is remembered for this address."
    )
    use = box.addButton("Use this cluster", QMessageBox.ButtonRole.AcceptRole)
    leave = box.addButton("Do not use it", QMessageBox.ButtonRole.RejectRole)
    box.setDefaultButton(leave)
    box.setEscapeButton(leave)
    box.exec()
    return box.clickedButton() is use


def may_run_code(consent: CodeConsent) -> bool:
    """Ask once whether the Python code that lies with a model may run; no is the default."""
    box = QMessageBox(QApplication.activeWindow())
    box.setWindowTitle("Run the model's own code?")
    box.setIcon(QMessageBox.Icon.Warning)
    box.setTextFormat(Qt.TextFormat.PlainText)
    revision = f"\nrevision {visible(consent.revision, 60)}" if consent.revision else ""
    box.setText(
        f"{visible(consent.model, 80)} is loaded by Python code in\n{visible(consent.folder, 400)}"
        f"{revision}\nstate {visible(consent.mark, 20)}"
    )
    box.setInformativeText(
        "That code can do whatever you can do on this machine. Agree only if you trust where it "
        "came from. The answer is remembered for this model and this state of the code; changed "
        "code is asked about again."
    )
    run = box.addButton("Run this code", QMessageBox.ButtonRole.AcceptRole)
    leave = box.addButton("Do not run", QMessageBox.ButtonRole.RejectRole)
    box.setDefaultButton(leave)
    box.setEscapeButton(leave)
    box.exec()
    return box.clickedButton() is run
