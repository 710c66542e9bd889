"""What ``worker.py`` does with a volume model, or one that only its own repository loads.

The engine of ``worker_engine.py`` with other ways to load and to ask: one loader for each family
(``LOADERS``), which calls the model's own library or code as its authors' demonstrations do. Code
that lies in a model folder or a repository is run only where the load command says that a person
allowed exactly this code. Nothing but the standard library is imported before a model is loaded;
any Python from 3.9 reads this.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import importlib
import importlib.util
import inspect
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

MAX_CODE_FILES = 5000
MAX_CODE_FOLDERS = 50_000
MAX_CODE_BYTES = 200_000_000
MAX_CONFIG_BYTES = 4_000_000
_CODE = (".py", ".pyw", ".pyc", ".so", ".pyd")
"""What Python imports, on any system."""
_VERSION_WITH_DTYPE = (4, 56)
"""Until then transformers called the argument ``torch_dtype``."""
_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.pth")


def code_files(folder: Path) -> list[Path]:
    """Return the files under a folder that an import can run, sorted.

    Compiled ones, too, as they take the place of a source beside them; and what lies behind links.

    Raises
    ------
    ValueError
        When there are more of them, or of folders, than any model's code has.
    """
    found: list[Path] = []
    for number, (where, folders, names) in enumerate(os.walk(folder, followlinks=True)):
        code = [Path(where, name) for name in names if name.lower().endswith(_CODE)]
        found.extend(path for path in code if path.is_file())
        if len(found) > MAX_CODE_FILES or number > MAX_CODE_FOLDERS:
            raise ValueError(
                f"{folder} holds more than {MAX_CODE_FILES} Python files or "
                f"{MAX_CODE_FOLDERS} folders"
            )
        folders[:] = [name for name in folders if not _leads_back(where, name)]
    return sorted(found)


def _leads_back(where: str, name: str) -> bool:
    """Return whether a folder is a link to one that it lies in."""
    path = Path(where, name)
    if not path.is_symlink():
        return False
    here, there = Path(where).resolve(), path.resolve()
    return there == here or there in here.parents


def code_mark(folders: list[Path]) -> str:
    """Return a mark of all code under these folders: names and contents; empty for none.

    Raises OSError or ValueError where it cannot be read, or there is too much of it.
    """
    mark = hashlib.sha256()
    size = 0
    for number, folder in enumerate(folders):
        for path in code_files(folder):
            size += path.stat().st_size
            if size > MAX_CODE_BYTES:
                raise ValueError(f"the code under {folder} is larger than {MAX_CODE_BYTES} bytes")
            content = path.read_bytes()
            name = path.relative_to(folder).as_posix()
            mark.update(f"{number} {name} {len(content)}\n".encode("utf-8", "surrogatepass"))
            mark.update(content)
    return mark.hexdigest()[:16] if size else ""


def code_folders(loader: str, folder: Path, repository: str) -> list[Path]:
    """Return where the code lies that a loader runs.

    Merlin's folder may be one of many libraries, of which it is given its own and the tokenizer
    that it downloaded.
    """
    if loader == "merlin":
        return [folder / "merlin", folder / "checkpoints"]
    return [folder, Path(repository)] if repository else [folder]


def check_names_no_other(folder: Path, failure: Any) -> None:
    """Refuse a model whose configuration takes its code from elsewhere: ``owner/name--file.Class``.

    transformers would run that code, whatever was allowed.
    """
    for name in ("config.json", "tokenizer_config.json"):
        path = folder / name
        if not path.is_file():
            continue
        if path.stat().st_size > MAX_CONFIG_BYTES:
            raise failure("bad_model", f"{path} is larger than {MAX_CONFIG_BYTES} bytes.")
        try:
            read = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise failure("bad_model", f"{path} is no JSON: {str(error)[:200]}.") from None
        named = read.get("auto_map") if isinstance(read, dict) else None
        if "--" in json.dumps(named):
            raise failure(
                "bad_model",
                f"{path} takes its code from another place than its folder, which is not run.",
                "Put that code into the folder and take what stands before -- out of auto_map.",
            )


def _base() -> Any:
    """Return the module of the engine that this one builds on: the file beside it."""
    name = "worker_engine_of_pictures"
    if name not in sys.modules:
        path = Path(__file__).resolve().with_name("worker_engine.py")
        specification = importlib.util.spec_from_file_location(name, path)
        if specification is None or specification.loader is None:
            raise ImportError(f"{path} is no Python file")
        module = importlib.util.module_from_spec(specification)
        sys.modules[name] = module
        specification.loader.exec_module(module)
    return sys.modules[name]


_PICTURES: Any = _base()


class Engine(_PICTURES.Engine):  # type: ignore[misc]
    """One volume model, loaded once by the loader that the load command names."""

    def __init__(self, failure: Any) -> None:
        super().__init__(failure)
        self._loader: Any = None

    # -- loading ---------------------------------------------------------------------------------

    def estimate(self, wish: dict[str, Any]) -> dict[str, Any]:
        """Return bytes needed and free (None when not known), device and dtype of a wish."""
        device, dtype = self._placed(wish)
        size = {"float32": 4, "float16": 2, "bfloat16": 2}.get(dtype, 2)
        folder = Path(wish["folder"])
        # Many folders hold the same weights twice, as safetensors and as pickled files.
        found = (list(folder.glob(pattern)) for pattern in _WEIGHTS)
        stored = sum(path.stat().st_size for path in next(filter(None, found), []))
        if stored:
            stored = stored * size // {"float16": 2, "bfloat16": 2}.get(_stored(folder), 4)
        return {
            "needed_bytes": int(stored * _PICTURES.SPARE) or None,
            "free_bytes": self._free_bytes(device),
            "device": device,
            "dtype": dtype,
        }

    def load(self, wish: dict[str, Any], talk: Any) -> dict[str, Any]:
        """Load a model by its loader; what is known of it comes back."""
        kind = LOADERS.get(str(wish.get("loader")))
        if kind is None:
            raise self._failure(
                "bad_model", f"There is no loader {str(wish.get('loader'))[:80]!r}."
            )
        self._check_code(wish)
        talk.status("Starting torch")
        begun = time.monotonic()
        placed = self.estimate(wish)
        self._check_memory(wish, placed)
        talk.status("Loading the model by its own code")
        loader = kind(self._torch, wish, placed, self._failure)
        try:
            loader.load(talk)
        except (ImportError, MemoryError):
            raise
        except Exception as error:  # whatever a repository's code raises
            if isinstance(error, self._failure) or "out of memory" in str(error).lower():
                raise
            text = f"{type(error).__name__}: {error}"
            raise self._failure(
                "bad_model",
                f"{wish['folder']} cannot be loaded: {' '.join(text.split())[:300]}",
                "See what the model needs: napari-ctvqa models --json.",
                text[:4000],
            ) from error
        self._loader = loader
        self._model = loader.model
        self._facts = {
            "folder": wish["folder"],
            "model_type": str(wish["loader"]),
            "device": placed["device"],
            "dtype": placed["dtype"],
            "needed_bytes": placed["needed_bytes"],
            "torch": self._torch.__version__,
            "transformers": _version("transformers"),
            "threads": self._torch.get_num_threads(),
            "seconds": time.monotonic() - begun,
        }
        return dict(self._facts)

    def _check_code(self, wish: dict[str, Any]) -> None:
        """Refuse code that nobody allowed, and code that is another one than was allowed."""
        folders = code_folders(wish["loader"], Path(wish["folder"]), wish.get("repository") or "")
        mark = code_mark(folders)
        sys.dont_write_bytecode = True  # compiled code beside the allowed one would be other code
        check_names_no_other(Path(wish["folder"]), self._failure)
        if not mark:
            return
        named = " and ".join(str(one) for one in folders)
        if not wish.get("trust_remote_code"):
            raise self._failure(
                "bad_model",
                f"{named} holds code of its own, which is not run.",
                "Allow it if you trust where it came from: --trust-code.",
            )
        if mark != wish.get("code_mark"):
            raise self._failure(
                "bad_model",
                f"The code in {named} is not what was allowed ({wish.get('code_mark')}, now "
                f"{mark}).",
                "Look at what changed and allow it again: --trust-code.",
            )

    # -- answering -------------------------------------------------------------------------------

    def ask(self, request: dict[str, Any], talk: Any) -> dict[str, Any]:
        """Answer one request; text goes out as it comes where the model's code lets it."""
        if self._loader is None:
            raise self._failure("bad_model", "No model is loaded.", "Load one first.")
        begun = time.monotonic()
        torch, sampling = self._torch, request["sampling"]
        if sampling["temperature"] > 0 and sampling["seed"] is not None:
            torch.manual_seed(int(sampling["seed"]))
        talk.status("Reading the volume" if request.get("volume") else "Reading the picture")
        heard = Heard(self, talk, request)
        if talk.cancelled.is_set():
            return {"text": "", "reason": "cancelled"}
        with torch.no_grad():
            text = self._loader.answer(request, heard)
        heard.tell()
        talk.event(
            "usage",
            prompt_tokens=heard.prompt_tokens,
            new_tokens=heard.new_tokens,
            first_token_s=None if heard.first_at is None else heard.first_at - begun,
            seconds=time.monotonic() - begun,
        )
        done = {"text": text, "reason": "stop"}
        if talk.cancelled.is_set():
            done["reason"] = "cancelled"
        elif heard.cut:
            done["reason"] = "length"
        if heard.mask is not None:
            done["mask"] = heard.mask
        return done

    @property
    def _tokenizer(self) -> Any:
        return self._loader.tokenizer

    @property
    def _words(self) -> Any:
        return self._loader.words

    def stopper(self, talk: Any, stream: Any) -> Any:
        """Return what ``generate`` asks after each token; not every model says its ``device``."""
        torch, cancelled = self._torch, talk.cancelled.is_set

        def criterion(tokens: Any, *_: Any, **__: Any) -> Any:
            over = bool(stream.stopped or cancelled())
            return torch.full((tokens.shape[0],), over, dtype=torch.bool, device=tokens.device)

        return criterion

    def free(self) -> None:
        """Give back what a failed question left behind; the model stays."""
        gc.collect()
        super().free()


