"""ModelForm: which model answers, how, with which tools, and where it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import Signal
from qtpy.QtWidgets import (
    QComboBox,
    QFileDialog,
    QFormLayout,
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QSpinBox,
    QWidget,
)

from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.io.run_settings import (
    MOST_IDLE_MIN,
    idle_minutes,
    last_at_once,
    last_servers,
    remember_at_once,
    remember_idle_minutes,
    remember_servers,
)
from napari_ctvqa.runners import hosts
from napari_ctvqa.runners.answering import AGENT, DIRECT
from napari_ctvqa.runners.choices import (
    BUILT_IN,
    PLACE,
    PRESET,
    Choice,
    Wanted,
    place_names,
)
from napari_ctvqa.widgets.decoding_rows import ConfidenceRow, DecodingRow
from napari_ctvqa.widgets.server_rows import AtOnce, ServerRows
from napari_ctvqa.widgets.text import Label, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MODE_WORDS = {DIRECT: "one look at the slices", AGENT: "agent, with tools"}
SERVER, FOLDER = "server", "folder"
MAX_SLICES = 400
GROUPS = {PLACE: "used before"}


class ModelForm(QWidget):
    """Rows that appear as the chosen model needs them; ``changed`` when anything was."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._choices: dict[str, Choice] = {}
        self._model = _box("Model or agent")
        self._about = Label(role="small")
        self._mode = _box("How it answers")
        self._kit = _box("Tool kit")
        self._where = _box("Where it runs")
        self._servers = ServerRows()
        self._at_once = AtOnce()
        self._served = _line("Model's name on the server", "the only one there")
        self._folder = _line("Model folder", "a folder with config.json")
        self._browse = QPushButton("Browse …")
        self._repository = _line("Folder of the model's own code", "a clone of its repository")
        self._base = _line("Folder of the model it was trained upon", "a folder with config.json")
        self._recipe = _box("Recipe of the preprocessing")
        self._python = _line("Python with torch", "this one")
        self._slices = QSpinBox()
        self._idle = QSpinBox()
        self._confidence = ConfidenceRow()
        self._decoding = DecodingRow()
        self._form = QFormLayout(self)
        self._build()
        self._connect()

    def _build(self) -> None:
        for mode, words in MODE_WORDS.items():
            self._mode.addItem(words, mode)
        self._where.addItem("a server", SERVER)
        self._where.addItem("a model folder on this machine", FOLDER)
        self._slices.setRange(0, MAX_SLICES)
        self._slices.setSpecialValueText("as the model's recipe says")
        self._slices.setAccessibleName("Slices sent")
        self._idle.setRange(0, MOST_IDLE_MIN)
        self._idle.setSpecialValueText("never")
        self._idle.setSuffix(" min without a question")
        self._idle.setAccessibleName("Unload after")
        self._idle.setToolTip("Then its process ends, which frees its memory; asked, it is loaded")
        self._idle.setValue(idle_minutes())
        self._servers.show_addresses(last_servers())
        self._at_once.setValue(last_at_once())
        folder = QWidget()
        row = QHBoxLayout(folder)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self._folder, 1)
        row.addWidget(self._browse)
        self._folder_row = folder
        self._form.setContentsMargins(0, 0, 0, 0)
        self._form.addRow(_title("Model or agent"), self._model)
        self._form.addRow(self._about)
        for title, part in (
            ("Answers by", self._mode),
            ("Tool kit", self._kit),
            ("Runs on", self._where),
            ("Server", self._servers),
            ("Its model", self._served),
            ("At once", self._at_once),
            ("Folder", self._folder_row),
            ("Its code", self._repository),
            ("Trained upon", self._base),
            ("Recipe", self._recipe),
            ("Python", self._python),
            ("Slices", self._slices),
            ("Confidence", self._confidence),
            ("Decoding", self._decoding),
            ("Unload after", self._idle),
        ):
            self._form.addRow(_title(title), part)

    def _connect(self) -> None:
        for box in (self._model, self._mode, self._where):
            box.currentIndexChanged.connect(self._show_rows)
        for line in (
            *(self._served, self._folder, self._python),
            *(self._repository, self._base),
        ):
            line.textChanged.connect(lambda _: self.changed.emit())
        for box in (self._kit, self._recipe):
            box.currentIndexChanged.connect(lambda _: self.changed.emit())
        self._servers.changed.connect(self._show_at_once)
        self._servers.changed.connect(self.changed)
        for number in (self._slices, self._at_once):
            number.valueChanged.connect(lambda _: self.changed.emit())
        self._idle.valueChanged.connect(remember_idle_minutes)
        self._idle.valueChanged.connect(lambda _: self.changed.emit())
        self._browse.clicked.connect(self._choose_folder)
        for row in (self._confidence, self._decoding):
            row.changed.connect(self.changed)

    # ---------------------------------------------------------------- content

    def show_choices(self, choices: Sequence[Choice]) -> None:
        """List what can be chosen; what was chosen stays chosen."""
        before = self._model.currentData()
        found = {_own_name(choice): choice for choice in choices}
        if list(found) == list(self._choices):
            self._choices = found
            self._show_rows()
            return
        self._choices = found
        blocked = self._model.blockSignals(True)
        self._model.clear()
        for name, choice in found.items():
            group = GROUPS.get(choice.kind, "")
            title = one_line(choice.title, 60)
            self._model.addItem(f"{title}  ({group})" if group else title, name)
        self._model.setCurrentIndex(max(0, self._model.findData(before)))
        self._model.blockSignals(blocked)
        self._show_rows()

    @property
    def choice(self) -> Choice | None:
        """Return what is chosen."""
        return self._choices.get(self._model.currentData())

    def choose(self, name: str) -> None:
        """Choose a model by its name; an unknown one changes nothing."""
        named = (key for key, choice in self._choices.items() if name in (key, choice.name))
        index = self._model.findData(next(named, ""))
        if index >= 0:
            self._model.setCurrentIndex(index)

    @property
    def wanted(self) -> Wanted | None:
        """Return what is to run, None without a choice."""
        choice = self.choice
        if choice is None:
            return None
        if choice.kind == BUILT_IN:
            return Wanted(choice.name)
        asked = self._asks_where
        server = self._servers.text if asked == SERVER else ""
        agent = self._mode.currentData() == AGENT and AGENT in choice.modes
        own, fixed = bool(choice.facts.get("loader")), bool(choice.facts.get("fixed_drawing"))
        slices, idle_min = self._slices.value(), self._idle.value()
        return Wanted(
            _own_name(choice),
            mode=AGENT if agent else DIRECT,
            kit=(self._kit.currentData() or "") if agent else "",
            server=server,
            server_model=self._served.text().strip() if server else "",
            folder=self._folder.text().strip() if asked == FOLDER else "",
            python=self._python.text().strip() if self._asks_python else "",
            settings=self._recipe_chosen if own else {"max_slices": slices} if slices else {},
            repository=self._repository.text().strip() if own else "",
            base=self._base.text().strip() if choice.facts.get("base") else "",
            idle_s=60.0 * idle_min if idle_min and self._runs_here else None,
            at_once=self._at_once.value() if self._on_servers else 0,
            decoding=self._decoding.way if self._runs_here and not fixed else "",
            confidence="" if agent or fixed else self._confidence.wish,
        )

    def remember(self) -> None:
        """Keep the servers for the next window: called when they are asked."""
        if self._asks_where == SERVER and not self.problem():
            remember_servers(self._servers.text)
        if self._on_servers:
            remember_at_once(self._at_once.value())

    def problem(self) -> str:
        """Return why this cannot be run now; empty where it can be tried."""
        choice, wanted = self.choice, self.wanted
        if choice is None or wanted is None:
            return "No model or agent can be used; the reasons are below."
        if choice.kind == PRESET and not (wanted.server or wanted.folder):
            what = "the server's address" if self._asks_where == SERVER else "the model's folder"
            return f"Give {what} first."
        if wanted.server:
            try:
                hosts.servers_of(wanted.server)
            except CtvqaError as error:
                return str(error)
        if choice.unavailable and not wanted.python and not _only_unconfirmed(choice):
            return f"This cannot be run now: {choice.unavailable}."
        return ""

    def host_line(self) -> str:
        """Return where the pictures go, in words; empty while that is not known."""
        choice, wanted = self.choice, self.wanted
        if choice is None or wanted is None or choice.kind == BUILT_IN:
            return ""
        server = wanted.server or (choice.place.server if choice.place is not None else "")
        if not server:
            return "" if self._asks_where == SERVER else "Nothing leaves this machine."
        try:
            asked = hosts.hosts_of(server)
        except CtvqaError:
            return ""
        return "\n".join(_host_lines(asked))

    # ------------------------------------------------------------------- rows

    @property
    def _asks_where(self) -> str:
        choice = self.choice
        if choice is None or choice.kind != PRESET:
            return ""
        if choice.facts.get("loader"):  # no server takes a volume
            return FOLDER
        return str(self._where.currentData())

    @property
    def _recipe_chosen(self) -> dict[str, str]:
        """Return the recipe where it is not the first one, which is the default."""
        recipe = self._recipe.currentData()
        return {"recipe": recipe} if recipe and self._recipe.currentIndex() > 0 else {}

    @property
    def _runs_here(self) -> bool:
        """Return whether what is chosen is loaded on this machine."""
        choice = self.choice
        if choice is None or choice.kind == BUILT_IN:
            return False
        if choice.kind == PLACE:
            return choice.place is not None and not choice.place.server
        return self._asks_where in ("", FOLDER)

    @property
    def _on_servers(self) -> bool:
        """Return whether what is chosen is asked on servers."""
        choice = self.choice
        if choice is not None and choice.kind == PLACE:
            return choice.place is not None and bool(choice.place.server)
        return self._asks_where == SERVER

    def _show_at_once(self) -> None:
        """Say how many questions at once are usual for these servers."""
        place = None if self.choice is None else self.choice.place
        used = place.server.split() if place is not None else ()
        self._at_once.show_for(len(used) or self._servers.count)

    @property
    def _asks_python(self) -> bool:
        choice = self.choice
        if choice is None or choice.kind == BUILT_IN:
            return False
        shipped = choice.kind not in (PRESET, PLACE)
        return self._asks_where == FOLDER or (shipped and bool(choice.unavailable))

    def _show_rows(self) -> None:
        choice = self.choice
        model = choice is not None and choice.kind != BUILT_IN
        agent = model and self._mode.currentData() == AGENT
        facts = {} if choice is None else choice.facts
        own, fixed = bool(facts.get("loader")), bool(facts.get("fixed_drawing"))
        agent = agent and choice is not None and AGENT in choice.modes
        self._show_kits(choice, agent=agent)
        _show_items(self._recipe, facts.get("recipes", ()))
        rows: dict[QWidget, bool] = {
            self._mode: model and len(choice.modes if choice is not None else ()) > 1,
            self._kit: agent and self._kit.count() > 0,
            self._where: self._asks_where != "" and not own,
            self._servers: self._asks_where == SERVER,
            self._served: self._asks_where == SERVER,
            self._folder_row: self._asks_where == FOLDER,
            self._repository: self._asks_where == FOLDER and "repository" in facts,
            self._base: self._asks_where == FOLDER and "base" in facts,
            self._recipe: own and self._recipe.count() > 1,
            self._at_once: self._on_servers,
            self._python: self._asks_python,
            self._slices: model and not own,
            self._idle: self._runs_here,
            self._confidence: model and not agent and not fixed,
            self._decoding: self._runs_here and not fixed,
        }
        for part, shown in rows.items():
            self._form.setRowVisible(part, shown)
        self._about.show_text(about(choice) if choice is not None else "")
        self._show_at_once()
        self.changed.emit()

    def _show_kits(self, choice: Choice | None, *, agent: bool) -> None:
        _show_items(self._kit, choice.kits if choice is not None and agent else ())

    def _choose_folder(self) -> None:
        found = QFileDialog.getExistingDirectory(self, "Model folder", self._folder.text())
        if found:
            self._folder.setText(str(Path(found)))


