#!/usr/bin/env python3
"""Small random checkpoints of language models, and what Tenon's model files make of them.

    models.py make [CLASS ..] -o DIR     makes DIR/CLASS/ with config.json, model.safetensors, ref.safetensors
    models.py check TENON PATH ..        runs models/*.tn on such folders (or on a .gguf file in one) and compares
    models.py gguf DIR ..                writes CLASS.gguf into folders that `make` made
    models.py peer FILE.gguf ..          compares llama.cpp (the package llama-cpp-python) with the reference
    models.py list                       prints the names that `make` knows

A name is a class of transformers (`LlamaForCausalLM`), or one with a variant of its config behind a dash
(`LlamaForCausalLM-yarn`). A name without a variant stands for all variants of the class too. Weights are random and of
a fixed seed, norms and biases too, so that nothing that is forgotten stays unseen.

`ref.safetensors` has `input_ids` i64[2, 12], `out` f32[2, 12, vocab], the logits of transformers, and `greedy_ids`
i64[1, 28]: row 0 and the 16 tokens that follow it by the largest logit.

`check` finds the file that serves the class by its line `#[serves(..)]`, and runs its `step` with `tenon run` four
times over: both rows as one ragged batch, the rows cut in two chunks, each row cut in its own, and a few single tokens
behind a chunk; pools are handed from step to step in files. What is kept by sequence has two slots for each, read and
written in turns; the pools begin as random numbers. What it prints is the largest difference to `out`, as a part of the
largest number in `out`. More than 1e-4 is a failure. `bits differ` names the first way that does not agree bit for bit
with the batch; with `--say=--invariant` there is none.

It needs torch, transformers, safetensors and numpy; `gguf` for GGUF files.
"""

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 1e-4
ROWS, TOKENS, MORE = 2, 12, 16
PAGE = 4

# What a class is made of: the arguments of its config. `SMALL` stands below each; a value of `None` in a table is a
# `null` in the config. Beside them: `__raw__` stores tensors as transformers holds them, and `__config__` changes the
# config as it is written.
SMALL = dict(
    vocab_size=96,
    hidden_size=32,
    intermediate_size=40,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=0,
    tie_word_embeddings=False,
)

ROPE = dict(rope_theta=10000.0)
ROPE_PART = dict(ROPE, rope_type="default")
YARN = dict(ROPE, rope_type="yarn", factor=4.0, original_max_position_embeddings=16)
LLAMA3 = dict(
    ROPE, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32
)
DELTA = dict(
    head_dim=12,
    num_hidden_layers=4,
    linear_num_key_heads=2,
    linear_num_value_heads=4,
    linear_key_head_dim=10,
    linear_value_head_dim=6,
    linear_conv_kernel_dim=4,
    rope_parameters=dict(ROPE_PART, partial_rotary_factor=0.5),
)
SSM = dict(num_heads=4, head_dim=16, state_size=10, n_groups=1, chunk_size=8)
GRANITE = dict(
    num_hidden_layers=3,
    layer_types=["linear_attention", "full_attention", "linear_attention"],
    mamba_n_heads=4,
    mamba_d_head=16,
    mamba_d_state=10,
    mamba_n_groups=1,
    mamba_chunk_size=8,
    intermediate_size=20,
    shared_intermediate_size=24,
    num_local_experts=5,
    num_experts_per_tok=2,
    embedding_multiplier=1.5,
    logits_scaling=2.0,
    residual_multiplier=0.7,
    attention_multiplier=0.3,
)
# The part of a model that sees; texts do not read it.
SIGHT = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=32, patch_size=4)
MOE = dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=20)

MLA = dict(
    num_hidden_layers=3,
    num_key_value_heads=4,
    kv_lora_rank=16,
    q_lora_rank=20,
    qk_nope_head_dim=12,
    qk_rope_head_dim=8,
    v_head_dim=10,
    n_routed_experts=6,
    num_experts_per_tok=2,
    moe_intermediate_size=20,
    n_shared_experts=1,
    n_group=1,
    topk_group=1,
)
V2, V3 = dict(MLA, first_k_dense_replace=1), dict(MLA, first_k_dense_replace=1, num_mtp_layers=0)
GROUPS = dict(n_routed_experts=12, n_group=4, topk_group=2, num_experts_per_tok=3)
MSCALE = dict(YARN, mscale=0.8, mscale_all_dim=0.4, beta_fast=8.0, beta_slow=0.5)