class Heard:
    """What a loader says of one answer while it comes, and what ``generate`` is given for it."""

    def __init__(self, engine: Any, talk: Any, request: dict[str, Any]) -> None:
        self._engine = engine
        self._talk = talk
        self._request = request
        self._stream: Any = None
        self.prompt_tokens: int | None = None  # type: ignore[annotation-unchecked,unused-ignore]
        self.mask: dict[str, Any] | None = None
        self._longest = int(request["sampling"]["max_new_tokens"])
        self._meaning: list[Any] = []

    @property
    def new_tokens(self) -> Any:
        """Return how many tokens came; None where the model's code does not show them."""
        return None if self._stream is None else self._stream.tokens

    @property
    def first_at(self) -> Any:
        """Return when the first token came, None where that is not known."""
        return None if self._stream is None else self._stream.first_at

    @property
    def cut(self) -> bool:
        """Return whether the answer ended because it may be no longer."""
        stream = self._stream
        return (
            stream is not None
            and stream.tokens >= self._longest
            and not stream.stopped
            and stream.last_token not in stream.ends
        )

    def generation(self, tokenizer: Any, ends: Any) -> dict[str, Any]:
        """Return what ``generate`` takes: how to draw, where text goes, when to stop."""
        sampling = self._request["sampling"]
        known = set(ends) if isinstance(ends, (list, tuple)) else {ends} - {None}
        self._stream = _PICTURES.Stream(
            lambda tokens: tokenizer.decode(tokens, skip_special_tokens=False),
            self._talk,
            known,
            list(sampling["stop"]),
        )
        self._stream.ends = known
        drawing: dict[str, Any] = {
            "max_new_tokens": self._longest,
            "streamer": self._stream,
            "stopping_criteria": [self._engine.stopper(self._talk, self._stream)],
        }
        self._meaning = self._engine._by_meaning(sampling, self._talk)
        if not self._meaning:
            return {**_PICTURES._drawing(sampling), **drawing}
        drawing["logits_processor"] = self._meaning
        return {**_PICTURES._drawing_of(self._meaning[0], sampling), **drawing}

    def tell(self) -> None:
        """Tell how the tokens were chosen, where not as usual."""
        for one in self._meaning:
            self._talk.status(one.told)

    @property
    def text(self) -> str:
        """Return the text that was streamed."""
        return str(self._stream.text)

    def whole(self, text: str) -> str:
        """Send a text that came at once, cut at the first of the texts that end an answer."""
        for stop in self._request["sampling"]["stop"]:
            text = text.split(stop, 1)[0]
        if text:
            self._talk.event("tokens", text=text)
        return text

    def keep_mask(self, mask: Any) -> None:
        """Put a mask in model voxels into the private folder; ``mask`` is boolean, three axes."""
        import numpy as np

        folder = Path(self._request["pictures"])
        name = f"mask-{self._talk.id}.npy"
        np.save(folder / name, np.ascontiguousarray(mask, dtype=bool), allow_pickle=False)
        self.mask = {"file": name, "voxels": int(mask.sum())}


