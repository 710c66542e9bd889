"""What ``worker.py`` does with a model that ``AutoModelForImageTextToText`` loads.

Imports the standard library alone, so that any interpreter from Python 3.9 reads it; numpy, torch
and transformers are imported when a model is loaded.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import inspect
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BATCH_S = 1 / 30
"""Text is decoded and sent at most this often."""
SPARE = 1.2
"""What a loaded model takes beside its weights: buffers, fragments."""
CONTEXT_TOKENS = 8192
"""Length of the conversation for which memory is set aside in an estimate."""
_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


def beside(name: str) -> Any:
    """Return the module in the file beside this one, which lies in no package here."""
    if name not in sys.modules:
        path = Path(__file__).with_name(f"{name}.py")
        specification = importlib.util.spec_from_file_location(name, path)
        if specification is None or specification.loader is None:
            raise ImportError(f"{path} is no Python file")
        module = importlib.util.module_from_spec(specification)
        sys.modules[name] = module
        specification.loader.exec_module(module)
    return sys.modules[name]


def read_config(folder: Path) -> dict[str, Any]:
    """Return ``config.json`` of a model folder. Raises OSError or ValueError."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if not isinstance(config, dict):
        raise ValueError("config.json is no JSON object")
    return config


def text_config(config: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a configuration that describes the language model."""
    for key in ("text_config", "llm_config", "language_config"):
        if isinstance(config.get(key), dict):
            return dict(config[key])
    return config


def stored_dtype(config: dict[str, Any]) -> str:
    """Return in which precision the weights lie on disk, ``float32`` where it is not said."""
    for part in (config, text_config(config)):
        name = part.get("dtype") or part.get("torch_dtype")
        if isinstance(name, str):
            return name
    return "float32"


def weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files of a model folder."""
    return sorted(folder.glob("*.safetensors"))


def needed_bytes(folder: Path, dtype: str, context_tokens: int = CONTEXT_TOKENS) -> int:
    """Return what a model takes in memory: weights x 1.2, and keys and values of a context."""
    config = read_config(folder)
    size = _BYTES.get(dtype, 2)
    stored = sum(path.stat().st_size for path in weight_files(folder))
    weights = stored * size / _BYTES.get(stored_dtype(config), size)
    return int(weights * SPARE) + _cache_bytes(text_config(config), size, context_tokens)


def _cache_bytes(config: dict[str, Any], size: int, tokens: int) -> int:
    layers, heads = config.get("num_hidden_layers"), config.get("num_attention_heads")
    hidden = config.get("hidden_size")
    if not (isinstance(layers, int) and isinstance(heads, int) and isinstance(hidden, int)):
        return 0
    width = config.get("head_dim") or hidden // heads
    groups = config.get("num_key_value_heads") or heads
    return int(2 * layers * groups * width * size * tokens)


def free_memory_bytes() -> int | None:
    """Return how much memory of this machine is free for us; None where it cannot be known."""
    found = [_available_in_meminfo(), _free_in_group()]
    known = [value for value in found if value is not None]
    return min(known) if known else None


def _available_in_meminfo() -> int | None:
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def _free_in_group() -> int | None:
    """Return what a container's limit leaves (control groups, version 2)."""
    group = Path("/sys/fs/cgroup")
    with contextlib.suppress(OSError, ValueError):
        limit = int((group / "memory.max").read_text(encoding="ascii"))
        used = int((group / "memory.current").read_text(encoding="ascii"))
        cached = 0
        for line in (group / "memory.stat").read_text(encoding="ascii").splitlines():
            if line.startswith("inactive_file "):
                cached = int(line.split()[1])
        return limit - used + cached
    return None


def usable_threads() -> int:
    """Return how many processor cores a computation may use: all but one."""
    with contextlib.suppress(AttributeError):  # Linux alone knows which cores are ours
        return max(1, len(os.sched_getaffinity(0)) - 1)
    return max(1, (os.cpu_count() or 2) - 1)


class Detokeniser:
    """Turn tokens into text piece by piece, so that the pieces joined are the whole text.

    A token alone has no text: letters of several bytes are spread over tokens, and a leading space
    depends on what stands before. So the new tokens are decoded together with those of the last
    piece, and what ends within a letter waits for the next token.
    """

    def __init__(self, decode: Any) -> None:
        self._decode = decode
        self.tokens: list[int] = []
        self._from = 0
        self._sent = 0

    def add(self, tokens: list[int]) -> None:
        """Take new tokens."""
        self.tokens += tokens

    def piece(self, *, last: bool = False) -> str:
        """Return the text that is new since the last call; all of it when ``last``."""
        if self._sent == len(self.tokens):
            return ""
        before = self._decode(self.tokens[self._from : self._sent])
        now = self._decode(self.tokens[self._from :])
        if not last and (now.endswith("\ufffd") or len(now) <= len(before)):
            return ""
        self._from, self._sent = self._sent, len(self.tokens)
        return str(now[len(before) :])


class Stream:
    """Receives the tokens of ``generate`` and sends text in batches."""

    def __init__(self, decode: Any, talk: Any, ends: set[int], stops: list[str]) -> None:
        self._detokeniser = Detokeniser(decode)
        self._talk = talk
        self._ends = ends
        self._stops = stops
        self._new: list[int] = []
        self._prompt = True
        self._sent_at = 0.0
        self.text = ""
        self.tokens = 0
        self.last_token = -1
        self.first_at: float | None = None
        self.stopped = False

    @property
    def said_tokens(self) -> list[int]:
        """Return the tokens of the text, after ``end``: all but the mark that ends an answer."""
        return self._detokeniser.tokens

    def put(self, value: Any) -> None:
        """Take what ``generate`` hands over: first the prompt, then each token."""
        if self._prompt:
            self._prompt = False
            return
        now = time.monotonic()
        if self.first_at is None:
            self.first_at = now
        self._new.append(int(value))
        if now - self._sent_at >= BATCH_S:
            self._flush(now)

    def end(self) -> None:
        """Send what is left."""
        self._flush(time.monotonic(), last=True)

    def _flush(self, now: float, *, last: bool = False) -> None:
        self._sent_at = now
        new, self._new = self._new, []
        self.tokens += len(new)
        if new:
            self.last_token = new[-1]
            # The mark that ends an answer is no text; every other special token is.
            self._detokeniser.add(new[:-1] if new[-1] in self._ends else new)
        piece = self._detokeniser.piece(last=last)
        if piece and not self.stopped:
            self._send(piece)

    def _send(self, piece: str) -> None:
        text = self.text + piece
        reach = max((len(stop) for stop in self._stops), default=0) + len(piece)
        found = [text.find(stop, max(0, len(text) - reach)) for stop in self._stops]
        cuts = [position for position in found if position >= 0]
        if cuts:
            self.stopped = True
            text = text[: max(min(cuts), len(self.text))]
        new, self.text = text[len(self.text) :], text
        if new:
            self._talk.event("tokens", text=new)


class Engine:
    """One model of ``AutoModelForImageTextToText``, loaded once."""

    def __init__(self, failure: Any) -> None:
        self._failure = failure
        self._torch: Any = None
        self._model: Any = None
        self._processor: Any = None
        self._facts: dict[str, Any] = {}
        self._texts: Any = None
        self._neighbours: Any = None

    # -- loading ---------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """Return what is loaded, and the most memory it took, in bytes."""
        torch = self._torch
        facts = dict(self._facts)
        if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
            facts["peak_bytes"] = int(torch.cuda.max_memory_allocated())
            facts["device_name"] = torch.cuda.get_device_name()
        return facts

    def estimate(self, wish: dict[str, Any]) -> dict[str, Any]:
        """Return bytes needed and free (None when not known), device and dtype of a wish."""
        device, dtype = self._placed(wish)
        folder = Path(wish["folder"])
        known = (folder / "config.json").is_file()
        tokens = int(wish.get("context_tokens") or CONTEXT_TOKENS)
        return {
            "needed_bytes": needed_bytes(folder, dtype, tokens) if known else None,
            "free_bytes": self._free_bytes(device),
            "device": device,
            "dtype": dtype,
        }

    def load(self, wish: dict[str, Any], talk: Any) -> dict[str, Any]:
        """Load processor and model of a folder; what is known of them comes back."""
        talk.status("Starting torch and transformers")
        begun = time.monotonic()
        placed = self.estimate(wish)
        self._check_memory(wish, placed)
        torch = self._torch
        transformers = _transformers()
        source = {
            "pretrained_model_name_or_path": wish["folder"],
            "revision": wish.get("revision") or "main",
            "local_files_only": True,
            "trust_remote_code": bool(wish.get("trust_remote_code")),
        }
        try:
            talk.status("Reading the model's processor")
            self._processor = transformers.AutoProcessor.from_pretrained(**source)
            talk.status("Loading the weights", 0.0)
            where = self._where(placed["device"])
            with _progress(transformers, talk):
                model = transformers.AutoModelForImageTextToText.from_pretrained(
                    **source, **where, dtype=getattr(torch, placed["dtype"]), use_safetensors=True
                )
        except ImportError:
            raise  # says which library is missing
        except Exception as error:  # safetensors, tokenizers and jinja raise kinds of their own
            if _short_of_memory(error):
                raise
            raise self._unusable(wish["folder"], error) from error
        if not where and placed["device"] != "cpu":
            model = model.to(placed["device"])
        self._model = model.eval()
        self._texts = self._neighbours = None
        self._facts = {
            "folder": wish["folder"],
            "model_type": str(model.config.model_type),
            "device": str(model.device),
            "dtype": placed["dtype"],
            "needed_bytes": placed["needed_bytes"],
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "threads": torch.get_num_threads(),
            "seconds": time.monotonic() - begun,
        }
        return dict(self._facts)

    def _unusable(self, folder: str, error: Exception) -> Any:
        text = f"{type(error).__name__}: {error}"
        said = " ".join(text.split())[:300]
        if "trust_remote_code" in text:
            return self._failure(
                "bad_model",
                f"{folder} holds code of its own, which is not run.",
                "Take a version of the model that transformers knows, or allow its code if you "
                "trust where it came from.",
                text[:4000],
            )
        return self._failure(
            "bad_model",
            f"{folder} cannot be loaded as a model: {said}",
            "It must be a folder as save_pretrained writes it: config.json, the processor's "
            "files and *.safetensors.",
            text[:4000],
        )

    def _import_torch(self) -> Any:
        if self._torch is None:
            import torch

            # OMP_NUM_THREADS and the like may ask for fewer.
            torch.set_num_threads(min(usable_threads(), torch.get_num_threads()))
            torch.set_grad_enabled(False)
            self._torch = torch
        return self._torch

    def _placed(self, wish: dict[str, Any]) -> tuple[str, str]:
        """Return device and dtype; what is left to us depends on the device."""
        torch = self._import_torch()
        device = wish.get("device") or "auto"
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        dtype = wish.get("dtype") or "auto"
        if dtype != "auto":
            return device, dtype
        if not device.startswith("cuda"):
            return device, "float32"
        if torch.cuda.is_bf16_supported():
            return device, "bfloat16"
        return device, "float32" if wish.get("never_fp16") else "float16"

    def _free_bytes(self, device: str) -> int | None:
        torch = self._import_torch()
        if not device.startswith("cuda"):
            return free_memory_bytes()
        if device == "cuda":  # all cards together, as the layers are spread over them
            return sum(int(torch.cuda.mem_get_info(i)[0]) for i in range(torch.cuda.device_count()))
        return int(torch.cuda.mem_get_info(device)[0])

    def _check_memory(self, wish: dict[str, Any], placed: dict[str, Any]) -> None:
        needed, free = placed["needed_bytes"], placed["free_bytes"]
        if wish.get("forced") or needed is None or free is None or needed <= free:
            return
        place = "The graphics card" if placed["device"].startswith("cuda") else "This machine"
        raise self._failure(
            "out_of_memory",
            f"The model needs about {needed / 1e9:.1f} GB as {placed['dtype']}. "
            f"{place} has {free / 1e9:.1f} GB free.",
            "Close other programs, take a smaller model, or load it anyway.",
        )

    def _where(self, device: str) -> dict[str, Any]:
        """Return how the weights go to a graphics card without a copy in memory first."""
        if not device.startswith("cuda"):
            return {}
        if device == "cuda" and self._torch.cuda.device_count() > 1:
            return {"device_map": "auto"}
        return {"device_map": {"": "cuda:0" if device == "cuda" else device}}

    # -- answering -------------------------------------------------------------------------------

    def ask(self, request: dict[str, Any], talk: Any) -> dict[str, Any]:
        """Answer one request; text goes out as it comes, the whole of it comes back."""
        if self._model is None:
            raise self._failure("bad_model", "No model is loaded.", "Load one first.")
        begun = time.monotonic()
        torch, tokenizer = self._torch, self._processor.tokenizer
        inputs = self._inputs(request, talk)
        length = int(inputs["input_ids"].shape[1])
        sampling = request["sampling"]
        longest = self._check_length(length, int(sampling["max_new_tokens"]))
        talk.status(f"Reading {length} tokens with {len(_pictures(request))} pictures")
        ends = self._end_tokens()
        stream = Stream(
            lambda tokens: tokenizer.decode(
                tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False
            ),
            talk,
            ends,
            list(sampling["stop"]),
        )
        meaning = self._by_meaning(sampling, talk)
        if sampling["temperature"] > 0 and sampling["seed"] is not None:
            torch.manual_seed(int(sampling["seed"]))
        if not talk.cancelled.is_set():
            self._model.generate(
                **inputs,
                **(_drawing(sampling) if not meaning else _drawing_of(meaning[0], sampling)),
                max_new_tokens=longest,
                streamer=stream,
                stopping_criteria=[self._stopper(talk, stream)],
                logits_processor=[*self._penalty(sampling, length), *meaning],
            )
        for one in meaning:
            talk.status(one.told)
        seconds = time.monotonic() - begun
        talk.event(
            "usage",
            prompt_tokens=length,
            new_tokens=stream.tokens,
            first_token_s=None if stream.first_at is None else stream.first_at - begun,
            seconds=seconds,
        )
        if talk.cancelled.is_set():
            reason = "cancelled"
        elif stream.tokens >= longest and not stream.stopped and stream.last_token not in ends:
            reason = "length"
        else:
            reason = "stop"
        answer = {"text": stream.text, "reason": reason}
        if not request.get("written") or reason == "cancelled":
            return answer
        own = getattr(self._model.generation_config, "repetition_penalty", None)
        repeated = sampling["repetition_penalty"] or own or 1.0
        greedy = sampling["temperature"] <= 0 and not meaning and repeated == 1.0
        greedy = greedy and not sampling["presence_penalty"]
        odds = self._odds(request["written"], inputs, stream, talk, greedy=greedy)
        return {**answer, **odds}

    def _odds(
        self, written: dict[str, list[str]], inputs: Any, stream: Stream, talk: Any, *, greedy: bool
    ) -> dict[str, Any]:
        """Return how likely each option was where the answer begins, or that nobody waits."""
        talk.status("Looking up how likely each option was")
        odds = beside("worker_odds")
        try:
            found = odds.odds_of(
                self._torch,
                self._model,
                self._processor.tokenizer,
                inputs,
                stream.said_tokens,
                written,
                self._end_tokens(),
                self._token_texts(),
                talk.cancelled.is_set,
                greedy=greedy,
            )
        except odds.Stopped:
            return {"reason": "cancelled"}
        if "problem" in found:
            self.free()  # it may have been for want of memory
        return {"odds": found}

    def _token_texts(self) -> Any:
        if self._texts is None:
            self._texts = beside("worker_decoding").token_texts(self._tokenizer)
        return self._texts

    @property
    def _tokenizer(self) -> Any:
        return self._processor.tokenizer

    @property
    def _words(self) -> Any:
        """Return the embeddings of the tokens, one row each."""
        return self._model.get_input_embeddings().weight

    def _by_meaning(self, sampling: dict[str, Any], talk: Any) -> list[Any]:
        """Return MIS-SemSam as a processor where it is asked for."""
        if not sampling.get("decoding"):
            return []
        decoding = beside("worker_decoding")
        wanted = decoding.settings(sampling["decoding"])
        if self._neighbours is None:
            talk.status("Looking up which tokens carry meaning")
            self._neighbours = decoding.Neighbours(
                self._torch, self._words, self._token_texts(), len(self._tokenizer)
            )
        temperature = float(sampling["temperature"])
        return [decoding.SemanticSampling(self._torch, self._neighbours, wanted, temperature)]

    def free(self) -> None:
        """Give back what a failed question left behind; the model stays."""
        gc.collect()
        if self._torch is not None and self._torch.cuda.is_available():
            self._torch.cuda.empty_cache()

    def _inputs(self, request: dict[str, Any], talk: Any) -> Any:
        """Return the tensors of a request, on the model's device."""
        apply = self._processor.apply_chat_template
        known = inspect.signature(apply).parameters
        conversation = _conversation(request)
        settings = dict(request["processor"])
        if "processor_kwargs" in known:  # since 5.0 they have an argument of their own
            settings = {"processor_kwargs": settings}
        # (apply_chat_template's own sanitize_control_tokens of 5.24 fails on Gemma 3's pictures.)
        controls = self._controls(conversation)
        if controls:
            conversation = [_broken_up(turn, controls) for turn in conversation]
            talk.status("Control tokens that stood in the question were taken apart")
        inputs = apply(
            conversation,
            tools=request["tools"] or None,
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
            **settings,
            **request["template"],
        )
        model = self._model
        return inputs.to(model.device, dtype=model.dtype)

    def _controls(self, conversation: list[dict[str, Any]]) -> list[str]:
        """Return control tokens that stand in what a model did not write.

        A benchmark's record could open a turn of its own with them, or a picture that is not there.
        """
        tokens = self._processor.tokenizer.added_tokens_decoder.values()
        text = "\n".join(
            part["text"]
            for turn in conversation
            if turn["role"] != "assistant"
            for part in turn["content"]
            if part["type"] == "text"
        )
        return [t.content for t in tokens if t.special and t.content.strip() and t.content in text]

    def _end_tokens(self) -> set[int]:
        ends = self._model.generation_config.eos_token_id
        return set(ends) if isinstance(ends, (list, tuple)) else {ends} - {None}

    def _check_length(self, length: int, longest: int) -> int:
        """Return how many tokens may still come."""
        config = getattr(self._model.config, "text_config", self._model.config)
        limit = getattr(config, "max_position_embeddings", None)
        if limit is None or length + longest <= limit:
            return longest
        if length >= limit:
            raise self._failure(
                "context_too_long",
                f"The question and its pictures take {length} tokens; the model reads {limit}.",
                "Send fewer slices or smaller pictures.",
            )
        return int(limit - length)

    def _stopper(self, talk: Any, stream: Stream) -> Any:
        """Return what ``generate`` asks after each token: whether to stop."""
        torch = self._torch
        go = torch.zeros(1, dtype=torch.bool, device=self._model.device)
        stop = torch.ones(1, dtype=torch.bool, device=self._model.device)
        cancelled = talk.cancelled.is_set

        def criterion(*_: Any, **__: Any) -> Any:
            return stop if stream.stopped or cancelled() else go

        return criterion

    def _penalty(self, sampling: dict[str, Any], prompt: int) -> list[Any]:
        """Return the presence penalty, which ``generate`` does not know, as a processor."""
        penalty, torch = sampling["presence_penalty"], self._torch
        if not penalty:
            return []

        def lowered(tokens: Any, scores: Any) -> Any:
            new = tokens[:, prompt:]
            seen = torch.zeros_like(scores, dtype=torch.bool).scatter_(1, new, True)
            return torch.where(seen, scores - penalty, scores)

        return [lowered]


def _short_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or "out of memory" in str(error).lower()


def _transformers() -> Any:
    import transformers

    return transformers


def _pictures(request: dict[str, Any]) -> list[str]:
    return [part["file"] for m in request["messages"] for part in m["parts"] if "file" in part]


def _conversation(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the messages as chat templates read them, with the pictures opened."""
    return [_turn(message, Path(request["pictures"])) for message in request["messages"]]


def _turn(message: dict[str, Any], folder: Path) -> dict[str, Any]:
    content = [
        {"type": "image", "image": _picture(folder, part["file"])}
        if "file" in part
        else {"type": "text", "text": part["text"]}
        for part in message["parts"]
    ]
    turn: dict[str, Any] = {"role": message["role"], "content": content}
    if message["calls"]:
        turn["tool_calls"] = [{"type": "function", "function": call} for call in message["calls"]]
    if message["tool"]:
        turn["name"] = message["tool"]
    return turn


def _broken_up(turn: dict[str, Any], controls: list[str]) -> dict[str, Any]:
    """Return a turn whose control tokens are none any more: a space stands in them."""
    if turn["role"] == "assistant":
        return turn
    content = [dict(part) for part in turn["content"]]
    for part in content:
        for token in controls:
            if part["type"] == "text":
                part["text"] = part["text"].replace(token, f"{token[0]} {token[1:]}")
    return {**turn, "content": content}


def _picture(folder: Path, name: str) -> Any:
    """Return one picture of the private folder; the file is mapped, not read."""
    import numpy as np
    from PIL import Image

    pixels = np.load(folder / Path(name).name, mmap_mode="r", allow_pickle=False)
    return Image.fromarray(np.ascontiguousarray(pixels))


def _drawing(sampling: dict[str, Any]) -> dict[str, Any]:
    """Return how ``generate`` draws; what is None stays the model's own."""
    drawing: dict[str, Any] = {}
    if sampling["repetition_penalty"] is not None:
        drawing["repetition_penalty"] = sampling["repetition_penalty"]
    if sampling["temperature"] <= 0:
        return {**drawing, "do_sample": False}
    drawing.update(do_sample=True, temperature=sampling["temperature"])
    for key in ("top_p", "top_k"):
        if sampling[key] is not None:
            drawing[key] = sampling[key]
    return drawing


def _drawing_of(meaning: Any, sampling: dict[str, Any]) -> dict[str, Any]:
    """Return how ``generate`` draws where the candidates are chosen before it."""
    plain = _drawing({**sampling, "temperature": 0, "top_p": None, "top_k": None})
    if not meaning.draws:
        return plain
    return {**plain, "do_sample": True, "temperature": 1.0, "top_p": 1.0, "top_k": 0}


@contextlib.contextmanager
def _progress(transformers: Any, talk: Any) -> Iterator[None]:
    """Send how far the weights are, where this transformers lets us see its progress bars."""
    set_hook = getattr(transformers.utils.logging, "set_tqdm_hook", None)
    if set_hook is None:
        yield
        return

    def hook(factory: Any, args: Any, kwargs: Any) -> Any:
        bar = factory(*args, **kwargs)
        if str(kwargs.get("desc", "")).startswith("Loading"):
            return _Reported(bar, talk)
        return bar

    before = set_hook(hook)
    try:
        yield
    finally:
        set_hook(before)


class _Reported:
    """A progress bar whose steps are also sent, at most thirty times a second."""

    def __init__(self, bar: Any, talk: Any) -> None:
        self._bar = bar
        self._talk = talk

    def __iter__(self) -> Iterator[Any]:
        total, sent_at = len(self._bar), 0.0
        for number, item in enumerate(self._bar):
            now = time.monotonic()
            if now - sent_at >= BATCH_S:
                sent_at = now
                self._talk.status("Loading the weights", number / max(1, total))
            yield item

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bar, name)
