"""arch counts what transformers builds, on the meta device, from the same config."""

import json
from pathlib import Path

import pytest

from aiinfra.arch import from_config

CONFIGS = Path(__file__).parent / "data/configs"
KINDS = {
    "GPT2LMHeadModel": "gpt2", "BloomForCausalLM": "bloom", "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "mistral", "MixtralForCausalLM": "mixtral",
    "Qwen2ForCausalLM": "qwen2", "Qwen3ForCausalLM": "qwen3",
    "Qwen3MoeForCausalLM": "qwen3_moe", "DeepseekV2ForCausalLM": "deepseek_v2",
    "DeepseekV3ForCausalLM": "deepseek_v3", "GptOssForCausalLM": "gpt_oss",
}  # fmt: skip


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.json")), ids=lambda p: p.stem)
def test_parameters_are_those_that_transformers_builds(path):
    transformers = pytest.importorskip("transformers")
    import torch

    config = json.loads(path.read_text(encoding="utf-8"))
    model = from_config(config)
    kind = KINDS[config["architectures"][0]]
    shape = {k: v for k, v in config.items() if k[0] != "_" and k != "architectures"}
    with torch.device("meta"):
        built = transformers.AutoModelForCausalLM.from_config(
            transformers.AutoConfig.for_model(kind, **shape)
        )
    count = sum(p.numel() for p in built.parameters())
    # DeepSeek-V3's router bias isn't trained by gradients: a buffer there.
    count += sum(
        b.numel() for n, b in built.named_buffers() if "e_score_correction_bias" in n
    )
    assert model.parameters == count