# ------------------------------------------------------------------------------------- the loaders


class Loader:
    """Loads one family and asks it. ``load`` sets ``model``; ``answer`` returns the whole text."""

    def __init__(
        self, torch: Any, wish: dict[str, Any], placed: dict[str, Any], failure: Any
    ) -> None:
        self.torch = torch
        self.wish = wish
        self.folder = Path(wish["folder"])
        self.repository = Path(wish["repository"]) if wish.get("repository") else None
        self.device = str(placed["device"])
        self.dtype = getattr(torch, placed["dtype"])
        self.failure = failure
        self.model: Any = None
        self.tokenizer: Any = None

    def load(self, talk: Any) -> None:
        """Load tokenizer and model."""
        raise NotImplementedError

    def answer(self, request: dict[str, Any], heard: Heard) -> str:
        """Return the text that the model gives to one request."""
        raise NotImplementedError

    @property
    def words(self) -> Any:
        """Return the embeddings of the tokens that it says, one row each."""
        return self.model.get_input_embeddings().weight

    def volume(self, request: dict[str, Any]) -> Any:
        """Return the tensor of a request, batch and channels before the volume's own axes.

        The file is mapped; the one copy that is made goes to the model's device.
        """
        import numpy as np

        said = request["volume"]
        values = np.load(
            Path(request["pictures"]) / Path(said["file"]).name, mmap_mode="r", allow_pickle=False
        )
        shape, wanted = tuple(said["tensor_shape"]), tuple(said["tensor_shape"])[-3:]
        if values.shape != wanted or values.dtype != np.float32:
            raise self.failure("bad_model", f"a volume of {values.shape}, not of {wanted}")
        tensor = self.torch.tensor(values, dtype=self.dtype, device=self.device)
        return tensor.expand(shape) if shape[-4] > 1 else tensor.reshape(shape)

    def fill(self, model: Any, path: Path, prefix: str = "") -> None:
        """Put a checkpoint's tensors into a model; nothing pickled in it is run.

        Every parameter must be there; ``prefix`` is taken from the names where they have it.
        """
        state = self.torch.load(str(path), map_location="cpu", weights_only=True)
        for name in ("state_dict", "model"):
            state = state.get(name, state) if isinstance(state.get(name), dict) else state
        named = {
            key[len(prefix) :]: value for key, value in state.items() if key.startswith(prefix)
        }
        missing = model.load_state_dict(named or state, strict=False).missing_keys
        if missing:
            raise self.failure(
                "bad_model", f"{path} lacks {len(missing)} parameters, the first is {missing[0]}."
            )

    def insert(self, *folders: Path) -> None:
        """Put a repository's folders before everything else that can be imported."""
        for folder in folders:
            if folder.is_dir() and str(folder) not in sys.path:
                sys.path.insert(0, str(folder))

    def repository_folder(self, what: str) -> Path:
        """Return the repository; raises where none was named."""
        if self.repository is None or not self.repository.is_dir():
            raise self.failure(
                "bad_model", f"{what} is loaded by its own repository, and none is named.",
                "Clone it and name the folder: --repository.",
            )  # fmt: skip
        return self.repository


