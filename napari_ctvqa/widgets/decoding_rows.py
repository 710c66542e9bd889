"""Two rows of the model form: how sure the model is to be asked, and how its tokens are chosen."""

from __future__ import annotations

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QComboBox, QHBoxLayout, QSpinBox, QWidget

from napari_ctvqa.core.confidence import MAX_SAMPLES
from napari_ctvqa.runners.confidence import (
    DEFAULT_SAMPLES,
    DEFAULT_TEMPERATURE,
    LOGITS,
    SAMPLES,
    Wish,
)
from napari_ctvqa.runners.worker_decoding import DEFAULT_K, MOST, NAME, Settings

_NOT = ""
CONFIDENCE_WORDS = {
    _NOT: "not asked for",
    LOGITS: "option probabilities",
    SAMPLES: "samples that agree",
}
DECODING_WORDS = {_NOT: "as usual", NAME: "MIS-SemSam"}
CONFIDENCE_TIP = (
    "Option probabilities come with an answer to a multiple-choice question, where the model or "
    f"its server tells them. Samples ask the question again, each at temperature "
    f"{DEFAULT_TEMPERATURE:g}: that takes as many times longer."
)
DECODING_TIP = (
    "MIS-SemSam counts tokens that mean the same together: each likely token is scored with its K "
    f"nearest neighbours. K, and M = {Settings().m} and p = {Settings().p:g} for what is likely, "
    "are assumed: the paper's values are not known."
)


class _Row(QWidget):
    """A choice of words, and a number that shows where the choice needs one."""

    changed = Signal()

    def __init__(
        self, name: str, words: dict[str, str], tip: str, needs: str, number: QSpinBox
    ) -> None:
        super().__init__()
        self._box, self._number, self._needs = QComboBox(), number, needs
        self._box.setAccessibleName(name)
        self._box.setSizeAdjustPolicy(
            QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        )
        for key, said in words.items():
            self._box.addItem(said, key)
        self._box.setToolTip(tip)
        number.setToolTip(tip)
        number.hide()
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self._box, 1)
        row.addWidget(number)
        self._box.currentIndexChanged.connect(self._show_number)
        number.valueChanged.connect(lambda _: self.changed.emit())

    @property
    def key(self) -> str:
        """Return the key of what is chosen, empty for nothing."""
        return str(self._box.currentData() or "")

    def choose(self, key: str) -> None:
        """Choose by key."""
        self._box.setCurrentIndex(max(0, self._box.findData(key)))

    def _show_number(self) -> None:
        self._number.setVisible(self.key == self._needs)
        self.changed.emit()


class ConfidenceRow(_Row):
    """How sure the model is to be asked."""

    def __init__(self) -> None:
        number = QSpinBox()
        number.setRange(2, MAX_SAMPLES)
        number.setValue(DEFAULT_SAMPLES)
        number.setSuffix(" samples")
        number.setAccessibleName("Number of samples")
        super().__init__("Confidence", CONFIDENCE_WORDS, CONFIDENCE_TIP, SAMPLES, number)

    @property
    def wish(self) -> str:
        """Return it as ``Wanted.confidence`` holds it."""
        if self.key != SAMPLES:
            return self.key
        return Wish(SAMPLES, self._number.value(), DEFAULT_TEMPERATURE).text


class DecodingRow(_Row):
    """How the tokens of a model that runs here are chosen."""

    def __init__(self) -> None:
        number = QSpinBox()
        number.setRange(1, MOST)
        number.setValue(DEFAULT_K)
        number.setPrefix("K = ")
        number.setAccessibleName("Neighbours of a token")
        super().__init__("Decoding", DECODING_WORDS, DECODING_TIP, NAME, number)

    @property
    def way(self) -> str:
        """Return it as ``Wanted.decoding`` holds it."""
        return Settings(k=self._number.value()).text if self.key == NAME else ""