def _own_name(choice: Choice) -> str:
    """Return the name that is this choice's alone, whatever places there are besides.

    What is chosen stays chosen, and pictures go where the host line says.
    """
    return choice.name if choice.place is None else place_names(choice.place)[1]


def _show_items(box: QComboBox, names: Sequence[str]) -> None:
    """Offer these names in a box; the same ones again change nothing."""
    if [box.itemData(i) for i in range(box.count())] == list(names):
        return
    blocked = box.blockSignals(True)
    box.clear()
    for name in names:
        box.addItem(one_line(name, 60), name)
    box.blockSignals(blocked)


def _host_lines(asked: Sequence[str]) -> Iterator[str]:
    """Yield a line for this machine, for hosts that are confirmed, and for those that are not."""
    here = [host for host in asked if hosts.is_loopback(host)]
    known = [host for host in asked if host not in here and hosts.is_allowed(host)]
    new = [host for host in asked if host not in here and host not in known]
    if here:
        yield f"Pictures go to {_named(here)}, on this machine."
    for group, said in ((known, "confirmed"), (new, "you are asked once before")):
        if group:
            machine = "another machine" if len(group) == 1 else "other machines"
            yield f"Pictures go to {_named(group)}, {machine} ({said})."


def _named(group: Sequence[str]) -> str:
    return ", ".join(one_line(host, 120) for host in group)


