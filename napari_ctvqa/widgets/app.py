"""App: the docks, the toolbar, the layers and the keys around one Session in one viewer."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from qtpy.QtCore import QEvent, QObject, QRect, QSize, Qt, QTimer
from qtpy.QtOpenGLWidgets import QOpenGLWidget
from qtpy.QtWidgets import (
    QApplication,
    QDockWidget,
    QFileDialog,
    QLabel,
    QMainWindow,
    QSizePolicy,
    QTabBar,
    QToolBar,
    QVBoxLayout,
    QWidget,
)

from napari_ctvqa.core.cases import Level
from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.session import CaseState, Session
from napari_ctvqa.widgets.compare_view import CompareView
from napari_ctvqa.widgets.coordinator import Coordinator
from napari_ctvqa.widgets.docks import dock_of
from napari_ctvqa.widgets.export_dialog import ExportDialog
from napari_ctvqa.widgets.layers import CaseLayers
from napari_ctvqa.widgets.layouts import LEFT_PX, RIGHT_PX, Layouts
from napari_ctvqa.widgets.measure_menu import MeasureMenu
from napari_ctvqa.widgets.overlays import Overlays
from napari_ctvqa.widgets.panels import (
    audit,
    evidence,
    measure,
    model,
    probes,
    question,
    questions,
    run,
    segment,
    side_by_side,
    structures,
    validate,
)
from napari_ctvqa.widgets.planes import Planes
from napari_ctvqa.widgets.planes_area import Layout
from napari_ctvqa.widgets.player import Player, PlayerBar
from napari_ctvqa.widgets.probe import ProbeStrip
from napari_ctvqa.widgets.problems import ProblemBanner
from napari_ctvqa.widgets.projector import Projector
from napari_ctvqa.widgets.shortcuts import HelpSheet, Shortcuts
from napari_ctvqa.widgets.text import tooltip
from napari_ctvqa.widgets.theme import readable, theme_of
from napari_ctvqa.widgets.turns import Turns
from napari_ctvqa.widgets.view_tools import ViewTools
from napari_ctvqa.widgets.window_menu import PresetBox, WindowMenu

if TYPE_CHECKING:
    from collections.abc import Callable

    import napari

    from napari_ctvqa.core.cases import Volume

PLANES = ("axial", "coronal", "sagittal")
LEFT = ("Questions", "Run", "Model", "Validate", "Audit", "Probes")
RESEARCH_ONLY = "Research use only – not for diagnosis"

_apps: dict[int, App] = {}
"""By the viewer's id; an App removes itself when its window goes."""


def app_for(viewer: napari.Viewer, *, dock_questions: bool = True) -> App:
    """Return the viewer's App, made on the first call.

    ``dock_questions=False`` leaves the Questions panel for napari to dock (plugin menu).
    """
    viewer = getattr(viewer, "__wrapped__", viewer)  # plugins get the viewer behind a proxy
    if id(viewer) not in _apps:
        _apps[id(viewer)] = App(viewer, dock_questions=dock_questions)
    return _apps[id(viewer)]


class AppDock(QWidget):
    """What napari docks for Plugins ▸ CT-VQA: the Questions panel; the other panels dock beside.

    A class, since napari gives the viewer to classes only.
    """

    def __init__(self, napari_viewer: napari.Viewer) -> None:
        super().__init__()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        wrapped = getattr(napari_viewer, "__wrapped__", napari_viewer)
        if id(wrapped) in _apps:
            layout.addWidget(QLabel("CT-VQA is open already, beside the picture."))
        else:
            app = app_for(napari_viewer, dock_questions=False)
            layout.addWidget(app.panels["Questions"])


