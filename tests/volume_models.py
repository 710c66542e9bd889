"""Random models with the interfaces of the volume families: they prove plumbing, never an answer.

Each is a small one of the class that the real one is built on (Phi-3, Llama, Mistral, from
transformers), with an encoder of one strided convolution in the place of the real one.
"""

import json
from pathlib import Path

import torch
from tiny_models import tokenizer_of
from transformers import Phi3Config

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

M3D_CODE = '''
import torch
from torch import nn
from transformers import Phi3Config, Phi3ForCausalLM


class StandInConfig(Phi3Config):
    model_type = "lamed_phi3"


class StandIn(Phi3ForCausalLM):
    """Features of 256 blocks take the places 1 to 256; [SEG] is answered by a threshold."""

    config_class = StandInConfig

    def __init__(self, config):
        super().__init__(config)
        self.blocks = nn.Conv3d(1, config.hidden_size, config.block, config.block)
        self.post_init()

    def get_model(self):
        return self

    @torch.no_grad()
    def generate(self, images=None, inputs=None, seg_enable=False, **kwargs):
        features = self.blocks(images).flatten(2).transpose(1, 2)
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
