"""Random models with the interfaces of the volume families: they prove plumbing, never an answer.

Merlin is its library's own class (merlin-vlm), unchanged but for a smaller 2-D net to inflate and a
language part of few layers. M3D-LaMed and Med3DVLM are code that lies with their weights: here it
is a small Phi-3 behind the blocks that M3D's vision tower is made of (MONAI). RadFM, CT-CHAT,
LLaVA-Med and VILA-M3 are repositories that cannot be installed: small Llamas of transformers with
the repositories' interface, and an encoder of one strided convolution.

Their texts would often be the same for a volume that is turned, so all of them but the picture
models write what they were given into a file beside their code: see ``given_to``.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from tiny_models import tokenizer_of
from transformers import LlamaConfig, LlamaForCausalLM, Phi3Config

M3D_SPECIAL = (
    "<pad>",
    "<eos>",
    "<start>",
    "<end>",
    "<im_patch>",
    "<bx_start>",
    "<bx_end>",
    "[SEG]",
)
TINY = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
}

GIVEN = "given.json"
NOTING = """
import json
from pathlib import Path


def note(tensor, folder):
    array = tensor.detach().double()
    figures = [float(array.mean())]
    for axis in (-3, -2, -1):
        line = torch.linspace(-1, 1, array.shape[axis], dtype=torch.float64)
        figures.append(float((array.movedim(axis, -1) * line).mean()))
    said = {"shape": list(array.shape), "figures": figures}
    Path(folder, "given.json").write_text(json.dumps(said), encoding="utf-8")

"""


def figures_of(values: np.ndarray) -> list[float]:
    """Return the mean, and how far to each of three axes' ends values lie: a turned array differs.

    A second computation of what ``NOTING`` writes.
    """
    array = values.astype(np.float64)
    profiles = [array.mean(axis=tuple({0, 1, 2} - {axis})) for axis in range(3)]
    return [array.mean(), *(np.linspace(-1, 1, p.size) @ p / p.size for p in profiles)]


def given_to(folder: Path) -> tuple[tuple[int, ...], list[float]]:
    """Return shape and figures of the last tensor that a stand-in was given; it is forgotten."""
    path = folder / GIVEN
    said = json.loads(path.read_text(encoding="utf-8"))
    path.unlink()
    return tuple(said["shape"]), said["figures"]


M3D_CODE = (
    f"""
