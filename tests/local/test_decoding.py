"""Odds of options and MIS-SemSam, against a second computation step by step without a cache."""

import re
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from project_file import ROOT

pytest.importorskip("torch", reason="local models need the packages of the 'local' extra")
pytest.importorskip("torchvision", reason="local models need the packages of the 'local' extra")
pytest.importorskip("transformers", reason="local models need the packages of the 'local' extra")

import torch

from napari_ctvqa.runners import worker, worker_decoding, worker_engine, worker_odds

pytestmark = pytest.mark.slow
PLAIN = {
    "max_new_tokens": 12, "temperature": 0.0, "top_p": None, "top_k": None, "seed": None,
    "repetition_penalty": None, "presence_penalty": None, "stop": [], "decoding": "",
}  # fmt: skip


class Heard:
    """A talk that keeps what is said, and stops where a test wants it."""

    def __init__(self, stop_after=None):
        self.told, self.cancelled, self.stop_after = [], threading.Event(), stop_after

    def event(self, event, **content):
        self.told.append((event, content))
        if event == "tokens" and self.stop_after is not None:
            self.stop_after -= 1
            if self.stop_after == 0:
                self.cancelled.set()

    def status(self, text, fraction=None):
        self.event("status", text=text)


class Local:
    """An engine in this process, and the same model without any of its ways."""

    def __init__(self, folder, tmp_path):
        self.engine = worker_engine.Engine(worker.Failure)
        self.engine.load({"folder": str(folder), "device": "cpu", "dtype": "float32"}, Heard())
        self.model = self.engine._model
        self.tokenizer = self.engine._processor.tokenizer
        self.ends = self.engine._end_tokens()
        self.folder = tmp_path
        rng = np.random.default_rng(5)
        for name in ("a", "b"):
            np.save(tmp_path / f"{name}.npy", rng.integers(0, 255, (144, 144, 3), dtype=np.uint8))

    def request(self, text, *, written=None, files=("a", "b"), **sampling):
        parts = [part for f in files for part in ({"file": f"{f}.npy"}, {"text": f"SLICE {f}"})]
        message = {"role": "user", "parts": [*parts, {"text": text}], "calls": [], "tool": ""}
        return {
            "pictures": str(self.folder), "messages": [message], "tools": [],
            "sampling": {**PLAIN, **sampling}, "template": {}, "processor": {},
            "written": written or {},
        }  # fmt: skip

    def ask(self, text, heard=None, **more):
        return self.engine.ask(self.request(text, **more), heard or Heard())

    def logits(self, text, tokens=()):
        """Logits after the prompt and more tokens: one whole forward, no cache, no generate."""
        inputs = dict(self.engine._inputs(self.request(text), Heard()))
        more = torch.tensor([list(tokens)], dtype=torch.long)
        plain = {"attention_mask": 1, "token_type_ids": 0, "mm_token_type_ids": 0}
        for name in plain.keys() & inputs.keys() if tokens else ():
            inputs[name] = torch.cat([inputs[name], torch.full_like(more, plain[name])], 1)
        if tokens:
            inputs["input_ids"] = torch.cat([inputs["input_ids"], more], 1)
        return self.model(**inputs).logits[0, -1].float()

    def decode(self, tokens):
        return self.tokenizer.decode(tokens, skip_special_tokens=False)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before, grads = torch.get_num_threads(), torch.is_grad_enabled()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
    torch.set_grad_enabled(grads)  # the engine needs none and puts them off


@pytest.fixture(scope="module")
def locals_(tmp_path_factory):
    made = {}

    def get(name):
        if name not in made:
            import tiny_models

            folder = tmp_path_factory.mktemp(name)
            if name == "toy":
                made[name] = Local(ROOT / "resources" / "demo_model", folder)
            else:
                save = {"gemma": tiny_models.save_gemma, "qwen": tiny_models.save_qwen}[name]
                made[name] = Local(save(folder / "model"), folder)
        return made[name]

    return get


@pytest.fixture(params=["gemma", "qwen", "toy"])
def local(request, locals_):
    return locals_(request.param)


@pytest.fixture
def toy(locals_):
    return locals_("toy")


SIDE = "On which side is the lesion?"
WORDS = {"A": ["Left."], "B": ["Right."], "C": ["Yes."], "D": ["No."]}