class App(QObject):
    """Everything of one viewer; lives as long as its window."""

    def __init__(self, viewer: napari.Viewer, *, dock_questions: bool = True) -> None:
        super().__init__()
        self.viewer = viewer
        self.session = Session()
        self.session.turns = Turns()
        self.layers = CaseLayers(viewer, self.session)
        self.coordinator = Coordinator(self.session, self.layers)
        self.panels: dict[str, QWidget] = {
            module.PANEL.title: module.PANEL(self.session)
            for module in (
                *(questions, run, model, validate, audit, probes),
                *(question, evidence, structures, side_by_side, segment, measure),
            )
        }
        self.banner = ProblemBanner(self.session)
        self.player = Player(
            self.session, lambda: self.panels["Evidence"].model, lambda: self.coordinator.busy
        )
        """The evidence chain as a film."""
        self.compare = CompareView(self.session, self.layers, self.nose_right)
        self._player_bar = PlayerBar(self.player, self.export)
        self._grown: tuple[QSize, QSize] | None = None
        self._size_px: tuple[int, ...] | None = tuple(viewer.window.geometry()[2:])
        self._add_docks(dock_questions)
        self.window: QMainWindow = self.panels["Evidence"].window()
        self.setParent(self.window)
        if not self.window.isVisible():
            self._size_px = None  # napari has not chosen its size yet
        self.canvas: QOpenGLWidget = self.window.centralWidget().findChild(QOpenGLWidget)
        """What the picture is drawn in."""
        viewer.canvas.background_color_override = "black"  # around a CT, in a light theme too
        self.planes = Planes(viewer, self.layers, self.canvas, self.window)
        self.layouts = Layouts(self.window, self.planes, self._docks, self._hide_stray_tab_bars)
        self.overlays = Overlays(viewer, self.layers, self.canvas, begun=False)
        self.projector = Projector(
            self.window, viewer, self.overlays.refresh, self.layouts.place_docks
        )
        self.tools = ViewTools(viewer, self.layers, self.canvas, self.session)
        self.probe = ProbeStrip(viewer, self.layers, self.canvas)
        for plane in self.planes.beside:
            self.tools.add_surface(plane)
            plane.pointed.connect(self.probe.show_index)
        self._add_probe()
        self.toolbar = ViewBar(self)
        self.window.addToolBar(self.toolbar)
        self._say_what_for()
        self._volume: Volume | None = None
        self.session.case_changed.connect(self._paint_volume)
        self.shortcuts = Shortcuts(self.window, {**self._actions(), **self.tools.actions()})
        self.tools.bind(self.shortcuts)
        if self.layers.presets.problems:
            self.session.update(
                problem=CtvqaError(
                    " ".join(self.layers.presets.problems),
                    hint="Correct that file of window presets; the others are used meanwhile.",
                )
            )
        key = id(viewer)
        self.window.destroyed.connect(lambda: _apps.pop(key, None))
        app = QApplication.instance()
        app.aboutToQuit.connect(self.close)
        QTimer.singleShot(0, self.arrange)

    # ----------------------------------------------------------------- docks

    def _add_docks(self, dock_questions: bool) -> None:
        for title, panel in self.panels.items():
            if title == "Questions" and not dock_questions:
                continue
            area = "left" if title in LEFT else "right"
            self.viewer.window.add_dock_widget(
                panel, name=title, area=area, add_vertical_stretch=False
            )
        bar = self.viewer.window.add_dock_widget(
            self.banner, name="Problem", area="top", add_vertical_stretch=False
        )
        bar.setTitleBarWidget(QWidget())
        bar.hide()
        self.session.problem_changed.connect(self._show_banner)

    def _add_probe(self) -> None:
        left, right = Qt.DockWidgetArea.LeftDockWidgetArea, Qt.DockWidgetArea.RightDockWidgetArea
        self.window.setCorner(Qt.Corner.BottomLeftCorner, left)
        self.window.setCorner(Qt.Corner.BottomRightCorner, right)
        strip = self.viewer.window.add_dock_widget(
            self.probe, name="Under the pointer", area="bottom", add_vertical_stretch=False
        )
        strip.setTitleBarWidget(QWidget())
        below = strip
        for widget, name in ((self._player_bar, "Player"), (self.compare, "Compare")):
            dock = self.viewer.window.add_dock_widget(
                widget, name=name, area="bottom", add_vertical_stretch=False
            )
            dock.setTitleBarWidget(QWidget())  # the toolbar and a key hide it
            self.window.splitDockWidget(below, dock, Qt.Orientation.Vertical)
            dock.hide()
            below = dock

    def _say_what_for(self) -> None:
        """Say it in the menu bar: a narrow window has no room for it in the tool bar."""
        note = QLabel(RESEARCH_ONLY, self.window.menuBar())
        note.setTextFormat(Qt.TextFormat.PlainText)
        note.setContentsMargins(12, 2, 12, 0)
        self.window.menuBar().setCornerWidget(note)
        note.show()

    def _paint_volume(self) -> None:
        """Paint a new CT now: masks that are read already would come before Qt's next painting."""
        case = self.session.case
        volume = None if case is None else case.volume
        if volume is not self._volume:
            self._volume = volume
            if volume is not None:
                self.canvas.repaint()
                QTimer.singleShot(0, self.overlays.begin)

    def _show_banner(self) -> None:
        dock = dock_of(self.banner)
        if dock is not None:
            dock.setVisible(self.session.problem is not None)

    def arrange(self) -> None:
        """Lay out: questions and runs left, question above evidence right, napari's own hidden."""
        self.show_napari_docks(False)
        docks = self._docks()
        if len(docks) < len(self.panels):
            return
        if docks["Run"] not in self.window.tabifiedDockWidgets(docks["Questions"]):
            # doing it again would leave the former tab bar behind, drawn over the panels
            self.window.addDockWidget(Qt.DockWidgetArea.LeftDockWidgetArea, docks["Questions"])
            self.window.tabifyDockWidget(docks["Questions"], docks["Run"])
            self.window.tabifyDockWidget(docks["Run"], docks["Model"])
            self.window.tabifyDockWidget(docks["Model"], docks["Validate"])
            self.window.tabifyDockWidget(docks["Validate"], docks["Audit"])
            self.window.tabifyDockWidget(docks["Audit"], docks["Probes"])
        docks["Questions"].raise_()
        if docks["Side by side"] not in self.window.tabifiedDockWidgets(docks["Evidence"]):
            upper, lower = docks["Question"], docks["Evidence"]
            self.window.splitDockWidget(upper, lower, Qt.Orientation.Vertical)
            self.window.tabifyDockWidget(lower, docks["Structures"])
            self.window.tabifyDockWidget(docks["Structures"], docks["Side by side"])
            self.window.tabifyDockWidget(docks["Side by side"], docks["Segment"])
            self.window.tabifyDockWidget(docks["Segment"], docks["Measure"])
        docks["Evidence"].raise_()
        self.window.resizeDocks(
            [docks["Questions"], docks["Question"]],
            [LEFT_PX, RIGHT_PX],
            Qt.Orientation.Horizontal,
        )
        self.window.resizeDocks(
            [docks["Question"], docks["Evidence"]], [300, 400], Qt.Orientation.Vertical
        )
        if self._size_px is not None:  # adding docks beside napari's own made the window grow
            self.viewer.window.resize(*self._size_px)
            self._size_px = None
        self.layouts.begin()

    def _docks(self) -> dict[str, QDockWidget]:
        """Return the docks of our panels by title; one that is not docked is missing."""
        found = {title: dock_of(panel) for title, panel in self.panels.items()}
        return {title: dock for title, dock in found.items() if dock is not None}

    def _hide_stray_tab_bars(self) -> None:
        """Hide tab bars that have the tabs of no docks as they lie now, and show those that do.

        Docks moved about leave a tab bar of each earlier layout, drawn over whatever lies there;
        and Qt takes one of those again without showing it, which leaves docks out of reach.
        """
        bars = [bar for bar in self.window.findChildren(QTabBar) if bar.parent() is self.window]
        told = {bar: {bar.tabText(n) for n in range(bar.count())} for bar in bars}
        places = self._tabbed_places()
        for group, place in places:
            mine = [bar for bar in bars if told[bar] == group and _below(bar, place)]
            if mine and not any(bar.isVisible() for bar in mine):
                mine[-1].show()
        for bar in bars:
            here = any(told[bar] == group and _below(bar, place) for group, place in places)
            if bar.isVisible() and not here:
                bar.hide()

    def _tabbed_places(self) -> list[tuple[set[str], QRect]]:
        """Return the titles of docks that share a place, and the place, for each in front."""
        docks = [d for d in self.window.findChildren(QDockWidget) if not d.isFloating()]
        places = []
        for dock in docks:
            together = [d for d in self.window.tabifiedDockWidgets(dock) if not d.isHidden()]
            if together and not dock.isHidden() and not dock.visibleRegion().isEmpty():
                titles = {d.windowTitle() for d in (dock, *together)}
                places.append((titles, dock.geometry()))
        return places

    def napari_docks(self) -> list[QDockWidget]:
        """Return napari's own layer list and layer controls."""
        names = {"layer list", "layer controls"}
        return [d for d in self.window.findChildren(QDockWidget) if d.objectName() in names]

    def show_napari_docks(self, shown: bool) -> None:
        """Show or hide napari's layer list, layer controls and status line.

        The status line speaks of napari's world coordinates, which are not the patient's; the
        strip under the picture has those.
        """
        for dock in self.napari_docks():
            dock.setVisible(shown)
        self.window.statusBar().setVisible(shown)

    # ------------------------------------------------------------------ keys

    def _actions(self) -> dict[str, Callable[[], None]]:
        wishes, layers = self.session.wishes, self.layers
        return {
            "next_question": partial(wishes.step_question.emit, 1),
            "previous_question": partial(wishes.step_question.emit, -1),
            "slice_up": partial(self._step_slice, -1),
            "slice_down": partial(self._step_slice, 1),
            "first_slice": partial(self._step_slice, -(10**6)),
            "last_slice": partial(self._step_slice, 10**6),
            **{plane: partial(layers.set_plane, plane) for plane in PLANES},
            "fit": self.planes.fit,
            "layout_one": partial(self.layouts.show, Layout.ONE),
            "layout_three": partial(self.layouts.show, Layout.THREE),
            "layout_four": partial(self.layouts.show, Layout.FOUR),
            "picture_alone": self.layouts.toggle_picture_alone,
            "projector": self.projector.toggle,
            "cross_hair": self.planes.toggle_cross_hair,
            "slab": layers.next_slab,
            "slab_thickness": layers.next_slab_thickness,
            "nose_side": self.planes.toggle_nose_side,
            "toggle_overlays": wishes.toggle_overlays.emit,
            "draw_reference": partial(wishes.draw_source.emit, "reference", ""),
            "draw_model": partial(wishes.draw_source.emit, "predicted", ""),
            "draw_tool": partial(wishes.draw_source.emit, "tool", ""),
            "solo": self.panels["Structures"].solo,
            "error_map": self.panels["Structures"].error_map,
            "structures": partial(self._raise, "Structures"),
            "next_step": partial(self._step_evidence, 1),
            "previous_step": partial(self._step_evidence, -1),
            "next_mask_slice": partial(wishes.mask_slice.emit, 1),
            "previous_mask_slice": partial(wishes.mask_slice.emit, -1),
            "back": wishes.back.emit,
            "reveal": wishes.reveal.emit,
            "run_question": self._ask_chosen,
            "reset_demo": wishes.open_demo.emit,
            "cancel_run": wishes.cancel_run.emit,
            "search": self._search,
            "open_folder": self.choose_folder,
            "toggle_layers": self._toggle_napari_docks,
            "play": self._play,
            "play_slower": partial(self.player.faster, -1),
            "play_faster": partial(self.player.faster, 1),
            "export": self.export,
            "compare": self.toggle_compare,
            "help": self.show_help,
        }

    def _ask_chosen(self) -> None:
        """Ask what Run has chosen; where that cannot be, the Run dock comes up and says why."""
        if not self.panels["Run"].ask():
            dock = dock_of(self.panels["Run"])
            if dock is not None:
                dock.raise_()

    def _step_slice(self, step: int) -> None:
        axis = PLANES.index(self.layers.plane)
        self.layers.go_to(axis, self.layers.current_slice(axis) + step)

    def _step_evidence(self, step: int) -> None:
        self.panels["Evidence"].step(step)

    def play(self, interval_ms: int) -> None:
        """Go through the evidence step by step, to the end and on with the next question's."""
        self.player.play(interval_ms)

    def _play(self) -> None:
        """Play the film, or pause it; its bar comes into view."""
        self._show_player()
        self.player.toggle()

    def _show_player(self) -> None:
        dock = dock_of(self._player_bar)
        if dock is not None:
            dock.show()

    def toggle_player(self) -> None:
        """Show or hide the player's bar."""
        self._toggle_dock(self._player_bar)

    def toggle_compare(self) -> None:
        """Show or hide the pictures of reference and models side by side."""
        self._toggle_dock(self.compare)

    def _toggle_dock(self, widget: QWidget) -> None:
        dock = dock_of(widget)
        if dock is not None:
            dock.setVisible(dock.isHidden())

    def export(self) -> None:
        """Ask what to save as files: this view, or the film."""
        ExportDialog(self.session, self.layers, self.player, self.nose_right, self.window).open()

    def nose_right(self) -> bool:
        """Return whether sagittal planes have the nose to the right."""
        return self.planes.nose_right

    def _raise(self, title: str) -> None:
        """Bring a panel to the front and give it the keys."""
        dock = dock_of(self.panels[title])
        if dock is not None:
            dock.show()
            dock.raise_()
        self.panels[title].setFocus()

    def _search(self) -> None:
        dock = dock_of(self.panels["Questions"])
        if dock is not None:
            dock.raise_()
        self.panels["Questions"].focus_search()

    def _toggle_napari_docks(self) -> None:
        shown = not any(d.isVisible() for d in self.napari_docks())
        before = self.window.size()
        self.show_napari_docks(shown)
        if shown:  # the docks' least sizes may make the window grow
            QTimer.singleShot(0, partial(self._remember_growth, before))
        elif self._grown is not None and self.window.size() == self._grown[1]:
            QTimer.singleShot(0, partial(self.window.resize, self._grown[0]))

    def _remember_growth(self, before: QSize) -> None:
        """Keep the size to go back to; a size that the reader chooses meanwhile stays."""
        self._grown = (before, self.window.size())

    def choose_folder(self) -> None:
        """Ask for a case or benchmark folder and open it."""
        chosen = QFileDialog.getExistingDirectory(self.window, "Open a case or benchmark folder")
        if chosen:
            self.session.wishes.open_path.emit(Path(chosen))

    def show_help(self) -> None:
        """Show all keys."""
        HelpSheet(self.tools.preset_bindings(), self.window).open()

    def close(self) -> None:
        """Stop all work; called when the window goes."""
        self.player.close()
        self.compare.close_view()
        self.coordinator.close()
        self.projector.close()
        self.probe.close_probe()
        self.tools.close()
        self.overlays.close()
        self.planes.close()
        self.layers.close()