GEMMA3 = {
    "full_attention": dict(rope_type="linear", rope_theta=100000.0, factor=8.0),
    "sliding_attention": dict(rope_type="default", rope_theta=10000.0),
}
# Layers that see a window, and one in six that sees all.
LOCALS = dict(
    head_dim=12,
    num_hidden_layers=7,
    query_pre_attn_scalar=12,
    sliding_window=5,
    rope_parameters=GEMMA3,
    tie_word_embeddings=True,
)

LONGROPE = dict(
    rope_type="longrope",
    rope_theta=10000.0,
    short_factor=[1.0, 1.1, 1.2, 1.5, 2.0, 2.5],
    long_factor=[1.0, 1.5, 3.0, 6.0, 9.0, 12.0],
)

NONE = {k: None for k in ["bos_token_id", "eos_token_id", "pad_token_id"]}
# These have names of their own, and `SMALL` says the others.
GPT2 = dict(n_embd=32, n_layer=3, n_head=4, n_positions=32, **NONE)
NEOX = dict(intermediate_size=48, rope_parameters=dict(rope_theta=10000.0, partial_rotary_factor=0.5))
MPT = dict(d_model=32, n_layers=3, n_heads=4, max_seq_len=64, tie_word_embeddings=True)


def old(c):
    """A config in the form of older versions of transformers."""
    rope = c.pop("rope_parameters")
    kind = c["model_type"]
    for name in ["layer_types", "_sliding_window_pattern"]:
        c.pop(name, None)
    if kind == "gemma3_text":
        c["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        c["sliding_window_pattern"] = 6
        rope = rope["full_attention"]
    if kind == "cohere2":
        c["sliding_window_pattern"] = 4
        c.pop("head_dim", None)
    part = rope.pop("partial_rotary_factor", 1.0)
    if kind == "gpt_neox":
        c |= {"rotary_pct": part, "rotary_emb_base": int(rope["rope_theta"])}
        return c
    if part != 1.0:
        c["partial_rotary_factor"] = part
    c["rope_theta"] = rope.pop("rope_theta")
    c["rope_scaling"] = rope if rope["rope_type"] != "default" else None
    if rope["rope_type"] == "longrope":
        rope.pop("original_max_position_embeddings")
    if rope["rope_type"] in ["longrope", "yarn"]:
        rope["type"] = rope.pop("rope_type")
    if c.get("head_dim") == c["hidden_size"] // c["num_attention_heads"]:
        c["head_dim"] = None
    return c


def old_kinds(c):
    """Layer types by the names of older versions of transformers."""
    names = {"linear_attention": "mamba", "full_attention": "attention"}
    return dict(c, layer_types=[names[t] for t in c["layer_types"]])


MODELS = {
    "LlamaForCausalLM": dict(head_dim=12),
    "LlamaForCausalLM-tied": dict(tie_word_embeddings=True, num_key_value_heads=4),
    "LlamaForCausalLM-bias": dict(attention_bias=True, mlp_bias=True),
    "LlamaForCausalLM-linear": dict(rope_parameters=dict(ROPE, rope_type="linear", factor=4.0)),
    "LlamaForCausalLM-llama3": dict(rope_parameters=LLAMA3, head_dim=16),
    "LlamaForCausalLM-yarn": dict(rope_parameters=YARN, head_dim=16),
    "LlamaForCausalLM-mscale": dict(
        rope_parameters=dict(YARN, mscale=0.8, mscale_all_dim=0.4, beta_fast=8.0, beta_slow=0.5, truncate=False),
        head_dim=16,
    ),
    "LlamaForCausalLM-factor": dict(rope_parameters=dict(YARN, factor=3.0, attention_factor=1.3), head_dim=16),
    "LlamaForCausalLM-old": dict(head_dim=16, rope_parameters=LLAMA3, __config__=old),
    "LlamaForCausalLM-oldyarn": dict(rope_parameters=YARN, __config__=old),
    "LlamaForCausalLM-dynamic": dict(rope_parameters=dict(ROPE, rope_type="dynamic", factor=4.0)),
    "MistralForCausalLM": dict(sliding_window=None),
    "MistralForCausalLM-window": dict(sliding_window=5, head_dim=12),
    "SmolLM3ForCausalLM": dict(num_hidden_layers=4, no_rope_layers=[1, 0, 1, 0]),
    "SmolLM3ForCausalLM-four": dict(num_hidden_layers=4, hidden_size=24, intermediate_size=32),
    "Qwen2ForCausalLM": dict(),
    "Qwen2ForCausalLM-window": dict(
        num_hidden_layers=3, use_sliding_window=True, sliding_window=5, max_window_layers=1
    ),
    "Qwen3ForCausalLM": dict(head_dim=12, tie_word_embeddings=True),
    "Qwen3ForCausalLM-bias": dict(head_dim=12, attention_bias=True, rope_parameters=YARN),
    "Qwen3NextForCausalLM": dict(DELTA, **MOE, shared_expert_intermediate_size=28),
    "Qwen3NextForCausalLM-types": dict(
        DELTA,
        **MOE,
        shared_expert_intermediate_size=12,
        norm_topk_prob=False,
        attention_bias=True,
        num_hidden_layers=5,
        linear_num_key_heads=3,
        linear_num_value_heads=3,
        linear_key_head_dim=40,
        linear_value_head_dim=72,
        linear_conv_kernel_dim=2,
        layer_types=[
            "full_attention",
            "linear_attention",
            "linear_attention",
            "full_attention",
            "linear_attention",
        ],
    ),
    "Qwen3NextForCausalLM-even": dict(DELTA, **MOE, linear_value_head_dim=10, shared_expert_intermediate_size=28),
    "Qwen3_5ForCausalLM": dict(DELTA),
    "Qwen3_5ForCausalLM-even": dict(DELTA, linear_value_head_dim=10, linear_num_value_heads=6, num_hidden_layers=8),
    "Qwen3_5ForCausalLM-linear": dict(
        DELTA, num_hidden_layers=2, layer_types=["linear_attention"] * 2, tie_word_embeddings=True
    ),
    "Qwen3_5MoeForCausalLM": dict(DELTA, **MOE, linear_value_head_dim=10, shared_expert_intermediate_size=28),
    "Qwen3_5ForConditionalGeneration": dict(DELTA, __sight__=SIGHT),
    "Qwen3_5MoeForConditionalGeneration": dict(
        DELTA,
        **MOE,
        linear_value_head_dim=10,
        shared_expert_intermediate_size=28,
        tie_word_embeddings=True,
        __sight__=SIGHT,
    ),
    "Mamba2ForCausalLM": dict(SSM),
    "Mamba2ForCausalLM-groups": dict(
        SSM, num_heads=6, head_dim=12, n_groups=3, hidden_size=36, num_hidden_layers=3, state_size=9
    ),
    "Mamba2ForCausalLM-limit": dict(
        SSM, time_step_limit=[0.3, 1.0], use_bias=True, use_conv_bias=False, conv_kernel=3, tie_word_embeddings=True
    ),
    "GraniteMoeHybridForCausalLM": dict(GRANITE),
    "GraniteMoeHybridForCausalLM-rope": dict(
        GRANITE,
        position_embedding_type="rope",
        num_local_experts=0,
        mamba_n_groups=2,
        mamba_proj_bias=True,
        attention_bias=True,
        tie_word_embeddings=True,
        layer_types=["full_attention", "linear_attention", "linear_attention"],
    ),
    "GraniteMoeHybridForCausalLM-attention": dict(
        GRANITE, position_embedding_type="rope", num_local_experts=0, layer_types=["full_attention"] * 3
    ),
    "GraniteMoeHybridForCausalLM-old": dict(GRANITE, __config__=old_kinds),
    "MinistralForCausalLM": dict(
        head_dim=12,
        num_hidden_layers=3,
        sliding_window=5,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    ),
    "MixtralForCausalLM": dict(num_local_experts=5, num_experts_per_tok=2, intermediate_size=24),
    "MixtralForCausalLM-fused": dict(
        num_local_experts=5, num_experts_per_tok=3, intermediate_size=24, sliding_window=5, __raw__=True
    ),
    "OlmoeForCausalLM": dict(num_experts=6, num_experts_per_tok=2, intermediate_size=16),
    "OlmoeForCausalLM-clip": dict(
        num_experts=6, num_experts_per_tok=3, intermediate_size=16, clip_qkv=0.7, norm_topk_prob=True
    ),
    "Qwen2MoeForCausalLM": dict(MOE, shared_expert_intermediate_size=28),
    "Qwen3MoeForCausalLM": dict(MOE, head_dim=12, norm_topk_prob=True),
    "Qwen3MoeForCausalLM-fused": dict(MOE, norm_topk_prob=False, __raw__=True),
    "Olmo2ForCausalLM": dict(),
    "Olmo2ForCausalLM-linear": dict(rope_parameters=dict(ROPE, rope_type="linear", factor=4.0)),
    "Olmo3ForCausalLM": dict(num_hidden_layers=4, sliding_window=5),
    "Olmo3ForCausalLM-yarn": dict(
        num_hidden_layers=3,
        sliding_window=5,
        layer_types=["full_attention", "sliding_attention", "full_attention"],
        rope_parameters=dict(full_attention=YARN, sliding_attention=dict(ROPE, rope_type="default")),
    ),
    "GemmaForCausalLM": dict(head_dim=12, tie_word_embeddings=True),
    "Gemma2ForCausalLM": dict(
        head_dim=12,
        num_hidden_layers=3,
        query_pre_attn_scalar=12,
        sliding_window=5,
        attn_logit_softcapping=5.0,
        final_logit_softcapping=20.0,
        tie_word_embeddings=True,
    ),
    "Gemma3ForCausalLM": dict(LOCALS),
    "Gemma3ForCausalLM-types": dict(
        head_dim=16,
        num_hidden_layers=3,
        query_pre_attn_scalar=24,
        sliding_window=4,
        layer_types=["full_attention", "sliding_attention", "full_attention"],
        final_logit_softcapping=30.0,
    ),
    "Gemma3ForConditionalGeneration": dict(
        LOCALS, __sight__=dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2)
    ),
    "Mistral3ForConditionalGeneration": dict(
        head_dim=12, sliding_window=5, __sight__=dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2)
    ),
    "Phi3ForCausalLM": dict(sliding_window=None, num_key_value_heads=4),
    "Phi3ForCausalLM-window": dict(sliding_window=5),
    "Phi3ForCausalLM-longrope": dict(
        hidden_size=64,
        rope_parameters=dict(LONGROPE, partial_rotary_factor=0.75),
        max_position_embeddings=64,
        original_max_position_embeddings=16,
        tie_word_embeddings=True,
    ),
    "Phi3ForCausalLM-long": dict(
        __config__=lambda c: dict(c, context=64),
        hidden_size=64,
        rope_parameters=dict(LONGROPE, partial_rotary_factor=0.75),
        max_position_embeddings=64,
        original_max_position_embeddings=8,
    ),
    "Glm4ForCausalLM": dict(head_dim=12, rope_parameters=dict(rope_theta=10000.0, partial_rotary_factor=0.5)),
    "Glm4ForCausalLM-yarn": dict(
        head_dim=16,
        attention_bias=False,
        rope_parameters=dict(
            rope_theta=10000.0,
            rope_type="yarn",
            factor=4.0,
            original_max_position_embeddings=16,
            partial_rotary_factor=0.5,
        ),
    ),
    "GlmForCausalLM": dict(head_dim=12, rope_parameters=dict(rope_theta=10000.0, partial_rotary_factor=0.5)),
    "Cohere2ForCausalLM": dict(
        num_hidden_layers=5, sliding_window=5, logit_scale=0.25, tie_word_embeddings=True, num_key_value_heads=4
    ),
    "Cohere2ForCausalLM-types": dict(
        num_hidden_layers=2, sliding_window=4, layer_types=["full_attention", "sliding_attention"], logit_scale=0.5
    ),
    "DeepseekV3ForCausalLM": dict(V3),
    "DeepseekV3ForCausalLM-noqa": dict(V3, q_lora_rank=None, attention_bias=True, norm_topk_prob=False),
    "DeepseekV3ForCausalLM-groups": dict(V3, **GROUPS, n_shared_experts=2, first_k_dense_replace=2),
    "DeepseekV3ForCausalLM-halves": dict(V3, rope_interleave=False, first_k_dense_replace=0, attention_bias=True),
    "DeepseekV3ForCausalLM-dense": dict(V3, first_k_dense_replace=3, tie_word_embeddings=True),
    "DeepseekV3ForCausalLM-yarn": dict(V3, rope_parameters=YARN),
    "DeepseekV3ForCausalLM-mscale": dict(V3, **GROUPS, rope_parameters=MSCALE, routed_scaling_factor=2.5),
    "DeepseekV3ForCausalLM-even": dict(V3, rope_parameters=dict(MSCALE, mscale=1.0, mscale_all_dim=1.0)),
    "DeepseekV3ForCausalLM-old": dict(V3, **GROUPS, rope_parameters=MSCALE, __config__=old),
    "DeepseekV3ForCausalLM-blocks": dict(
        V3 | dict(kv_lora_rank=32, q_lora_rank=32, qk_nope_head_dim=32, v_head_dim=32, moe_intermediate_size=32),
        hidden_size=64,
        intermediate_size=64,
    ),
    "DeepseekV3ForCausalLM-fused": dict(V3, __raw__=True),
    "DeepseekV2ForCausalLM": dict(V2, q_lora_rank=None, n_shared_experts=2, routed_scaling_factor=1.5),
    "DeepseekV2ForCausalLM-query": dict(V2),
    "DeepseekV2ForCausalLM-lite": dict(V2, num_hidden_layers=27, q_lora_rank=None),
    "DeepseekV2ForCausalLM-groups": dict(V2, **GROUPS, topk_method="group_limited_greedy", routed_scaling_factor=4.0),
    "DeepseekV2ForCausalLM-greedy": dict(V2, **GROUPS, rope_parameters=MSCALE),
    "Glm4MoeLiteForCausalLM": dict(MLA),
    "Glm4MoeLiteForCausalLM-types": dict(
        dict(MLA, num_hidden_layers=4, q_lora_rank=None),
        **GROUPS,
        mlp_layer_types=["sparse", "dense", "sparse", "dense"],
        rms_norm_eps=1e-3,
    ),
    "GPT2LMHeadModel": dict(GPT2, tie_word_embeddings=True),
    "GPT2LMHeadModel-depth": dict(
        GPT2, n_inner=40, activation_function="gelu", scale_attn_by_inverse_layer_idx=True, scale_attn_weights=False
    ),
    "GPTNeoXForCausalLM": dict(NEOX),
    "GPTNeoXForCausalLM-serial": dict(
        NEOX, use_parallel_residual=False, rope_parameters=dict(rope_theta=1000.0, partial_rotary_factor=1.0)
    ),
    "GPTNeoXForCausalLM-bare": dict(NEOX, hidden_act="gelu_new", attention_bias=False, tie_word_embeddings=True),
    "MptForCausalLM": dict(MPT),
    "MptForCausalLM-clip": dict(MPT, d_model=36, n_heads=6, attn_config=dict(clip_qkv=1.5)),
    "MptForCausalLM-scale": dict(MPT, attn_config=dict(softmax_scale=0.3)),
}