# Odds -----------------------------------------------------------------------------------------


def following(local, more=()):
    inputs = local.engine._inputs(local.request(SIDE), Heard())
    texts = local.engine._token_texts()
    return worker_odds.Following(torch, local.model, inputs, more, texts, local.ends)


@pytest.mark.parametrize("more", [(), (47, 59)])
def test_next_tokens_are_those_of_a_whole_forward_without_cache(local, more):
    """In any order of paths: nothing of one stays in the next."""
    follow = following(local, more)
    for path in ((), (51,), (51, 62, 73), (45,), (), (51, 64)):
        wanted = torch.softmax(local.logits(SIDE, (*more, *path)), -1)
        for child in follow(path)[:200]:
            assert child.probability == pytest.approx(
                float(wanted[child.token]), rel=2e-3, abs=1e-6
            )
            assert child.ends == (child.token in local.ends)
        assert sum(c.probability for c in follow(path)) == pytest.approx(1, abs=1e-3)


def test_without_pictures_nothing_of_the_pictures_before_stays(locals_):
    qwen = locals_("qwen")
    qwen.ask(SIDE, max_new_tokens=2)
    inputs = qwen.engine._inputs(qwen.request("no pictures", files=()), Heard())
    texts = qwen.engine._token_texts()
    follow = worker_odds.Following(torch, qwen.model, inputs, (), texts, qwen.ends)
    ids = torch.cat([inputs["input_ids"], torch.tensor([[51, 62]])], 1)
    wanted = torch.softmax(qwen.model(input_ids=ids).logits[0, -1].float(), -1)
    for child in follow((51, 62))[:50]:
        assert child.probability == pytest.approx(float(wanted[child.token]), rel=2e-3, abs=1e-6)


def test_a_model_that_places_tokens_wrongly_is_caught(toy, monkeypatch):
    """Its numbers look as good; what it wrote tells."""
    told = toy.ask(SIDE, written=WORDS)["odds"]
    assert "problem" not in told
    real = worker_odds.Following._after
    odds = sys.modules["worker_odds"]
    monkeypatch.setattr(odds.Following, "_after", lambda self, path: real(self, path).flip(-1))
    assert "something else" in toy.ask(SIDE, written=WORDS)["odds"]["problem"]


def by_hand(local, said, tokens=(), text="", share=1.0, least=1e-5):
    """The mass of answers that begin with a word, over the whole vocabulary; by a regular
    expression of its own."""
    mass = 0.0
    for token, p in enumerate(torch.softmax(local.logits(SIDE, tokens), -1).tolist()):
        part = share * p
        if part < least:
            continue
        if token in local.ends:
            mass += part * bool(re.fullmatch(rf"\W*{said}\W*", text, re.IGNORECASE))
            continue
        now = text + local.decode([token])
        if re.match(rf"\W*{said}\s*[^\w\s]", now, re.IGNORECASE):
            mass += part
        elif said.lower().startswith(re.sub(r"^\W+|\s+$", "", now).lower()):
            mass += by_hand(local, said, (*tokens, token), now, part, least)
    return mass


def test_odds_of_the_toy_are_its_probabilities_of_the_words(toy):
    answer = toy.ask(SIDE, written=WORDS)
    masses = answer["odds"]["masses"]
    for letter, (word,) in WORDS.items():
        wanted = by_hand(toy, word.rstrip("."))
        assert masses.get(letter, 0.0) == pytest.approx(wanted, rel=0.01, abs=2e-4), letter
    assert sum(masses.values()) > 0.5
    assert answer["odds"]["said"] == max(masses, key=masses.get)
    assert answer["text"].rstrip(".") in {"Left", "Right", "Yes", "No"}


def test_moving_a_word_to_another_letter_moves_its_mass(toy):
    moved = {"A": WORDS["D"], "B": WORDS["A"], "C": WORDS["B"], "D": WORDS["C"]}
    before = toy.ask(SIDE, written=WORDS)["odds"]["masses"]
    after = toy.ask(SIDE, written=moved)["odds"]["masses"]
    for now, then in {"A": "D", "B": "A", "C": "B", "D": "C"}.items():
        assert after.get(now, 0) == pytest.approx(before.get(then, 0), abs=1e-7)