def _below(bar: QTabBar, place: QRect) -> bool:
    return bool(place.left() <= bar.x() <= place.right())


class ViewBar(QToolBar):
    """Plane, window, overlays, the geometry light, and what the program is for."""

    def __init__(self, app: App) -> None:
        super().__init__("CT view")
        self.setObjectName("ctvqa_view_bar")
        self._session = app.session
        self.addAction("Open folder…", app.choose_folder)
        self.addSeparator()
        for plane in PLANES:
            self.addAction(plane.capitalize(), partial(app.layers.set_plane, plane))
        self.addSeparator()
        self.addWidget(PresetBox(app.session, app.tools.windowing))
        self.addWidget(WindowMenu(app.session, app.tools.windowing, app.tools.edit_presets))
        self.addWidget(MeasureMenu(app.session))
        self.addAction("Overlays", app.session.wishes.toggle_overlays.emit)
        self.addAction("Film", app.toggle_player)
        self.addAction("Compare", app.toggle_compare)
        self.addAction("Layers", app._toggle_napari_docks)
        self.addAction("Keys (F1)", app.show_help)
        spacer = QWidget()
        spacer.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.addWidget(spacer)
        self.light = QLabel()
        self.light.setTextFormat(Qt.TextFormat.PlainText)
        self.addWidget(self.light)
        app.session.case_changed.connect(self._show_light)
        self._show_light()

    def changeEvent(self, event: QEvent) -> None:
        """Keep the light readable when napari's theme changes."""
        super().changeEvent(event)
        kinds = (QEvent.Type.StyleChange, QEvent.Type.PaletteChange)
        if event.type() in kinds and hasattr(self, "light"):
            self._show_light()

    def _show_light(self) -> None:
        case = self._session.case
        if case is None:
            failed = self._session.case_state is CaseState.FAILED
            text = "case cannot be shown" if failed else self._session.case_message
            self.light.setText(text or "no case")
            self.light.setToolTip(tooltip(self._session.case_message))
            self.light.setStyleSheet("")  # the former case's colour says nothing of this
            return
        level = case.report.level
        symbol = {Level.GREEN: "●", Level.AMBER: "▲", Level.RED: "■"}[level]
        colour = {Level.GREEN: "#3fb950", Level.AMBER: "#e3b341", Level.RED: "#ff7b72"}[level]
        self.light.setText(f"{symbol} geometry {level.value}")
        ground = theme_of(self.palette()).window
        self.light.setStyleSheet(f"color: {readable(colour, ground)}; font-weight: 600;")
        reasons = "\n".join(f"{w.code}: {w.message}" for w in case.report.warnings)
        nothing = "Nothing suspicious was found in the headers and masks."
        self.light.setToolTip(tooltip(reasons or nothing))