class CausalVolume(Loader):
    """M3D-LaMed and Med3DVLM: a causal model with code of its own in the model folder."""

    def load(self, talk: Any) -> None:
        """Load both by ``Auto…`` with the folder's code, as the README does."""
        import transformers

        source = {"local_files_only": True, "trust_remote_code": True}
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(
            str(self.folder), model_max_length=512, padding_side="right", use_fast=False, **source
        )
        talk.status("Loading the weights")
        dtype = (
            "dtype" if _numbers(transformers.__version__) >= _VERSION_WITH_DTYPE else "torch_dtype"
        )
        model = transformers.AutoModelForCausalLM.from_pretrained(
            str(self.folder), **source, **{dtype: self.dtype}
        )
        self.model = model.to(self.device).eval()

    def answer(self, request: dict[str, Any], heard: Heard) -> str:
        """Return the text; a mask, where one was asked for and the model gives one, is kept."""
        text = _user_text(request)
        ids = self.tokenizer(text, return_tensors="pt")["input_ids"].to(self.device)
        heard.prompt_tokens = int(ids.shape[1])
        config = getattr(self.model, "generation_config", self.model.config)
        drawing = heard.generation(self.tokenizer, getattr(config, "eos_token_id", None))
        segment = bool(request["processor"].get("seg_enable"))
        if segment:
            drawing["seg_enable"] = True
        came = self.model.generate(images=self.volume(request), inputs=ids, **drawing)
        if segment and isinstance(came, tuple):
            self._keep(came[1], request, heard)
        return heard.text

    def _keep(self, logits: Any, request: dict[str, Any], heard: Heard) -> None:
        """Keep sigmoid > 1/2, which is logits > 0; all of it -inf says that there is no mask."""
        wanted = tuple(request["volume"]["tensor_shape"])[-3:]
        logits = logits.float().reshape(-1, *logits.shape[-3:])
        if tuple(logits.shape) == (1, *wanted) and bool(self.torch.isfinite(logits).any()):
            heard.keep_mask((logits[0] > 0).cpu().numpy())