def _only_unconfirmed(choice: Choice) -> bool:
    """Return whether the one thing in the way is a question that is asked before the run."""
    place = choice.place
    if place is None or not place.server:
        return False
    try:
        return not all(hosts.is_allowed(host) for host in hosts.hosts_of(place.server))
    except CtvqaError:
        return False


def about(choice: Choice) -> str:
    """Return what a person should know of a model before choosing it."""
    facts: dict[str, Any] = dict(choice.facts)
    parts = []
    if facts.get("toy"):
        parts.append("toy model: trained on phantoms, not valid on real CT")
    if facts.get("weights_gb"):
        parts.append(f"weights {facts['weights_gb']:g} GB")
    if facts.get("licence"):
        parts.append(f"licence {one_line(facts['licence'], 60)}")
    if facts.get("gated"):
        parts.append("access must be asked for")
    if facts.get("loader"):
        parts.append(f"needs {one_line(choice.needs, 300)}")
    if facts.get("hf_ids"):
        parts.append(one_line(", ".join(facts["hf_ids"][:2]), 90))
    return " · ".join(parts)


def _box(name: str) -> QComboBox:
    box = QComboBox()
    box.setAccessibleName(name)
    box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
    return box


def _line(name: str, placeholder: str) -> QLineEdit:
    line = QLineEdit()
    line.setAccessibleName(name)
    line.setPlaceholderText(placeholder)
    line.setMaxLength(2000)
    return line


def _title(text: str) -> Label:
    return Label(text, wrap=False, selectable=False)
