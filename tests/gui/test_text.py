"""Foreign text: plain, bounded, nothing invisible."""

import pytest
from qtpy.QtCore import QEvent, QObject, QPointF, Qt
from qtpy.QtGui import QEnterEvent, QTextDocument
from qtpy.QtWidgets import QApplication, QLabel, QVBoxLayout, QWidget

from napari_ctvqa.widgets.text import (
    BOX_LIMIT,
    Label,
    SteadyLabel,
    TextBox,
    number,
    one_line,
    pretty_json,
    tooltip,
    visible,
)


def test_control_characters_are_made_visible():
    assert visible("a\x00b\x1b[31m") == "a␀b␛[31m"
    assert visible("line\nnext\ttab") == "line\nnext\ttab"
    assert visible("dos\r\nline\rbare") == "dos\nline␍bare"


@pytest.mark.parametrize("code", [0x202E, 0x2066, 0x200B, 0x2028, 0xFEFF, 0xD800, 0xE0041, 0x85])
def test_invisible_and_direction_marks_are_named(code):
    assert visible(f"a{chr(code)}b") == f"a⟨U+{code:04X}⟩b"


def test_letters_of_all_scripts_stay():
    assert visible("Größe 3 cm³, 肝臓, كبد") == "Größe 3 cm³, 肝臓, كبد"


def test_long_text_is_cut_and_says_so():
    shown = visible("x" * 5_000_000)
    assert len(shown) < BOX_LIMIT + 50
    assert shown.endswith("… 4,980,000 more characters")
    assert len(one_line("y" * 5_000_000, 80)) == 81


def test_a_cell_is_one_line():
    assert one_line("a\nb\tc\r\nd") == "a b c d"


def test_a_tooltip_shows_markup_as_text():
    text = "<b>bold</b> & <img src='http://example.org/x.png'>"
    document = QTextDocument()
    document.setHtml(tooltip(text))
    assert document.toPlainText() == text
    assert "<b>" not in tooltip(text).removeprefix("<qt>")
    assert tooltip("") == ""


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (154.2, "cm³", "154.2 cm³"),
        (314.46, "cm³", "314.46 cm³"),
        (12345.0, "voxels", "12,345 voxels"),
        (-61.25, "HU", "-61.25 HU"),
        (0.00012, "", "0.00012"),
        (0.0, "lesions", "0 lesions"),
        (float("nan"), "HU", "nan HU"),
        ("Mild", "", "Mild"),
        (None, "cm", ""),
    ],
)
def test_numbers_keep_what_matters(value, unit, shown):
    assert number(value, unit) == shown


def test_a_label_never_reads_markup_and_hides_when_empty(qtbot):
    label = Label("<a href='http://example.org'>link</a>")
    qtbot.addWidget(label)
    assert label.textFormat() == Qt.TextFormat.PlainText
    assert "<a href=" in label.text()
    assert not label.openExternalLinks()
    label.show_text("")
    assert label.isHidden()


def test_a_label_never_widens_a_dock(qtbot):
    label = Label("/very" * 200 + "w" * 900)
    qtbot.addWidget(label)
    assert label.minimumSizeHint().width() <= 60
    label.resize(200, 400)
    assert label.heightForWidth(200) > 20 * label.fontMetrics().height()


def test_a_text_box_copies_the_whole_text_verbatim(qtbot):
    box = TextBox("Raw answer")
    qtbot.addWidget(box)
    raw = "Answer:\x00 C " + "z" * 100_000
    box.show_text(raw)
    assert len(box.toPlainText()) < BOX_LIMIT + 50
    box.copy_all()
    assert QApplication.clipboard().text() == raw
    assert box.isReadOnly()


def test_a_text_box_is_as_high_as_its_text_up_to_a_bound(qtbot):
    box = TextBox("Raw answer", max_lines=5)
    qtbot.addWidget(box)
    box.resize(300, 100)
    box.show_text("one")
    low = box.sizeHint().height()
    box.show_text("\n".join("abcdefghij"))
    high = box.sizeHint().height()
    assert low < high < low + 6 * box.fontMetrics().lineSpacing()