class RadFM(Loader):
    """RadFM by its repository; its own ``generate`` takes no settings, text comes at once."""

    IMAGES, SLOTS = 100, 32
    """Image tokens that its demonstration gives the tokenizer; their order is the embedding's."""

    def load(self, talk: Any) -> None:
        """Load tokenizer and model as ``Quick_demo/test.py`` does, weights without pickled code."""
        import transformers

        repository = self.repository_folder("RadFM")
        self.insert(repository / "src", repository / "Quick_demo", repository)
        code = importlib.import_module("Model.RadFM.multimodality_model")
        words = str(self.folder / "Language_files")
        tokenizer = transformers.LlamaTokenizer.from_pretrained(words)
        slots = [f"<image{number}>" for number in range(self.IMAGES * self.SLOTS)]
        tokenizer.add_special_tokens({"additional_special_tokens": ["<image>", "</image>", *slots]})
        tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id = 0, 1, 2
        self.tokenizer = tokenizer
        talk.status("Loading the weights")
        model = code.MultiLLaMAForCausalLM(lang_model_path=words)
        self.fill(model, self.folder / "pytorch_model.bin")
        self.model = model.to(device=self.device, dtype=self.dtype).eval()

    def answer(self, request: dict[str, Any], heard: Heard) -> str:
        """Return the text of ``generate(words, volume)``."""
        ids = self.tokenizer(
            _user_text(request), max_length=2048, truncation=True, return_tensors="pt"
        )["input_ids"].to(self.device)
        heard.prompt_tokens = int(ids.shape[1])
        came = self.model.generate(ids, self.volume(request))
        return heard.whole(str(self.tokenizer.batch_decode(came, skip_special_tokens=True)[0]))


