"""Families of models: what each `model_type` means by its fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from kpusim.llm.architecture import Activation, Attention, Feed, Layer, Model, Norm
from kpusim.llm.configuration import Fields, read_fields

ACTIVATIONS: dict[str, Activation] = {
    "silu": "silu", "swish": "silu", "gelu": "gelu", "relu": "relu", "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh",
}  # fmt: skip
#: Ways to rotate long contexts: factors of constants, without time of their own.
ROPES = {name: None for name in ("default", "linear", "dynamic", "yarn", "longrope", "su", "llama3")}
FULL, SLIDING = "full_attention", "sliding_attention"
PARTS = "its pictures are not modelled, its text model is"


def read_model(path: Path) -> Model:
    """Return the model that a configuration describes.

    Raises
    ------
    UserError
        For a file that is none, an unknown `model_type`, and fields that are missing, out of range or not
        modelled.
    """
    fields = read_fields(path)
    remarks: tuple[str, ...] = ()
    if fields.has("text_config"):
        fields, remarks = fields.inner("text_config"), (PARTS,)
    family = fields.choice("model_type", FAMILIES)
    fields.refuse("quantization_config", "kv_lora_rank", "q_lora_rank", "cross_attention_layers")
    for field in ("rope_scaling", "rope_parameters"):
        if isinstance(fields.raw(field), dict):
            rope = fields.inner(field)
            named = "type" if rope.has("type") and not rope.has("rope_type") else "rope_type"
            rope.choice(named, ROPES, "default")
    model = family(fields)
    name = path.name if path.is_dir() else path.stem
    return replace(model, name=name, family=fields.raw("model_type"), remarks=remarks + model.remarks)


def _attention(fields: Fields, rotary: float = 1.0) -> Attention:
    """Attention by the usual names."""
    heads = fields.count("num_attention_heads")
    kv = fields.count("num_key_value_heads", heads)
    hidden = fields.count("hidden_size")
    if heads % kv:
        raise fields.error(
            "num_key_value_heads", f"is {kv}, for {heads} heads", "give a divisor of the heads"
        )
    if not fields.has("head_dim") and hidden % heads:
        raise fields.error("num_attention_heads", f"is {heads}, for {hidden} numbers", "give head_dim")
    size = fields.count("head_dim", hidden // heads)
    return Attention(heads, kv, size, int(size * rotary) // 2 * 2)


def _feed(fields: Fields, width: int | None = None, activation: str = "hidden_act") -> Feed:
    return Feed(
        width if width is not None else fields.count("intermediate_size"),
        fields.choice(activation, ACTIVATIONS),
    )


def _model(fields: Fields, layers: list[Layer], *, norm: Norm = "rms", tied: bool = False) -> Model:
    return Model(
        name="", family="", hidden=fields.count("hidden_size"), vocabulary=fields.count("vocab_size"),
        layers=tuple(layers), norm=norm, tied=fields.flag("tie_word_embeddings", tied),
    )  # fmt: skip


def _window(fields: Fields, field: str = "sliding_window") -> int | None:
    return fields.count(field) if fields.has(field) else None


def _reaching(fields: Fields, one: Layer, kinds: list[bool]) -> list[Layer]:
    """Return a layer for each of the kinds: True slides, over `sliding_window` positions."""
    count = len(kinds)
    if (words := fields.words("layer_types", (FULL, SLIDING), count)) is not None:
        kinds = [word == SLIDING for word in words]
    if not any(kinds):
        return [one] * count
    window = fields.count("sliding_window")
    slides = replace(one, attention=replace(one.attention, window=window))
    return [slides if kind else one for kind in kinds]


def _llama(fields: Fields) -> Model:
    attention = _attention(fields)
    bias = fields.flag("attention_bias", False)
    feed = replace(_feed(fields), bias=fields.flag("mlp_bias", False))
    layer = Layer(replace(attention, bias=bias, out_bias=bias), feed)
    return _model(fields, [layer] * fields.count("num_hidden_layers"))


def _mistral(fields: Fields) -> Model:
    layer = Layer(replace(_attention(fields), window=_window(fields)), _feed(fields))
    return _model(fields, [layer] * fields.count("num_hidden_layers"))


def _mixtral(fields: Fields) -> Model:
    experts, chosen = fields.count("num_local_experts"), fields.count("num_experts_per_tok")
    if chosen > experts:
        raise fields.error("num_experts_per_tok", f"is {chosen}, of {experts}", "give no more than there are")
    feed = replace(_feed(fields), experts=experts, chosen=chosen)
    layer = Layer(replace(_attention(fields), window=_window(fields)), feed)
    return _model(fields, [layer] * fields.count("num_hidden_layers"))


def _qwen2(fields: Fields) -> Model:
    count = fields.count("num_hidden_layers")
    slides = fields.flag("use_sliding_window", False)
    first = fields.count("max_window_layers", 28, 0) if slides else count
    layer = Layer(replace(_attention(fields), bias=True), _feed(fields))
    return _model(fields, _reaching(fields, layer, [slides and index >= first for index in range(count)]))


def _qwen3(fields: Fields) -> Model:
    model = _qwen2(fields)
    bias = fields.flag("attention_bias", False)
    layers = [
        replace(one, attention=replace(one.attention, bias=bias, out_bias=bias, norms="head"))
        for one in model.layers
    ]
    return replace(model, layers=tuple(layers))


def _gemma(fields: Fields) -> Model:
    # its first configurations say `gelu`, and mean the form with tanh
    feed = replace(_feed(fields), activation="gelu_tanh")
    layer = Layer(_attention(fields), feed)
    return _model(fields, [layer] * fields.count("num_hidden_layers"), tied=True)


def _gemma2(fields: Fields) -> Model:
    softcap = fields.has("attn_logit_softcapping")
    layer = Layer(
        replace(_attention(fields), softcap=softcap), _feed(fields, activation="hidden_activation"),
        norm_behind=True,
    )  # fmt: skip
    kinds = [index % 2 == 0 for index in range(fields.count("num_hidden_layers"))]
    model = _model(fields, _reaching(fields, layer, kinds), tied=True)
    return replace(model, softcap=fields.has("final_logit_softcapping"))


def _gemma3(fields: Fields) -> Model:
    layer = Layer(
        replace(_attention(fields), norms="head", softcap=fields.has("attn_logit_softcapping")),
        _feed(fields, activation="hidden_activation"), norm_behind=True,
    )  # fmt: skip
    every = fields.count("sliding_window_pattern", 6)
    kinds = [(index + 1) % every != 0 for index in range(fields.count("num_hidden_layers"))]
    model = _model(fields, _reaching(fields, layer, kinds), tied=True)
    return replace(model, softcap=fields.has("final_logit_softcapping"))


def _phi3(fields: Fields) -> Model:
    attention = _attention(fields, fields.share("partial_rotary_factor", 1.0))
    layer = Layer(replace(attention, window=_window(fields)), _feed(fields))
    return _model(fields, [layer] * fields.count("num_hidden_layers"))


def _olmo(fields: Fields) -> Model:
    attention = _attention(fields)
    bias = fields.flag("attention_bias", False)
    layer = Layer(replace(attention, bias=bias, out_bias=bias), _feed(fields), norm="layer_plain")
    model = _model(fields, [layer] * fields.count("num_hidden_layers"), norm="layer_plain")
    remarks = ("`clip_qkv` is not modelled: three comparisons a layer",) if fields.has("clip_qkv") else ()
    return replace(model, remarks=remarks)


def _olmo2(fields: Fields) -> Model:
    attention = replace(_attention(fields), norms="all")
    layer = Layer(attention, _feed(fields), norm_before=False, norm_behind=True)
    return _model(fields, [layer] * fields.count("num_hidden_layers"))


def _gpt2(fields: Fields) -> Model:
    hidden, heads = fields.count("n_embd"), fields.count("n_head")
    if hidden % heads:
        raise fields.error("n_head", f"is {heads}, for {hidden} numbers", "give a divisor")
    attention = Attention(heads, heads, hidden // heads, 0, bias=True, out_bias=True)
    width = fields.count("n_inner", 4 * hidden)
    feed = Feed(width, fields.choice("activation_function", ACTIVATIONS, "gelu_new"), gated=False, bias=True)
    layers = (Layer(attention, feed, norm="layer"),) * fields.count("n_layer")
    tied = fields.flag("tie_word_embeddings", True)
    return Model("", "", hidden, fields.count("vocab_size"), layers, "layer", tied)


def _gpt_neox(fields: Fields) -> Model:
    attention = _attention(fields, fields.share("rotary_pct", 0.25))
    bias = fields.flag("attention_bias", True)
    feed = replace(_feed(fields), gated=False, bias=True)
    layer = Layer(
        replace(attention, bias=bias, out_bias=bias), feed, norm="layer",
        parallel=fields.flag("use_parallel_residual", True),
    )  # fmt: skip
    return _model(fields, [layer] * fields.count("num_hidden_layers"), norm="layer")


def _falcon(fields: Fields) -> Model:
    fields.refuse("alibi")
    hidden, heads = fields.count("hidden_size"), fields.count("num_attention_heads")
    grouped = fields.flag("new_decoder_architecture", False)
    kv = fields.count("num_kv_heads", heads) if grouped else heads
    if not grouped and fields.flag("multi_query", True):
        kv = 1
    if hidden % heads or heads % kv:
        raise fields.error(
            "num_attention_heads", f"is {heads}", "give a divisor, and a multiple of num_kv_heads"
        )
    bias = fields.flag("bias", False)
    size = hidden // heads
    attention = Attention(heads, kv, size, size // 2 * 2, bias=bias, out_bias=bias)
    activation = fields.choice("activation", ACTIVATIONS, "gelu")
    feed = Feed(fields.count("ffn_hidden_size", 4 * hidden), activation, gated=False, bias=bias)
    parallel = fields.flag("parallel_attn", True) or grouped
    shared = parallel and not (grouped and fields.count("num_ln_in_parallel_attn", 2) == 2)
    layer = Layer(attention, feed, norm="layer", parallel=parallel, shared_norm=shared)
    return _model(fields, [layer] * fields.count("num_hidden_layers"), norm="layer", tied=True)


FAMILIES: dict[str, Callable[[Fields], Model]] = {
    "llama": _llama, "mistral": _mistral, "mixtral": _mixtral, "qwen2": _qwen2, "qwen3": _qwen3,
    "gemma": _gemma, "gemma2": _gemma2, "gemma3_text": _gemma3, "gemma3": _gemma3, "phi3": _phi3,
    "gpt2": _gpt2, "gpt_neox": _gpt_neox, "olmo": _olmo, "olmo2": _olmo2, "falcon": _falcon,
}  # fmt: skip