def test_odds_do_not_change_the_answer_and_come_for_those_who_ask(local):
    plain = local.ask(SIDE)
    assert "odds" not in plain
    assert local.ask(SIDE, written=WORDS)["text"] == plain["text"]


def test_a_text_without_an_option_has_no_odds(locals_):
    answer = locals_("gemma").ask(SIDE, written=WORDS)
    assert answer["odds"] == {"problem": worker_odds.NOT_AT_ONCE}


def test_nobody_waits_for_odds_after_cancelling(toy, monkeypatch):
    heard = Heard()
    real = worker_odds.Following.__call__

    def cancelling(self, path):
        heard.cancelled.set()
        return real(self, path)

    monkeypatch.setattr(sys.modules["worker_odds"].Following, "__call__", cancelling)
    answer = toy.ask(SIDE, heard, written=WORDS)
    assert answer["reason"] == "cancelled" and "odds" not in answer


def test_an_answer_is_not_lost_for_want_of_its_odds(toy, monkeypatch):
    def short(self, path):
        raise RuntimeError("CUDA out of memory")

    monkeypatch.setattr(sys.modules["worker_odds"].Following, "__call__", short)
    answer = toy.ask(SIDE, written=WORDS)
    assert answer["text"] and "out of memory" in answer["odds"]["problem"]


# MIS-SemSam -----------------------------------------------------------------------------------


def reference(local, text, k, m, p, new, temperature=0.0, seed=None):
    """The paper's steps one by one, in float64 where it matters; no cache, no generate."""
    if seed is not None:
        torch.manual_seed(seed)
    rows = local.model.get_input_embeddings().weight.float()
    unit = rows / rows.norm(dim=1, keepdim=True)
    content = [
        token
        for token in range(min(len(local.tokenizer), len(rows)))
        if worker_decoding.is_content(local.engine._token_texts()(token))
    ]
    said, kinds = [], []
    while len(said) < new:
        logits = local.logits(text, said)
        probabilities = torch.softmax(logits / temperature if temperature else logits, -1)
        order = sorted(range(len(probabilities)), key=lambda t: -float(probabilities[t]))[:m]
        whole = sum(float(probabilities[t]) for t in order)
        candidates, held = [], 0.0
        for token in order:
            if held >= p * whole:
                break
            candidates.append(token)
            held += float(probabilities[token])
        scores = [float(probabilities[c]) for c in candidates]
        ordinary = not set(candidates) <= set(content)
        if not ordinary:
            scores = []
            for candidate in candidates:
                cosines = [(float(unit[t] @ unit[candidate]), t) for t in content if t != candidate]
                near = [(1.0, candidate), *sorted(cosines, reverse=True)[: k - 1]]
                scores.append(sum(max(0.0, w) * float(probabilities[t]) for w, t in near))
        kinds.append("ordinary" if ordinary else "meaning")
        if temperature:
            full = torch.zeros_like(probabilities)
            full[candidates] = torch.tensor(scores, dtype=full.dtype)
            token = int(torch.multinomial(full / full.sum(), 1))
        else:
            token = candidates[max(range(len(scores)), key=scores.__getitem__)]
        if token in local.ends:
            break
        said.append(token)
    return local.decode(said), kinds


@pytest.mark.parametrize(("k", "m", "p"), [(8, 10, 0.9), (3, 4, 0.6), (50, 3, 1.0)])
def test_semsam_is_the_reference_step_by_step(local, k, m, p):
    asked = {"decoding": f"semsam:K={k},M={m},p={p}", "max_new_tokens": 8}
    text, _ = reference(local, SIDE, k, m, p, 8)
    assert local.ask(SIDE, **asked)["text"] == text


def test_semsam_chooses_by_meaning_and_otherwise_than_the_likeliest(locals_):
    """Else the test above would compare ordinary decoding with itself."""
    gemma = locals_("gemma")
    heard = Heard()
    text = gemma.ask(SIDE, heard, decoding="semsam:K=50,M=3,p=0.3", max_new_tokens=8)["text"]
    wanted, kinds = reference(gemma, SIDE, 50, 3, 0.3, 8)
    assert text == wanted and "meaning" in kinds
    told = next(c["text"] for e, c in heard.told if e == "status" and "MIS-SemSam" in c["text"])
    scored = kinds.count("meaning")
    assert f"scored {scored} of 8 tokens by meaning" in told