def test_json_of_a_hostile_record_is_bounded():
    deep: dict = {}
    inner = deep
    for _ in range(3_000):
        inner["a"] = {}
        inner = inner["a"]
    record = {
        "deep": deep,
        "long": "q" * 5_000_000,
        "list": list(range(100_000)),
        "o": object(),
        "keys": dict.fromkeys(map(str, range(10_000))),
    }
    text = pretty_json(record)
    assert len(text) < 60_000
    assert "4,998,000 more characters" in text
    assert "99,800 more entries" in text
    assert "9,800 more keys" in text
    assert "nested deeper" in text


class Layouts(QObject):
    """Counts how often what is in a widget is to be laid out again."""

    def __init__(self, widget):
        super().__init__(widget)
        self.count = 0
        widget.installEventFilter(self)

    def eventFilter(self, watched, event):
        self.count += event.type() == QEvent.Type.LayoutRequest
        return False


@pytest.mark.parametrize(("kind", "moved"), [(SteadyLabel, False), (Label, True)])
def test_a_steady_label_moves_nothing_around_it(qtbot, kind, moved):
    holder, label = QWidget(), kind()
    qtbot.addWidget(holder)
    QVBoxLayout(holder).addWidget(label)
    label.show_text("Working · 0.5 s")
    holder.resize(200, 100)
    holder.show()
    qtbot.waitExposed(holder)
    qtbot.wait(30)
    layouts, before = Layouts(holder), label.height()
    label.show_text("Working · 1.0 s · 12 tokens, and some more words than fit into one line")
    qtbot.wait(30)
    assert (layouts.count > 0) is moved
    assert moved or label.height() == before
    assert "12 tokens" in label.text().replace("\u200b", "")
    label.show_text("")
    assert not label.isVisible()
    label.show_text("again")
    assert label.isVisible()


def test_a_steady_label_shows_its_text_plain_and_wrapped(qtbot):
    label = SteadyLabel()
    qtbot.addWidget(label)
    label.resize(120, 60)
    label.show_text("<b>one</b> two three four five six seven\u202e")
    label.show()
    qtbot.waitExposed(label)
    assert "⟨U+202E⟩" in label.text()
    picture = label.grab().toImage()
    background = picture.pixel(picture.width() - 1, picture.height() - 1)
    line = label.fontMetrics().lineSpacing()
    inked = [
        any(picture.pixel(x, y) != background for x in range(picture.width()))
        for y in range(picture.height())
    ]
    assert any(inked[:line])
    assert any(inked[line : 2 * line]), "the second line, too"


def test_a_label_measures_its_text_anew_when_text_or_font_change(qtbot):
    label, fresh = Label("one word after the other, and more of them " * 3), Label()
    for each in (label, fresh):
        qtbot.addWidget(each)
    for change in (
        lambda: None,
        lambda: label.show_text("two lines\nof text"),
        lambda: label.setStyleSheet("font-size: 30px"),
    ):
        change()
        label.ensurePolished()
        fresh.setStyleSheet(label.styleSheet())
        fresh.show_text(label.text())
        fresh.ensurePolished()
        for width in (120, 400):
            assert label.heightForWidth(width) == QLabel.heightForWidth(fresh, width)
        assert label.minimumSizeHint().height() <= QLabel.minimumSizeHint(fresh).height()


def test_a_labels_text_can_be_selected_while_the_pointer_is_over_it(qtbot):
    label = Label("to be copied")
    qtbot.addWidget(label)
    label.show()
    none, by_mouse = (
        Qt.TextInteractionFlag.NoTextInteraction,
        Qt.TextInteractionFlag.TextSelectableByMouse,
    )
    enter = QEnterEvent(QPointF(2, 2), QPointF(2, 2), QPointF(2, 2))
    assert label.textInteractionFlags() != by_mouse
    QApplication.sendEvent(label, enter)
    assert label.textInteractionFlags() == by_mouse
    label.setSelection(0, 5)
    QApplication.sendEvent(label, QEvent(QEvent.Type.Leave))
    assert label.selectedText() == "to be"  # kept, so that Ctrl+C copies it
    label.setSelection(0, 0)
    QApplication.sendEvent(label, QEvent(QEvent.Type.Leave))
    assert label.textInteractionFlags() == none
    fixed = Label("a heading", selectable=False)
    qtbot.addWidget(fixed)
    QApplication.sendEvent(fixed, enter)
    assert fixed.textInteractionFlags() != by_mouse