class Merlin(Loader):
    """Merlin's report generation by its library, merlin-vlm; in float32 as its weights are."""

    def load(self, talk: Any) -> None:
        """Build the model that the library builds; it reads its checkpoint from its own folder."""
        library = _package("merlin", self.folder / "merlin")
        talk.status("Loading the weights")
        before = Path.cwd()
        os.chdir(self.folder)  # the library keeps its tokenizer in ./checkpoints
        try:
            self.model = library.Merlin(RadiologyReport=True).eval().to(self.device)
        finally:
            os.chdir(before)
        self.dtype = self.torch.float32
        self.tokenizer = self.model.model.decode_text.tokenizer

    @property
    def words(self) -> Any:
        """Return the embeddings of its language part."""
        return self.model.model.decode_text.text_decoder.get_input_embeddings().weight

    def answer(self, request: dict[str, Any], heard: Heard) -> str:
        """Return the text, which ends with ``###`` in the model's language."""
        text = _user_text(request)
        heard.prompt_tokens = len(self.tokenizer(text)["input_ids"])
        drawing = heard.generation(self.tokenizer, self.tokenizer.eos_token_id)
        half = self.torch.autocast("cuda", self.torch.float16)
        with half if self.device.startswith("cuda") else contextlib.nullcontext():
            self.model.generate(self.volume(request), [text], num_beams=1, **drawing)
        return heard.text


class Llava(Loader):
    """LLaVA-Med and other forks of LLaVA by their repository: pictures and a conversation."""

    def load(self, talk: Any) -> None:
        """Load by the repository's ``load_pretrained_model``, which goes by the folder's name."""
        repository = self.repository_folder(self.folder.name)
        self.insert(repository, repository / "thirdparty" / "VILA")
        builder = importlib.import_module("llava.model.builder")
        self.utils = importlib.import_module("llava.mm_utils")
        self.conversations = importlib.import_module("llava.conversation").conv_templates
        self.image_index = importlib.import_module("llava.constants").IMAGE_TOKEN_INDEX
        talk.status("Loading the weights")
        given = {
            "model_path": str(self.folder),
            "model_base": self.wish.get("base") or None,
            "model_name": self.utils.get_model_name_from_path(str(self.folder)),
            "device": self.device.split(":")[0],
        }
        load = builder.load_pretrained_model
        given = {name: value for name, value in given.items() if _accepts(load, name)}
        self.tokenizer, self.model, self.processor = load(**given)[:3]
        self.model = self.model.eval()

    def answer(self, request: dict[str, Any], heard: Heard) -> str:
        """Return the text to a conversation, told in the repository's own template."""
        ids = self.utils.tokenizer_image_token(
            self.prompt(request), self.tokenizer, self.image_index, return_tensors="pt"
        )
        ids = ids.unsqueeze(0).to(self.device)
        heard.prompt_tokens = int(ids.shape[1])
        config = getattr(self.model, "generation_config", self.model.config)
        drawing = heard.generation(self.tokenizer, getattr(config, "eos_token_id", None))
        fewest = request["processor"].get("min_new_tokens")
        if fewest is not None:
            drawing["min_new_tokens"] = int(fewest)
        images = self.images(request)
        if "image_sizes" in inspect.signature(self.model.generate).parameters:
            drawing["image_sizes"] = self.sizes(request, images)
        self.model.generate(ids, images=images, use_cache=True, **drawing)
        return heard.text

    def prompt(self, request: dict[str, Any]) -> str:
        """Return the words in the template that the family names, open for the answer."""
        name = str(request["processor"].get("conversation"))
        if name not in self.conversations:
            raise self.failure("bad_model", f"the repository knows no conversation {name[:80]!r}")
        conversation = self.conversations[name].copy()
        for message in request["messages"]:
            text = "".join(part["text"] for part in message["parts"] if "text" in part)
            if message["role"] == "system":
                conversation.system = text
            else:
                role = conversation.roles[message["role"] == "assistant"]
                conversation.append_message(role, text)
        open_turn = "" if "LLAMA_3" in str(conversation.sep_style) else None
        conversation.append_message(conversation.roles[1], open_turn)
        return str(conversation.get_prompt())

    def images(self, request: dict[str, Any]) -> Any:
        """Return the pictures as the repository's ``process_images`` makes them."""
        folder = Path(request["pictures"])
        pictures = [_PICTURES._picture(folder, name) for name in _PICTURES._pictures(request)]
        tensor = self.utils.process_images(pictures, self.processor, self.model.config)
        return tensor.to(self.device, dtype=self.dtype)

    def sizes(self, request: dict[str, Any], images: Any) -> Any:
        """Return what some forks want to know of the pictures: width and height of each."""
        folder = Path(request["pictures"])
        return [_PICTURES._picture(folder, name).size for name in _PICTURES._pictures(request)]