OLD = "Gemma2ForCausalLM Gemma3ForCausalLM Phi3ForCausalLM-longrope Glm4ForCausalLM-yarn Cohere2ForCausalLM"
for name in [*OLD.split(), "GPTNeoXForCausalLM"]:
    MODELS[f"{name.split('-')[0]}-old"] = dict(MODELS[name], __config__=old)


def chosen(names):
    """The entries that `names` mean: all of them where none is named."""
    out = []
    for name in names or MODELS:
        found = [n for n in MODELS if n == name or ("-" not in name and n.split("-")[0] == name)]
        if not found:
            sys.exit(f"models.py: {name} is not known; `models.py list` prints what is")
        out += [n for n in found if n not in out]
    return out


def randomize(model, config, seed):
    """Numbers for every parameter: matrices so that their products keep the sizes, norms about 1, the rest about 0."""
    import torch

    g = torch.Generator().manual_seed(seed)
    modules = dict(model.named_modules())
    for name, p in list(model.named_parameters()) + list(model.named_buffers()):
        owner, _, leaf = name.rpartition(".")
        if not p.is_floating_point() or name not in model.state_dict():
            continue
        noise = torch.randn(p.shape, generator=g, dtype=torch.float32)
        kind = type(modules[owner]).__name__.lower()
        with torch.no_grad():
            if "norm" in kind or "norm" in owner.rpartition(".")[2]:
                p.copy_(noise * 0.2 + (1.0 if float(p.float().mean()) > 0.5 else 0.0))
            elif "embed" in kind:
                # As an output matrix too, it is to give logits of the same size.
                p.copy_(noise * (0.3 if config.get_text_config().tie_word_embeddings else 1.0))
            elif p.dim() >= 2:
                p.copy_(noise * 1.5 / math.sqrt(p.shape[-1]))
            else:
                p.copy_(noise * 0.3 + p.float().mean())


