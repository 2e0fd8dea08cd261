"""Small models of transformers with random weights, one for each architecture: what hf_exports.py exports."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any

import torch
import transformers
from torch import Tensor, nn

WORDS, HIDDEN, WINDOW = 96, 64, 4

#: Settings that most configurations have.
USUAL: dict[str, Any] = {
    "vocab_size": WORDS,
    "hidden_size": HIDDEN,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
STATES = {"state_size": 8, "conv_kernel": 4, "expand": 2}
#: Low-rank projections of DeepSeek.
LATENT = {
    "head_dim": 8,
    "num_key_value_heads": 4,
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "moe_intermediate_size": 32,
    "first_k_dense_replace": 1,
}
GPT = {"n_embd": HIDDEN, "n_layer": 2, "n_head": 4, "n_positions": 64}

#: Settings that differ from the usual.
DECODERS: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {"sliding_window": WINDOW},
    "qwen2": {},
    "qwen3": {},
    "gemma": {},
    "gemma2": {"sliding_window": WINDOW, "attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0},
    "phi": {"partial_rotary_factor": 0.5},
    "gpt2": GPT,
    "gpt_neox": {"rotary_pct": 0.25, "num_key_value_heads": 4},
    "mixtral": {"num_local_experts": 4},
    "olmo": {"clip_qkv": 2.0},
    "falcon": {"multi_query": True, "parallel_attn": True},
    "mamba": STATES,
    "phi3": {"sliding_window": WINDOW},
    "gemma3_text": {"sliding_window": WINDOW, "num_hidden_layers": 3, "sliding_window_pattern": 2},
    "stablelm": {"partial_rotary_factor": 0.25, "use_qkv_bias": True},
    "granite": {"embedding_multiplier": 3.0, "logits_scaling": 2.0, "residual_multiplier": 0.5},
    "opt": {"ffn_dim": 96, "word_embed_proj_dim": HIDDEN},
    "bloom": {"n_layer": 2, "n_head": 4},
    "cohere": {"use_qk_norm": True},
    "starcoder2": {"sliding_window": WINDOW},
    "deepseek_v3": LATENT | {"n_group": 2, "topk_group": 1, "num_experts_per_tok": 2},
    "qwen2_moe": EXPERTS | {"shared_expert_intermediate_size": 32},
    "qwen3_moe": EXPERTS,
    "gpt_oss": {"sliding_window": WINDOW, "num_local_experts": 4, "num_experts_per_tok": 2},
    "olmo2": {},
    "gptj": GPT | {"rotary_dim": 8},
    "gpt_neo": {
        "num_layers": 2,
        "num_heads": 4,
        "window_size": WINDOW,
        "attention_types": [[["global", "local"], 1]],
    },
    "codegen": GPT | {"rotary_dim": 8, "n_ctx": 64},
    "mpt": {"d_model": HIDDEN, "n_heads": 4, "n_layers": 2, "max_seq_len": 64, "expansion_ratio": 2},
    "gpt_bigcode": GPT,
    "persimmon": {"partial_rotary_factor": 0.5},
    "glm": {},
    "smollm3": {"no_rope_layers": [1, 0]},
    "nemotron": {},
    "exaone4": {"sliding_window": WINDOW},
    "olmoe": EXPERTS,
    "cohere2": {"sliding_window": WINDOW},
    "granitemoe": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "deepseek_v2": LATENT | {"topk_method": "greedy", "num_experts_per_tok": 2},
    "mamba2": STATES | {"num_heads": 8, "head_dim": 16, "n_groups": 2, "chunk_size": 4},
    "falcon_mamba": STATES,
    "jamba": {
        "mamba_d_state": 8,
        "mamba_dt_rank": 4,
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
        "expert_layer_period": 2,
        "num_experts": 4,
        "use_mamba_kernels": False,
    },
    **{name: {} for name in "arcee apertus diffllama ernie4_5 exaone glm4 helium internlm3".split()},
    **{name: {} for name in "hunyuan_v1_dense ministral nanochat olmo3 seed_oss vaultgemma biogpt".split()},
    **{name: EXPERTS for name in "ernie4_5_moe flex_olmo glm4_moe".split()},
    "phimoe": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "ctrl": GPT | {"dff": 96},
    "xglm": {"d_model": HIDDEN, "ffn_dim": 96, "num_layers": 2, "attention_heads": 4},
    "lfm2": {"layer_types": ["conv", "full_attention"], "block_multiple_of": 16},
    "rwkv": {"attention_hidden_size": HIDDEN},
    "qwen3_next": EXPERTS
    | {
        "layer_types": ["linear_attention", "full_attention"],
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
        "shared_expert_intermediate_size": 32,
    },
}


#: Models that have no other attention.
EAGER = "gemma2 mamba bloom gpt_oss gpt_neo mpt mamba2 falcon_mamba rwkv vaultgemma xglm".split()

#: Models that torch's older exporter refuses, or makes another function of.
ONLY_DYNAMO = (
    "mamba mamba2 falcon_mamba jamba lfm2 qwen3_next deepseek_v2 glm glm4 cohere cohere2 apertus diffllama "
    "ernie4_5 ernie4_5_moe helium"
).split()


def configured(name: str, more: dict[str, Any]) -> Any:  # noqa: ANN401
    """Return a configuration of an architecture."""
    chosen = USUAL | more
    kind = type(transformers.AutoConfig.for_model(name))
    own = {key for key in chosen if isinstance(getattr(kind, key, None), property)}
    return kind(**{key: value for key, value in chosen.items() if key not in own | {"without"}})


def spread(model: nn.Module, seed: int) -> None:
    """Weights as large as those of a trained model: what they make has a range of about 1."""
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        if any(part in name for part in ("A_log", "dt_bias", "dt_proj.bias", "time_", "recurrent_param")):
            continue  # decays are as the architecture begins them
        noise = torch.randn(weight.shape, generator=generator)
        with torch.no_grad():
            if weight.dim() < 2:
                weight += 0.1 * noise
            else:
                weight.copy_(noise * weight.shape[-1] ** -0.5)


def decoder(name: str, attention: str = "sdpa", seed: int = 1) -> nn.Module:
    """Return a decoder with a head."""
    torch.manual_seed(seed)
    config = configured(name, DECODERS[name])
    config.use_cache = True
    kind = transformers.AutoModelForCausalLM
    model = kind.from_config(config, attn_implementation="eager" if name in EAGER else attention)
    with contextlib.suppress(ValueError, AttributeError):  # of those with experts: the one that is exported
        model.set_experts_implementation("batched_mm")
    spread(model, seed)
    return model.eval()


class WithCache(nn.Module):
    """Tensors of a cache are inputs and outputs; without any there is none yet."""

    def __init__(self, model: Any, whole: bool = True) -> None:  # noqa: ANN401
        super().__init__()
        self.model = model
        self.eval()
        known = inspect.signature(model.forward).parameters
        self.word = next(word for word in ("cache", "state") if word in known)
        self.whole = whole
        self.recurrent = model.config.model_type != "lfm2"  # which has convolutions alone
        self.masked = "attention_mask" in known

    def cache(self, past: list[Tensor], length: int) -> Any:  # noqa: ANN401
        """Make a cache of the tensors that `tensors` gave."""
        if self.word == "state":
            return [each.clone() for each in past] or None
        made = transformers.DynamicCache(config=self.model.config)
        if self.whole and not any(hasattr(layer, "conv_states") for layer in made.layers):
            pairs = zip(past[::2], past[1::2], strict=True)
            return transformers.DynamicCache(list(pairs)) if past else transformers.DynamicCache()
        if not past:
            return made
        left = iter(past)
        for layer in made.layers:
            if hasattr(layer, "conv_states"):
                for index in range(len(layer.conv_states)):
                    layer.conv_states[index] = next(left).clone()
                    layer.is_conv_states_initialized[index] = True
                    if self.recurrent:
                        layer.recurrent_states[index] = next(left).clone()
                        layer.is_recurrent_states_initialized[index] = True
                    layer.conv_kernel_size[index] = layer.conv_states[index].shape[-1]
                    layer.has_previous_state[index] = True
                    layer.device, layer.dtype = past[0].device, past[0].dtype
            if hasattr(layer, "keys"):
                layer.keys, layer.values = next(left), next(left)
                layer.is_initialized, layer.device, layer.dtype = True, past[0].device, past[0].dtype
                if hasattr(layer, "cumulative_length"):
                    layer.cumulative_length = length
        return made

    def tensors(self, cache: Any) -> list[Tensor]:  # noqa: ANN401
        """Return all that a cache holds, by layer."""
        if self.word == "state":
            return list(cache)
        made: list[Tensor] = []
        for layer in cache.layers:
            if hasattr(layer, "conv_states"):
                for index in range(len(layer.conv_states)):
                    made += [layer.conv_states[index]]
                    made += [layer.recurrent_states[index]] if self.recurrent else []
            if getattr(layer, "keys", None) is not None:
                made += [layer.keys, layer.values]
        return made

    def forward(self, input_ids: Tensor, attention_mask: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        """Logits and the cache."""
        length = attention_mask.shape[1] - input_ids.shape[1]
        given = {self.word: self.cache(list(past), length), "use_cache": True}
        if self.masked:
            given["attention_mask"] = attention_mask
        made = self.model(input_ids=input_ids, **given)
        return made.logits, *self.tensors(made[self.word])