class Vila(Llava):
    """VILA-M3: as ``Llava``; its pictures go in as a list of one tensor."""

    def images(self, request: dict[str, Any]) -> Any:
        """Return the pictures as its demonstration gives them."""
        return [super().images(request)]


class CTChat(Llava):
    """CT-CHAT: as ``Llava``, with the tokens of its CT encoder in the place of pictures."""

    def load(self, talk: Any) -> None:
        """Load the chat model, then the encoder, whose weights lie in the same folder."""
        super().load(talk)
        talk.status("Loading the encoder")
        code = importlib.import_module("transformer_maskgit")
        encoder = code.CTViT(
            dim=512,
            codebook_size=8192,
            image_size=480,
            patch_size=20,
            temporal_patch_size=10,
            spatial_depth=4,
            temporal_depth=4,
            dim_head=32,
            heads=8,
        )
        self.fill(encoder, self.folder / "clip_visual_encoder.pth", "visual_transformer.")
        self.encoder = encoder.to(self.device).eval()
        self._encoded: tuple[str, Any] = ("", None)

    def images(self, request: dict[str, Any]) -> Any:
        """Return the encoder's tokens; many questions about a CT encode it once."""
        name = str(request["volume"]["file"])
        if self._encoded[0] != name:
            dtype, self.dtype = self.dtype, next(self.encoder.parameters()).dtype
            tokens = self.encoder(self.volume(request), return_encoded_tokens=True)
            self._encoded = (name, tokens)
            self.dtype = dtype
        return self._encoded[1].to(self.device, dtype=self.dtype)

    def sizes(self, request: dict[str, Any], images: Any) -> Any:
        """Return the number of the tokens' values, which is what its script gives."""
        return [int(images.numel())]


LOADERS: dict[str, Any] = {
    "m3d": CausalVolume,
    "med3dvlm": CausalVolume,
    "radfm": RadFM,
    "merlin": Merlin,
    "ct-chat": CTChat,
    "llava-med": Llava,
    "vila-m3": Vila,
}


# ------------------------------------------------------------------------------------------ helpers


def _package(name: str, folder: Path) -> Any:
    """Import a package from its own folder: nothing that lies beside it can be imported."""
    specification = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if specification is None or specification.loader is None:
        raise ImportError(f"{folder} is no package")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module


def _user_text(request: dict[str, Any]) -> str:
    parts = [part for message in request["messages"] for part in message["parts"]]
    return "".join(part["text"] for part in parts if "text" in part)


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.split("+")[0].split(".")[:2]
    return tuple(int(part) for part in parts if part.isdigit())


def _version(library: str) -> str:
    with contextlib.suppress(ImportError):
        return str(getattr(importlib.import_module(library), "__version__", ""))
    return ""


def _stored(folder: Path) -> str:
    """Return in which precision the weights lie on disk, ``float32`` where nothing says it."""
    with contextlib.suppress(OSError, ValueError):
        return str(_PICTURES.stored_dtype(_PICTURES.read_config(folder)))
    return "float32"


def _accepts(function: Any, name: str) -> bool:
    """Return whether a function takes an argument of that name."""
    known = inspect.signature(function).parameters
    return name in known or any(p.kind is p.VAR_KEYWORD for p in known.values())