def make(name, folder):
    import torch
    import transformers
    from safetensors.torch import save_file

    made = dict(MODELS[name])
    cls = getattr(transformers, name.split("-")[0])
    raw = made.pop("__raw__", False)
    rewrite = made.pop("__config__", None)
    sight = made.pop("__sight__", None)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    said = dict(SMALL, **made)
    if sight:
        said = dict(text_config=said, vision_config=sight, tie_word_embeddings=said["tie_word_embeddings"])
    config = cls.config_class(**said)
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    torch.manual_seed(0)
    model = cls(config).float().eval()
    randomize(model, config, seed=sum(map(ord, name)))
    out = folder / name
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    model.save_pretrained(out)
    for extra in out.glob("generation_config.json"):
        extra.unlink()
    if raw:
        # As transformers holds it, not as it stores it.
        save_file({k: v.contiguous().clone() for k, v in model.state_dict().items()}, out / "model.safetensors")
    if rewrite:
        text = json.loads((out / "config.json").read_text())
        (out / "config.json").write_text(json.dumps(rewrite(text), indent=2))
    vocab = config.get_text_config().vocab_size
    ids = torch.randint(3, vocab, (ROWS, TOKENS), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        logits = model(input_ids=ids, use_cache=False).logits
        greedy = ids[:1]
        for _ in range(MORE):
            last = model(input_ids=greedy, use_cache=False).logits[:, -1]
            greedy = torch.cat([greedy, last.argmax(-1, keepdim=True)], 1)
    ref = dict(input_ids=ids, out=logits.contiguous().float(), greedy_ids=greedy.contiguous())
    save_file(ref, out / "ref.safetensors")
    size = sum(f.stat().st_size for f in out.iterdir()) // 1024
    print(f"{name}: {size} KB, logits to {float(logits.abs().max()):.1f}", flush=True)


# ---- check


def serving(architecture):
    """The model file that serves a class, or `gguf:ARCH`."""
    for file in sorted((ROOT / "models").glob("*.tn")):
        for line in re.findall(r"#\[serves\((.*?)\)\]", file.read_text(), re.S):
            if f'"{architecture}"' in line:
                return file
    return None


def record(name, file):
    """The generics and fields of a record: `([generic], [(field, type)])`."""
    parts = sorted((ROOT / "models/parts").glob("*.tn"))
    files = [file, *parts, *sorted((ROOT / "std").glob("*.tn"))]
    for f in files:
        m = re.search(r"^record " + name + r"<([^>]*)> \{(.*?)^\}", f.read_text(), re.S | re.M)
        if m:
            generics = [g.split(":")[0].strip() for g in m[1].split(",") if g.strip()]
            return generics, re.findall(r"^\s*(\w+): (\w+\[.*\])", m[2], re.M)
    sys.exit(f"models.py: there is no record {name}")


def parts(file):
    """The parts of the file's state: name, by what, its tables, its other fields."""
    m = re.search(r"^state \w+(?:<[^>]*>)? \{(.*?)\}", file.read_text(), re.S | re.M)
    out = []
    for name, kind, by in re.findall(r"(\w+): (\w+)<.*?>\s*by (token|sequence)", m[1], re.S):
        generics, fields = record(kind, file)
        table = f"i32[{', '.join(generics[-2:])}]" if by == "token" else f"i32[{generics[-1]}]"
        tables = [f for f, t in fields if t == table]
        out.append((name, by, tables, [f for f, t in fields if t != table]))
    return out


class Steps:
    """Steps of a model one behind the other; the pools go from one to the next."""

    def __init__(self, tenon, file, path, folder, sequences, longest, extra):
        self.tenon, self.file, self.path, self.folder = tenon, file, path, Path(folder)
        self.extra = extra
        self.parts = parts(file)
        self.count, self.sequences = 0, sequences
        span = -(-longest // PAGE)
        pages = sequences * span
        self.fixed, self.pools = [], []
        shared = False
        # Pages in another order than that of the tokens.
        order = np.random.default_rng(5).permutation(pages).reshape(sequences, span).astype(np.int32)
        for name, by, tables, pools in self.parts:
            for t in tables if by == "token" else []:
                self.fixed += ["-i", f"cache.{name}.{t}={self.put(f'{name}.{t}', order)}"]
            size = f"pages={pages}" if by == "token" else f"slots={2 * sequences}"
            self.fixed += ["-i", f"cache.{name}.{size}"]
            if by == "token" and not shared:
                self.fixed += ["-i", f"cache.page={PAGE}"]
                shared = True
            # What nobody wrote is not to be read.
            self.pools += [(f"{name}.{p}", "zeros" if by == "token" else "random@1") for p in pools]

    def slots(self):
        """Those read, and those written: two for each sequence, in turns; before the first step there is none."""
        both = np.random.default_rng(6).permutation(2 * self.sequences).reshape(2, -1).astype(np.int32)
        read, written = both[(self.count + 1) % 2], both[self.count % 2]
        return (np.full_like(read, -1) if self.count == 1 else read), written

    def put(self, name, value):
        at = self.folder / f"{self.count}.{name}.npy"
        np.save(at, value)
        return at

    def step(self, tokens, sequence, position):
        """The logits of every row."""
        self.count += 1
        out = self.folder / f"out{self.count}"
        given = {
            "tokens": np.array(tokens, np.int32),
            "at.sequence": np.array(sequence, np.int32),
            "at.position": np.array(position, np.int32),
            "last": np.arange(len(tokens), dtype=np.int32),
        }
        line = [self.tenon, "run", str(self.file), "-e", "step", "-o", str(out)]
        line += ["-i", f"config={self.path}", "-i", f"w={self.path}", *self.fixed, *self.extra]
        for name, value in given.items():
            line += ["-i", f"{name}={self.put(name, value)}"]
        for name, by, _, _ in self.parts:
            if by == "sequence":
                read, written = self.slots()
                line += ["-i", f"cache.{name}.from={self.put(f'{name}.from', read)}"]
                line += ["-i", f"cache.{name}.to={self.put(f'{name}.to', written)}"]
        for name, value in self.pools:
            line += ["-i", f"cache.{name}={value}"]
        done = subprocess.run(line, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError((done.stderr + done.stdout).strip())
        self.pools = [(name, out / f"1.{name}.npy") for name, _ in self.pools]
        return np.load(out / "0.npy")


def ragged(steps, ids, bounds):
    """The logits of `ids[:, a..b]` for each row, as one ragged batch; the bounds may be a row's own."""
    bounds = bounds if isinstance(bounds[0], tuple) else [bounds] * len(ids)
    tokens = np.concatenate([row[a:b] for row, (a, b) in zip(ids, bounds)])
    sequence = np.repeat(np.arange(len(ids)), [b - a for a, b in bounds])
    position = np.concatenate([np.arange(a, b) for a, b in bounds])
    got = steps.step(tokens, sequence, position)
    return [got[sequence == i] for i in range(len(ids))]


CUTS = {
    "batch": [(0, 12)],
    "chunks": [(0, 7), (7, 12)],
    "mixed": [((0, 1), (0, 7)), ((1, 9), (7, 8)), ((9, 12), (8, 12))],
    "tokens": [(0, 9), (9, 10), (10, 11), (11, 12)],
}


def check(tenon, path, extra, file=None):
    """The largest relative difference of each way, and their file."""
    from safetensors.numpy import load_file

    path = Path(path)
    folder = path.parent if path.suffix == ".gguf" else path
    if path.suffix == ".gguf":
        from gguf import GGUFReader

        reader = GGUFReader(path)
        field = reader.get_field("general.architecture")
        architecture = "gguf:" + bytes(field.parts[field.data[0]]).decode()
        # llama.cpp has one name for both.
        if reader.get_field("llama.expert_count"):
            architecture = "MixtralForCausalLM"
    else:
        architecture = json.loads((path / "config.json").read_text())["architectures"][0]
    file = file or serving(architecture)
    if file is None:
        raise RuntimeError(f"no model file serves {architecture}")
    ref = load_file(str(folder / "ref.safetensors"))
    ids, want = ref["input_ids"], ref["out"]
    off, first = {}, None
    for cut, bounds in CUTS.items():
        with tempfile.TemporaryDirectory() as d:
            steps = Steps(tenon, file, path, d, len(ids), ids.shape[1], extra)
            parts = [ragged(steps, ids, b) for b in bounds]
        got = np.stack([np.concatenate(row) for row in zip(*parts)])
        if got.shape != want.shape:
            raise RuntimeError(f"logits are {got.shape}, and {want.shape} is right")
        first = got if first is None else first
        if not np.array_equal(first, got):
            off.setdefault("bits differ", cut)
        off[cut] = float(np.abs(got - want).max() / np.abs(want).max())
        if not off[cut] <= LIMIT and cut == "batch":
            worst = np.abs(got - want).max((0, 2)) / np.abs(want).max()
            off["by position"] = " ".join(f"{x:.1e}" for x in worst)
    return file, off


def main():
    top = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sub = top.add_subparsers(dest="verb", required=True)
    p = sub.add_parser("make", help="make checkpoints")
    p.add_argument("names", nargs="*", metavar="CLASS")
    p.add_argument("-o", dest="folder", type=Path, required=True)
    p = sub.add_parser("check", help="compare with Tenon")
    p.add_argument("tenon")
    p.add_argument("paths", nargs="+", metavar="PATH")
    p.add_argument("--file", type=Path, help="the model file, where that which serves the class is not meant")
    p.add_argument("--say", action="append", default=[], metavar="OPTION", help="one more option for `tenon run`")
    sub.add_parser("gguf", help="write GGUF files").add_argument("paths", nargs="+", metavar="DIR")
    sub.add_parser("peer", help="compare with llama.cpp").add_argument("paths", nargs="+", metavar="FILE")
    sub.add_parser("list", help="print the names")
    args = top.parse_args()
    if args.verb == "list":
        print("\n".join(MODELS))
    elif args.verb == "make":
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        for name in chosen(args.names):
            make(name, args.folder)
    elif args.verb in ["gguf", "peer"]:
        import models_gguf

        for path in args.paths:
            if args.verb == "gguf":
                models_gguf.write(path)
            else:
                print(f"{path}: llama.cpp {models_gguf.peer(path):.1e}", flush=True)
    else:
        failed = 0
        for path in args.paths:
            name = Path(path).name if not path.endswith(".gguf") else "/".join(Path(path).parts[-2:])
            try:
                file, off = check(args.tenon, path, args.say, args.file)
            except (RuntimeError, OSError) as e:
                failed += 1
                print(f"{name}: FAILED\n  " + "\n  ".join(str(e).splitlines()[:40]), flush=True)
                continue
            bad = not all(v <= LIMIT for v in off.values() if isinstance(v, float))
            failed += bad
            text = ", ".join(f"{k} {v:.1e}" if isinstance(v, float) else f"{k}: {v}" for k, v in off.items())
            print(f"{name}: {'FAILED ' if bad else ''}{text} ({file.name})", flush=True)
        sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