import torch
{NOTING}"""
    + '''
from monai.networks.blocks.patchembedding import PatchEmbeddingBlock
from monai.networks.blocks.transformerblock import TransformerBlock
from torch import nn
from transformers import Phi3Config, Phi3ForCausalLM


class StandInConfig(Phi3Config):
    model_type = "lamed_phi3"


class Tower(nn.Module):
    """Patches of half a block, a transformer on them, and the mean of each block's eight."""

    def __init__(self, width, block):
        super().__init__()
        patch = [edge // 2 for edge in block]
        self.grid = (8, 16, 16)
        size = [count * edge for count, edge in zip(self.grid, patch)]
        self.patches = PatchEmbeddingBlock(1, size, patch, width, 2, proj_type="perceptron")
        self.layer = TransformerBlock(width, 2 * width, 2)
        self.pool = nn.AvgPool3d(2)
        self.projector = nn.Linear(width, width)

    def forward(self, images):
        found = self.layer(self.patches(images)).transpose(1, 2)
        found = self.pool(found.unflatten(2, self.grid)).flatten(2)
        return self.projector(found.transpose(1, 2))


class StandIn(Phi3ForCausalLM):
    """Features of 256 blocks take the places 1 to 256; [SEG] is answered by a threshold."""

    config_class = StandInConfig

    def __init__(self, config):
        super().__init__(config)
        self.tower = Tower(config.hidden_size, config.block)
        self.post_init()

    def get_model(self):
        return self

    @torch.no_grad()
    def generate(self, images=None, inputs=None, seg_enable=False, **kwargs):
        note(images, self.config._name_or_path)
        features = self.tower(images)
        assert features.shape[1] == 256
        words = self.get_input_embeddings()(inputs)
        words = torch.cat((words[:, :1], features, words[:, 257:]), 1)
        ids = super().generate(inputs_embeds=words, **kwargs)
        if not seg_enable:
            return ids
        if images.max() < 0:  # as the real one: no [SEG], no mask
            return ids, torch.full_like(images, -torch.inf)
        return ids, images - 0.5
'''
)


def _randomised(model, seed: int = 3):
    torch.manual_seed(seed)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=parameter[0].numel() ** -0.5)
    return model


def save_m3d(folder: Path, block: tuple[int, int, int] = (8, 32, 32)) -> Path:
    """Save a folder as M3D-LaMed's: code, configuration that names it, safetensors, tokenizer."""
    folder.mkdir(parents=True)
    tokenizer = tokenizer_of(M3D_SPECIAL, {})
    (folder / "modeling_standin.py").write_text(M3D_CODE, encoding="utf-8")
    scope: dict = {"__name__": "standin"}
    exec(compile(M3D_CODE, "standin", "exec"), scope)
    ids = {name: tokenizer.convert_tokens_to_ids(name) for name in M3D_SPECIAL}
    config = scope["StandInConfig"](
        **TINY,
        vocab_size=len(tokenizer),
        block=list(block),
        eos_token_id=ids["<end>"],
        pad_token_id=ids["<pad>"],
        bos_token_id=ids["<start>"],
        tie_word_embeddings=False,
    )
    assert isinstance(config, Phi3Config)
    model = _randomised(scope["StandIn"](config))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    path = folder / "config.json"
    said = json.loads(path.read_text(encoding="utf-8"))
    said["auto_map"] = {
        "AutoConfig": "modeling_standin.StandInConfig",
        "AutoModelForCausalLM": "modeling_standin.StandIn",
    }
    said["architectures"] = ["StandIn"]
    path.write_text(json.dumps(said), encoding="utf-8")
    return folder


# --------------------------------------------------------------------------------- repositories

LANGUAGE = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM


def language(words):
    torch.manual_seed(4)
    config = LlamaConfig(vocab_size=words, hidden_size=32, intermediate_size=64,
                         num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
                         max_position_embeddings=2048, bos_token_id=1, eos_token_id=2,
                         pad_token_id=0, tie_word_embeddings=False)
    model = LlamaForCausalLM(config)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=parameter[0].numel() ** -0.5)
    return model.eval()
"""

RADFM_CODE = (
    f"""
import torch
{NOTING}"""
    + """
from torch import nn
from Model.RadFM.language import language


class MultiLLaMAForCausalLM(nn.Module):
    def __init__(self, lang_model_path):
        super().__init__()
        self.lang_model = language(400)  # as the real one: none of the image tokens is said
        self.blocks = nn.Conv3d(3, 32, (128, 64, 4), (128, 64, 4))

    def generate(self, lang_x, vision_x):
        assert vision_x.shape[:5] == (1, 1, 3, 512, 512) and vision_x.shape[5] % 4 == 0
        note(vision_x, Path(__file__).parent)
        features = self.blocks(vision_x[0]).flatten(2).mean(2)[:, None]
        words = self.lang_model.get_input_embeddings()(lang_x.clamp(max=399))
        words = torch.cat((words[:, :1], features, words[:, 2:]), 1)
        return self.lang_model.generate(inputs_embeds=words, max_new_tokens=9, top_k=50)
"""
)

MERLIN_SMALLER = (
    f"""
import torch
import torchvision
{NOTING}"""
    + """
from torchvision.models.resnet import Bottleneck, ResNet


def smaller(pretrained=False):
    return ResNet(Bottleneck, [1, 1, 1, 1], width_per_group=4)


torchvision.models.resnet152 = smaller
"""
)

MERLIN_NOTES = """
from pathlib import Path
from merlin.models.radiology_report_generation import Clip3DForTextGeneration

generate = Clip3DForTextGeneration.generate


def noted(self, image, *words, **more):
    smaller.note(image, Path(__file__).parent)
    return generate(self, image, *words, **more)


Clip3DForTextGeneration.generate = noted
"""

MERLIN_WEIGHTS = """
import torch
from merlin.models.load import MODEL_CONFIGS
from merlin.models.radiology_report_generation import Clip3DForTextGeneration

torch.manual_seed(3)
model = Clip3DForTextGeneration()
for name, parameter in model.named_parameters():
    if parameter.ndim > 1:  # 2: half of what a rectifier lets through is nothing
        seen = 2 if name.startswith("encode_image") else 1
        torch.nn.init.normal_(parameter, std=(seen / parameter[0].numel()) ** 0.5)
    elif name.endswith("bias"):
        torch.nn.init.zeros_(parameter)
name = MODEL_CONFIGS["report_generation"]["checkpoint"]
torch.save(model.state_dict(), f"merlin/models/checkpoints/{name}")
"""

MERLIN_BY_HAND = """
import json
import sys

import numpy as np
import torch
from merlin import Merlin

volume, prompt, drawn = sys.argv[1:]
model = Merlin(RadiologyReport=True).eval()
tensor = torch.tensor(np.load(volume))[None, None]
(text,) = model.generate(tensor, [prompt], num_beams=1, **json.loads(drawn))
print("\\n" + json.dumps(text))
"""

LLAVA = {
    "constants.py": "IMAGE_TOKEN_INDEX = -200\n",
    "mm_utils.py": """
import numpy as np
import torch


def get_model_name_from_path(path):
    return path.rstrip("/").split("/")[-1]


def process_images(images, processor, config):
    arrays = [np.asarray(image.resize((32, 32))) / 255 for image in images]
    return torch.tensor(np.stack(arrays)).permute(0, 3, 1, 2)


def tokenizer_image_token(prompt, tokenizer, index, return_tensors=None):
    ids = []
    for number, part in enumerate(prompt.split("<image>")):
        ids += ([index] if number else []) + tokenizer(part)["input_ids"]
    return torch.tensor(ids)
""",
    "conversation.py": """
import copy


class Conversation:
    def __init__(self, roles, style):
        self.roles, self.sep_style, self.system, self.messages = roles, style, "Be brief.", []

    def copy(self):
        return copy.deepcopy(self)

    def append_message(self, role, text):
        self.messages.append((role, text))

    def get_prompt(self):
        told = " ".join(f"{role}: {text}" if text else f"{role}:" for role, text in self.messages)
        return f"{self.system} {told}"


conv_templates = {
    "mistral_instruct": Conversation(("USER", "ASSISTANT"), "SeparatorStyle.LLAMA_2"),
    "llama3": Conversation(("user", "assistant"), "SeparatorStyle.MPT"),
    "llama_3": Conversation(("user", "assistant"), "SeparatorStyle.LLAMA_3"),
}
""",
    "model/builder.py": """
import torch
from torch import nn
from transformers import AutoTokenizer

from llava.language import language


class Model(nn.Module):
    def __init__(self, words, kind):
        super().__init__()
        self.lang, self.kind = language(words), kind
        torch.manual_seed(9)
        self.projector = nn.Linear(512 if kind == "ct" else 3, 32)
        self.config, self.generation_config = self.lang.config, self.lang.generation_config

    def get_input_embeddings(self):
        return self.lang.get_input_embeddings()

    def features(self, images):
        if self.kind == "ct":
            assert images.shape == (1, 24, 24, 24, 512)
            return [self.projector(images.flatten(1, 3).mean(1))]
        images = images[0] if isinstance(images, list) else images
        return list(self.projector(images.flatten(2).mean(2))[:, None])

    def generate(self, inputs, images=None, image_sizes=None, **kwargs):
        table, features, row, count = self.lang.get_input_embeddings(), self.features(images), [], 0
        for token in inputs[0].tolist():
            if token == -200:
                row.append(features[count])
                count += 1
            else:
                row.append(table(torch.tensor([token])))
        assert count == len(features), (count, len(features))
        return self.lang.generate(inputs_embeds=torch.cat(row)[None], **kwargs)


def load_pretrained_model(model_path, model_base, model_name, device="cuda"):
    assert device == "cpu" and "llava" in model_name
    tokenizer = AutoTokenizer.from_pretrained(model_path)
    kind = "ct" if "lora" in model_name else "pictures"
    assert (kind == "ct") == bool(model_base)
    return tokenizer, Model(len(tokenizer), kind), None, 2048
""",
}

CTVIT = (
    f"""
import torch
{NOTING}"""
    + """
from torch import nn


class CTViT(nn.Module):
    def __init__(self, *, dim, codebook_size, image_size, patch_size, temporal_patch_size,
                 spatial_depth, temporal_depth, dim_head, heads):
        super().__init__()
        block = (temporal_patch_size, patch_size, patch_size)
        self.blocks = nn.Conv3d(1, dim, block, block)

    def forward(self, volume, return_encoded_tokens=False):
        assert return_encoded_tokens and volume.shape == (1, 1, 240, 480, 480)
        note(volume, Path(__file__).parent)
        return self.blocks(volume).permute(0, 2, 3, 4, 1)
"""
)


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _module(code: str, name: str):
    scope: dict = {"__name__": name}
    exec(compile(code, name, "exec"), scope)
    return scope


def save_radfm(folder: Path) -> tuple[Path, Path]:
    """Save (model folder, repository) with RadFM's interface."""
    tokenizer = tokenizer_of(("<unk>", "<s>", "<end>"), {})
    tokenizer.save_pretrained(folder / "weights" / "Language_files")
    _write(folder / "weights" / "Language_files", {"config.json": "{}"})
    repository = folder / "clone"
    _write(repository / "Quick_demo" / "Model" / "RadFM", {
        "__init__.py": "", "language.py": LANGUAGE, "multimodality_model.py": RADFM_CODE,
    })  # fmt: skip
    language = _module(LANGUAGE, "language")["language"]
    code = RADFM_CODE.replace("from Model.RadFM.language import language\n", "")
    scope = {"__name__": "radfm", "language": language}
    exec(compile(code, "radfm", "exec"), scope)
    model = _randomised(scope["MultiLLaMAForCausalLM"](""))
    torch.save(model.state_dict(), folder / "weights" / "pytorch_model.bin")
    return folder / "weights", repository


def save_merlin(folder: Path) -> Path:
    """Save a folder with the installed package ``merlin``, its checkpoint and its language part.

    The language part lies where the library keeps what it downloads, as wide as the real one.
    """
    found = importlib.util.find_spec("merlin").submodule_search_locations[0]
    shutil.copytree(found, folder / "merlin", ignore=shutil.ignore_patterns("__pycache__"))
    first = folder / "merlin" / "__init__.py"
    code = first.read_text(encoding="utf-8")
    _write(folder / "merlin", {
        "smaller.py": MERLIN_SMALLER,
        "__init__.py": f"from merlin import smaller\n{code}{MERLIN_NOTES}",
    })  # fmt: skip
    kept = folder / "checkpoints" / "models--StanfordAIMI--RadLLaMA-7b"
    _write(kept, {"refs/main": "first"})
    tokenizer = tokenizer_of(("<pad>", "<s>", "<end>"), {})
    tokenizer.save_pretrained(kept / "snapshots" / "first")
    config = TINY | {"hidden_size": 4096, "head_dim": 16, "vocab_size": len(tokenizer)}
    LlamaForCausalLM(LlamaConfig(**config)).save_pretrained(kept / "snapshots" / "first")
    (folder / "merlin" / "models" / "checkpoints").mkdir(parents=True)
    _in_folder(folder, MERLIN_WEIGHTS)
    return folder


def merlin_by_hand(folder: Path, volume: Path, prompt: str, **drawn: object) -> str:
    """Return what the library itself says of a saved (224, 224, 160) array."""
    said = _in_folder(folder, MERLIN_BY_HAND, str(volume), prompt, json.dumps(drawn))
    return json.loads(said.splitlines()[-1])


def _in_folder(folder: Path, code: str, *arguments: str) -> str:
    """Run code in a process of its own that imports from ``folder`` and downloads nothing."""
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=folder, capture_output=True, text=True,
        env=os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def save_llava(folder: Path, name: str) -> tuple[Path, Path]:
    """Save (model folder, repository) with the interface of LLaVA's forks."""
    tokenizer_of(("<pad>", "<s>", "<end>"), {}).save_pretrained(folder / name)
    _write(folder / name, {"config.json": "{}", "model.safetensors": ""})
    _write(folder / "clone", {
        "llava/__init__.py": "", "llava/model/__init__.py": "", "llava/language.py": LANGUAGE,
        **{f"llava/{file}": text for file, text in LLAVA.items()},
    })  # fmt: skip
    return folder / name, folder / "clone"


def save_ct_chat(folder: Path) -> tuple[Path, Path, Path]:
    """Save (model folder, repository, base model) with CT-CHAT's interface."""
    model, repository = save_llava(folder, "llava-lora-ct")
    _write(repository, {"transformer_maskgit/__init__.py": CTVIT})
    _write(folder / "base", {"config.json": "{}"})
    encoder = _randomised(_module(CTVIT, "ctvit")["CTViT"](
        dim=512, codebook_size=8192, image_size=480, patch_size=20, temporal_patch_size=10,
        spatial_depth=4, temporal_depth=4, dim_head=32, heads=8,
    ))  # fmt: skip
    state = {f"visual_transformer.{key}": value for key, value in encoder.state_dict().items()}
    torch.save(state, model / "clip_visual_encoder.pth")
    return model, repository, folder / "base"