def test_one_neighbour_is_ordinary_decoding(local):
    plain = local.ask(SIDE)["text"]
    assert local.ask(SIDE, decoding="semsam:K=1,M=10,p=0.9")["text"] == plain
    drawn = {"temperature": 1.1, "seed": 3}
    usual = local.ask(SIDE, **drawn, top_k=6, top_p=0.8)["text"]
    assert local.ask(SIDE, **drawn, decoding="semsam:K=1,M=6,p=0.8")["text"] == usual
    assert local.ask(SIDE, **drawn, top_k=1, top_p=1.0)["text"] == plain


def test_semsam_draws_in_proportion_to_the_scores(locals_):
    gemma = locals_("gemma")
    text, _ = reference(gemma, SIDE, 6, 4, 0.7, 8, temperature=1.2, seed=5)
    asked = {"decoding": "semsam:K=6,M=4,p=0.7", "temperature": 1.2, "seed": 5}
    assert gemma.ask(SIDE, **asked, max_new_tokens=8)["text"] == text


def test_semsam_streams_and_stops_within_a_token(locals_, monkeypatch):
    gemma = locals_("gemma")
    monkeypatch.setattr(worker_engine, "BATCH_S", 0.0)
    heard = Heard(stop_after=3)
    answer = gemma.ask(SIDE, heard, decoding="semsam:K=4", max_new_tokens=500)
    words = [c["text"] for e, c in heard.told if e == "tokens"]
    assert answer["reason"] == "cancelled" and "".join(words) == answer["text"]
    assert 3 <= len(words) <= 5


# Neighbours without a model ---------------------------------------------------------------------


def test_neighbours_are_content_tokens_alone_the_token_itself_first():
    texts = ["left", " left", "the", "right", "!", "LEFT", "x"]
    rows = torch.tensor([[1, 0], [3, 0.3], [1, 0], [-1, 0.1], [1, 0], [0, 1], [1, 0]]).float()
    near = worker_decoding.Neighbours(torch, rows, texts.__getitem__, len(texts))
    assert near.content == {0, 1, 3, 5}
    ids, weights = near.of(1, 3)
    assert ids.tolist()[:2] == [1, 0] and weights.tolist()[0] == 1.0
    assert weights[1] == pytest.approx(3 / np.hypot(3, 0.3))
    ids, weights = near.of(0, 99)
    assert ids.tolist() == [0, 1, 5, 3] and weights[-1] == 0.0  # opposite: nothing, not less
    assert near.of(0, 1)[0].tolist() == [0]


@pytest.mark.parametrize("seed", range(5))
def test_scores_are_the_formula_for_every_candidate(seed):
    """Numbers, not words: a wrong weight seldom changes which token is the best."""
    torch.manual_seed(seed)
    count, k, m = 30, 6, 12
    rows, logits = torch.randn(count, 4), torch.randn(1, count) * 2
    near = worker_decoding.Neighbours(torch, rows, lambda token: "word", count)
    wanted = worker_decoding.Settings(k=k, m=m, p=1.0)
    got = worker_decoding.SemanticSampling(torch, near, wanted, 0.0)(None, logits)[0].exp()
    share = np.exp(logits[0].numpy().astype(float))
    share /= share.sum()
    unit = rows.numpy().astype(float)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    candidates = np.argsort(-share)[:m]
    for token in range(count):
        cosines = unit @ unit[token]
        nearest = np.argsort(-cosines)[:k]
        score = float((np.maximum(0, cosines[nearest]) * share[nearest]).sum())
        wanted_score = score if token in candidates else 0.0
        assert float(got[token]) == pytest.approx(wanted_score, rel=1e-4), token


def test_a_candidate_without_meaning_is_an_ordinary_step():
    texts = ["left", "right", "!"]
    near = worker_decoding.Neighbours(torch, torch.eye(3), texts.__getitem__, 3)
    made = worker_decoding.SemanticSampling(
        torch, near, worker_decoding.Settings(k=3, m=3, p=1.0), 0.0
    )
    logits = torch.log(torch.tensor([[0.2, 0.3, 0.5]]))
    assert int(made(None, logits).argmax()) == 2
    assert (made.steps, made.scored, made.changed) == (1, 0, 0)
    assert SimpleNamespace(told=made.told).told.startswith("MIS-SemSam scored 0 of 1")
