"""GGUF files of the checkpoints that `models.py` makes, and what llama.cpp makes of them.

Names and conversions are those of llama.cpp's converter; `peer` shows that they are. Numbers stay f32. Each family has
a function that tells of a config the architecture, the metadata, the prefix of a layer's names, its names (as
transformers has them, as GGUF has them, what is done to the numbers), and those outside of layers.
"""

import json
import math
import re
from pathlib import Path

import numpy as np

WHOLE = [("model.embed_tokens", "token_embd", None), ("model.norm", "output_norm", None), ("lm_head", "output", None)]


def gemma(c):
    def more(t):
        return t + 1.0

    both = c["model_type"] != "gemma"
    names = [
        ("self_attn.q_proj", "attn_q", None),
        ("self_attn.k_proj", "attn_k", None),
        ("self_attn.v_proj", "attn_v", None),
        ("self_attn.o_proj", "attn_output", None),
        ("self_attn.q_norm", "attn_q_norm", more),
        ("self_attn.k_norm", "attn_k_norm", more),
        ("mlp.gate_proj", "ffn_gate", None),
        ("mlp.up_proj", "ffn_up", None),
        ("mlp.down_proj", "ffn_down", None),
        ("input_layernorm", "attn_norm", more),
        ("post_attention_layernorm", "post_attention_norm" if both else "ffn_norm", more),
        ("pre_feedforward_layernorm", "ffn_norm", more),
        ("post_feedforward_layernorm", "post_ffw_norm", more),
    ]
    whole = [("model.embed_tokens", "token_embd", None), ("model.norm", "output_norm", more)]
    keys = dict(
        llama_keys(c),
        **{"attention.key_length": c["head_dim"], "attention.value_length": c["head_dim"]},
    )
    if both:
        keys["attention.sliding_window"] = c["sliding_window"]
    for k in ["attn_logit_softcapping", "final_logit_softcapping"]:
        if c.get(k):
            keys[k] = float(c[k])
    if c["model_type"] == "gemma3_text":
        rope = c["rope_parameters"]["full_attention"]
        keys["rope.freq_base"] = float(rope["rope_theta"])
        if rope["rope_type"] == "linear":
            keys |= {"rope.scaling.type": "linear", "rope.scaling.factor": float(rope["factor"])}
    arch = c["model_type"].replace("_text", "")
    return arch, keys, "model.layers.{}.", names, whole


def llama_keys(c):
    keys = {
        "context_length": c["max_position_embeddings"],
        "embedding_length": c["hidden_size"],
        "block_count": c["num_hidden_layers"],
        "feed_forward_length": c.get("intermediate_size", 0),
        "attention.head_count": c["num_attention_heads"],
        "attention.head_count_kv": c["num_key_value_heads"],
    }
    if "rms_norm_eps" in c:
        keys["attention.layer_norm_rms_epsilon"] = float(c["rms_norm_eps"])
    if "layer_norm_eps" in c:
        keys["attention.layer_norm_epsilon"] = float(c["layer_norm_eps"])
    return keys


def phi(c):
    names = [
        ("self_attn.qkv_proj", "attn_qkv", None),
        ("self_attn.o_proj", "attn_output", None),
        ("mlp.gate_up_proj", "ffn_up", None),
        ("mlp.down_proj", "ffn_down", None),
        ("input_layernorm", "attn_norm", None),
        ("post_attention_layernorm", "ffn_norm", None),
    ]
    rope = c["rope_parameters"]
    long, short = c["max_position_embeddings"], c["original_max_position_embeddings"]
    keys = llama_keys(c) | {
        "rope.scaling.original_context_length": short,
        "rope.dimension_count": int(rope["partial_rotary_factor"] * c["hidden_size"]) // c["num_attention_heads"],
        "rope.freq_base": float(rope["rope_theta"]),
        "attention.sliding_window": c["sliding_window"] or 0,
    }
    if "long_factor" in rope:
        keys["rope.scaling.attn_factor"] = math.sqrt(1 + math.log(long / short) / math.log(short))
        for kind in ["long", "short"]:
            keys[f"rope_factors_{kind}.weight"] = np.array(rope[f"{kind}_factor"], np.float32)
    return "phi3", keys, "model.layers.{}.", names, WHOLE


def glm(c):
    names = [
        ("self_attn.q_proj", "attn_q", None),
        ("self_attn.k_proj", "attn_k", None),
        ("self_attn.v_proj", "attn_v", None),
        ("self_attn.o_proj", "attn_output", None),
        ("mlp.gate_up_proj", "ffn_up", None),
        ("mlp.down_proj", "ffn_down", None),
        ("input_layernorm", "attn_norm", None),
        ("post_self_attn_layernorm", "post_attention_norm", None),
        ("post_attention_layernorm", "ffn_norm", None),
        ("post_mlp_layernorm", "post_ffw_norm", None),
    ]
    rope = c["rope_parameters"]
    keys = llama_keys(c) | {
        "attention.key_length": c["head_dim"],
        "attention.value_length": c["head_dim"],
        "rope.freq_base": float(rope["rope_theta"]),
        "rope.dimension_count": int(c["head_dim"] * rope["partial_rotary_factor"]),
    }
    if rope["rope_type"] == "yarn":
        keys |= {
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": float(rope["factor"]),
            "rope.scaling.original_context_length": rope["original_max_position_embeddings"],
        }
    return "glm4", keys, "model.layers.{}.", names, WHOLE


def cohere(c):
    names = [
        ("self_attn.q_proj", "attn_q", None),
        ("self_attn.k_proj", "attn_k", None),
        ("self_attn.v_proj", "attn_v", None),
        ("self_attn.o_proj", "attn_output", None),
        ("mlp.gate_proj", "ffn_gate", None),
        ("mlp.up_proj", "ffn_up", None),
        ("mlp.down_proj", "ffn_down", None),
        ("input_layernorm", "attn_norm", None),
    ]
    keys = llama_keys(c) | {
        "rope.freq_base": float(c["rope_parameters"]["rope_theta"]),
        "rope.dimension_count": c["hidden_size"] // c["num_attention_heads"],
        "rope.scaling.type": "none",
        "attention.sliding_window": c["sliding_window"],
        "logit_scale": float(c["logit_scale"]),
    }
    return "cohere2", keys, "model.layers.{}.", names, WHOLE


def gpt2(c):
    def back(t):
        return t.T if t.ndim == 2 else t

    names = [
        ("attn.c_attn", "attn_qkv", back),
        ("attn.c_proj", "attn_output", back),
        ("mlp.c_fc", "ffn_up", back),
        ("mlp.c_proj", "ffn_down", back),
        ("ln_1", "attn_norm", None),
        ("ln_2", "ffn_norm", None),
    ]
    keys = {
        "context_length": c["n_positions"],
        "embedding_length": c["n_embd"],
        "block_count": c["n_layer"],
        "feed_forward_length": c["n_inner"] or 4 * c["n_embd"],
        "attention.head_count": c["n_head"],
        "attention.layer_norm_epsilon": float(c["layer_norm_epsilon"]),
    }
    whole = [("wte", "token_embd", None), ("wpe", "position_embd", None), ("ln_f", "output_norm", None), WHOLE[2]]
    return "gpt2", keys, "h.{}.", names, whole


def neox(c):
    heads, hidden = c["num_attention_heads"], c["hidden_size"]

    def apart(t):
        return np.moveaxis(t.reshape(heads, 3, hidden // heads, *t.shape[1:]), 1, 0).reshape(t.shape)

    names = [
        ("attention.query_key_value", "attn_qkv", apart),
        ("attention.dense", "attn_output", None),
        ("mlp.dense_h_to_4h", "ffn_up", None),
        ("mlp.dense_4h_to_h", "ffn_down", None),
        ("input_layernorm", "attn_norm", None),
        ("post_attention_layernorm", "ffn_norm", None),
    ]
    keys = llama_keys(dict(c, num_key_value_heads=heads)) | {
        "rope.dimension_count": int(c["rope_parameters"]["partial_rotary_factor"] * (hidden // heads)),
        "rope.freq_base": float(c["rope_parameters"]["rope_theta"]),
        "use_parallel_residual": c["use_parallel_residual"],
    }
    whole = [
        ("gpt_neox.embed_in", "token_embd", None),
        ("gpt_neox.final_layer_norm", "output_norm", None),
        ("embed_out", "output", None),
        WHOLE[2],
    ]
    return "gptneox", keys, "gpt_neox.layers.{}.", names, whole


def mpt(c):
    names = [
        ("attn.Wqkv", "attn_qkv", None),
        ("attn.out_proj", "attn_output", None),
        ("ffn.up_proj", "ffn_up", None),
        ("ffn.down_proj", "ffn_down", None),
        ("norm_1", "attn_norm", None),
        ("norm_2", "ffn_norm", None),
    ]
    keys = {
        "context_length": c["max_seq_len"],
        "embedding_length": c["d_model"],
        "block_count": c["n_layers"],
        "feed_forward_length": 4 * c["d_model"],
        "attention.head_count": c["n_heads"],
        "attention.layer_norm_epsilon": float(c["layer_norm_epsilon"]),
        "attention.max_alibi_bias": float(c["attn_config"]["alibi_bias_max"]),
    }
    if c["attn_config"]["clip_qkv"]:
        keys["attention.clamp_kqv"] = float(c["attn_config"]["clip_qkv"])
    whole = [("transformer.wte", "token_embd", None), ("transformer.norm_f", "output_norm", None), WHOLE[2]]
    return "mpt", keys, "transformer.blocks.{}.", names, whole


def unsaid(c):
    """Why no GGUF file says this model."""
    if c["model_type"] not in CONVERT or "rope_theta" in c or "rotary_pct" in c:
        return "its form is not among those written here"
    if "context" in c:
        return "what is asked of it is longer than the training's texts"
    pattern = {"gemma3_text": 6, "gemma2": 2, "cohere2": 4}.get(c["model_type"])
    if pattern and [t == "sliding_attention" for t in c["layer_types"]] != [
        (i + 1) % pattern != 0 for i in range(c["num_hidden_layers"])
    ]:
        return "layer types of its own"
    if c.get("query_pre_attn_scalar", c.get("head_dim")) != c.get("head_dim"):
        return "a scale of its own"
    if (c.get("time_step_limit") or [0.0])[0] > 0.0:
        return "limits of a row's time"
    if "linear_num_key_heads" in c:
        if [t == "full_attention" for t in c["layer_types"]] != [i % 4 == 3 for i in range(c["num_hidden_layers"])]:
            return "layer types of its own"
        if c["linear_key_head_dim"] != c["linear_value_head_dim"]:
            return "heads of keys and of values of two sizes"
    if c["model_type"] in ["mistral", "mixtral", "qwen2", "qwen3"] and c.get("sliding_window"):
        return "a window"
    if c["model_type"] in LATENT:
        return unsaid_latent(c)
    always = c["model_type"] in ["qwen3_moe", "qwen3_next", "qwen3_5_moe_text"]
    if c.get("norm_topk_prob", c["model_type"] == "qwen3_5_moe_text") != always:
        return "weights of experts in another way"
    if {"mscale", "attention_factor"} & set(c.get("rope_parameters") or {}):
        return "a size of what is turned"
    if (c.get("rope_parameters") or {}).get("rope_type") == "dynamic":
        return "dynamic frequencies"
    if any(on != int((i + 1) % 4 != 0) for i, on in enumerate(c.get("no_rope_layers") or [])):
        return "layers without positions of its own"
    if c.get("scale_attn_by_inverse_layer_idx") or (c.get("attn_config") or {}).get("softmax_scale"):
        return "a scale of its own"
    if c["model_type"] == "gpt_neox" and c["hidden_act"] != "gelu":
        return "an activation of its own"
    return None


def unsaid_latent(c):
    """The same of models with a latent."""
    rope = c["rope_parameters"]
    types = c.get("mlp_layer_types", [])
    if c.get("rope_interleave") is False or c["attention_bias"]:
        return "halves that turn, or biases"
    if types != sorted(types):
        return "dense layers behind others"
    if c.get("topk_method") == "greedy" and (c["n_group"] or 1) > 1:
        return "groups that do not count"
    if rope.get("mscale") != rope.get("mscale_all_dim") or (rope["rope_type"] == "yarn" and "mscale" not in rope):
        return "a size of what is turned"
    return None


def pairs(heads):
    """Rows of heads, each with the one it turns with beside it."""

    def change(t):
        return np.moveaxis(t.reshape(heads, 2, -1, *t.shape[1:]), 1, 2).reshape(t.shape)

    return change


def llama(c):
    turned = c["model_type"] in ["llama", "mistral", "mixtral", "smollm3"]
    q, k = (pairs(c[n]) if turned else None for n in ["num_attention_heads", "num_key_value_heads"])
    names = [
        ("self_attn.q_proj", "attn_q", q),
        ("self_attn.k_proj", "attn_k", k),
        ("self_attn.v_proj", "attn_v", None),
        ("self_attn.o_proj", "attn_output", None),
        ("self_attn.q_norm", "attn_q_norm", None),
        ("self_attn.k_norm", "attn_k_norm", None),
        ("mlp.gate_proj", "ffn_gate", None),
        ("mlp.up_proj", "ffn_up", None),
        ("mlp.down_proj", "ffn_down", None),
        ("input_layernorm", "attn_norm", None),
        ("post_attention_layernorm", "ffn_norm", None),
    ]
    rope = c["rope_parameters"].get("full_attention", c["rope_parameters"])
    head = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    keys = llama_keys(c) | {
        "attention.key_length": head,
        "attention.value_length": head,
        "rope.dimension_count": head,
        "rope.freq_base": float(rope["rope_theta"]),
    }
    if rope["rope_type"] in ["yarn", "linear"]:
        keys |= {"rope.scaling.type": rope["rope_type"], "rope.scaling.factor": float(rope["factor"])}
        if "original_max_position_embeddings" in rope:
            keys["rope.scaling.original_context_length"] = rope["original_max_position_embeddings"]
    if rope["rope_type"] == "llama3":
        keys["rope_freqs.weight"] = llama3(rope, head)
    arch = "llama" if c["model_type"] in ["mistral", "mixtral"] else c["model_type"].replace("_", "")
    return arch, keys, "model.layers.{}.", names, WHOLE


def llama3(rope, head):
    """By what each pair's frequency is divided."""
    low, high, length = (rope[n] for n in ["low_freq_factor", "high_freq_factor", "original_max_position_embeddings"])
    wave = 2 * math.pi * rope["rope_theta"] ** (np.arange(0, head, 2) / head)
    smooth = np.clip((length / wave - low) / (high - low), 0, 1)
    return (1 / ((1 - smooth) / rope["factor"] + smooth)).astype(np.float32)


def moe(c):
    arch, keys, prefix, names, whole = llama(c)
    names += [
        ("experts.gate", "ffn_gate_exps", None),
        ("experts.up", "ffn_up_exps", None),
        ("experts.down", "ffn_down_exps", None),
        ("router", "ffn_gate_inp", None),
        ("mlp.shared_expert.gate_proj", "ffn_gate_shexp", None),
        ("mlp.shared_expert.up_proj", "ffn_up_shexp", None),
        ("mlp.shared_expert.down_proj", "ffn_down_shexp", None),
        ("mlp.shared_expert_gate", "ffn_gate_inp_shexp", np.squeeze),
    ]
    keys |= {
        "expert_count": c.get("num_local_experts") or c["num_experts"],
        "expert_used_count": c["num_experts_per_tok"],
    }
    for ours, theirs in [("expert", "moe_intermediate_size"), ("expert_shared", "shared_expert_intermediate_size")]:
        if theirs in c:
            keys[f"{ours}_feed_forward_length"] = c[theirs]
    if c.get("clip_qkv"):
        keys["attention.clamp_kqv"] = float(c["clip_qkv"])
    return arch, keys, prefix, names, whole


def stacked(tensors):
    """Experts by one name, and each layer's in one tensor."""
    out, apart = {}, {}
    kinds = {"w1": "gate", "w3": "up", "w2": "down", "gate_proj": "gate", "up_proj": "up", "down_proj": "down"}
    for name, t in tensors.items():
        if m := re.match(r"(.*)\.\w+\.experts\.(\d+)\.(\w+)\.weight", name):
            apart.setdefault(f"{m[1]}.experts.{kinds[m[3]]}.weight", {})[int(m[2])] = t
        elif m := re.match(r"(.*)\.mlp\.experts\.gate_up_proj", name):
            n = t.shape[1] // 2
            out[f"{m[1]}.experts.gate.weight"], out[f"{m[1]}.experts.up.weight"] = t[:, :n], t[:, n:]
        elif m := re.match(r"(.*)\.mlp\.experts\.down_proj", name):
            out[f"{m[1]}.experts.down.weight"] = t
        elif name.endswith(".e_score_correction_bias"):
            out[name.replace("correction_bias", "correction.bias")] = t
        elif m := re.match(r"(.*)\.(mlp|block_sparse_moe)\.gate\.weight", name):
            out[f"{m[1]}.router.weight"] = t
        else:
            out[name] = t
    return out | {name: np.stack([t[i] for i in sorted(t)]) for name, t in apart.items()}


def olmo(c):
    _, keys, prefix, names, whole = llama(c)
    names = [n for n in names if "norm" not in n[1] or n[1] in ["attn_q_norm", "attn_k_norm"]]
    names += [
        ("post_attention_layernorm", "post_attention_norm", None),
        ("post_feedforward_layernorm", "post_ffw_norm", None),
    ]
    if c.get("sliding_window"):
        keys["attention.sliding_window"] = c["sliding_window"]
        keys["attention.sliding_window_pattern"] = [t == "sliding_attention" for t in c["layer_types"]]
    return "olmo2", keys, prefix, names, whole


def delta(c):
    """Qwen3-Next and Qwen3.5. Heads of values that share one of keys go apart in the second."""
    keys_of, values = c["linear_num_key_heads"], c["linear_num_value_heads"]
    key, value = c["linear_key_head_dim"], c["linear_value_head_dim"]
    tiled = c["model_type"] != "qwen3_next"

    def more(t):
        return t + 1.0

    def apart(width):
        """What the rows of heads of values become; `width` is how many a head has."""

        def change(t):
            if not tiled:
                return t
            return np.moveaxis(t.reshape(keys_of, values // keys_of, width, *t.shape[1:]), 0, 1).reshape(t.shape)

        return change

    def behind(t):
        n = 2 * keys_of * key
        return np.concatenate([t[:n], apart(value)(t[n:])])

    names = [
        ("self_attn.q_proj", "attn_q", None),
        ("self_attn.k_proj", "attn_k", None),
        ("self_attn.v_proj", "attn_v", None),
        ("self_attn.o_proj", "attn_output", None),
        ("self_attn.q_norm", "attn_q_norm", more),
        ("self_attn.k_norm", "attn_k_norm", more),
        ("mlp.gate_proj", "ffn_gate", None),
        ("mlp.up_proj", "ffn_up", None),
        ("mlp.down_proj", "ffn_down", None),
        ("input_layernorm", "attn_norm", more),
        ("post_attention_layernorm", "post_attention_norm", more),
        ("linear_attn.in_proj_qkv", "attn_qkv", behind),
        ("linear_attn.in_proj_z", "attn_gate", apart(value)),
        ("linear_attn.in_proj_b", "ssm_beta", apart(1)),
        ("linear_attn.in_proj_a", "ssm_alpha", apart(1)),
        ("linear_attn.in_proj_ba", "ssm_ba", None),
        ("linear_attn.conv1d", "ssm_conv1d", lambda t: behind(t.reshape(t.shape[0], -1))),
        ("linear_attn.A_log", "ssm_a", lambda t: -np.exp(apart(1)(t))),
        ("linear_attn.dt_bias", "ssm_dt.bias", apart(1)),
        ("linear_attn.norm", "ssm_norm", None),
        ("linear_attn.out_proj", "ssm_out", lambda t: apart(value)(t.T).T),
    ]
    _, keys, prefix, others, whole = moe(c) if "num_experts" in c else llama(c)
    names += [n for n in others if "exp" in n[1] or n[0] == "router"]
    whole = [(a, b, more if b == "output_norm" else None) for a, b, _ in whole]
    keys |= {
        "rope.dimension_count": int(c["head_dim"] * c["rope_parameters"]["partial_rotary_factor"]),
        "ssm.conv_kernel": c["linear_conv_kernel_dim"],
        "ssm.state_size": key,
        "ssm.group_count": keys_of,
        "ssm.time_step_rank": values,
        "ssm.inner_size": value * values,
        "full_attention_interval": 4,
    }
    if tiled:
        # Of a text every section has the same positions.
        third = keys["rope.dimension_count"] // 6
        keys["rope.dimension_sections"] = [keys["rope.dimension_count"] // 2 - 2 * third, third, third, 0]
    arch = {"qwen3_next": "qwen3next", "qwen3_5_text": "qwen35", "qwen3_5_moe_text": "qwen35moe"}[c["model_type"]]
    return arch, keys, prefix, names, whole


def parted(tensors, c):
    """The inputs of Qwen3-Next's linear attention as two matrices."""
    out = {}
    for name, t in tensors.items():
        if not name.endswith("in_proj_qkvz.weight"):
            out[name] = t
            continue
        heads, key = c["linear_num_key_heads"], c["linear_key_head_dim"]
        wide = c["linear_num_value_heads"] // heads * c["linear_value_head_dim"]
        q, k, v, z = np.split(t.reshape(heads, -1, t.shape[-1]), [key, 2 * key, 2 * key + wide], 1)
        flat = [x.reshape(-1, t.shape[-1]) for x in [q, k, v, z]]
        out[name.replace("qkvz", "qkv")], out[name.replace("qkvz", "z")] = np.concatenate(flat[:3]), flat[3]
    return out


def mamba(c):
    """Mamba 2. A vocabulary is made longer to a multiple of 16 there; those here are."""
    groups, inner = c["n_groups"], c["num_heads"] * c["head_dim"]
    names = [
        ("norm", "attn_norm", None),
        ("mixer.in_proj", "ssm_in", None),
        ("mixer.conv1d", "ssm_conv1d", np.squeeze),
        ("mixer.dt_bias", "ssm_dt.bias", None),
        ("mixer.A_log", "ssm_a", lambda t: -np.exp(t)[:, None]),
        ("mixer.D", "ssm_d", lambda t: t[:, None]),
        ("mixer.norm", "ssm_norm", lambda t: t.reshape(groups, inner // groups)),
        ("mixer.out_proj", "ssm_out", None),
    ]
    keys = {
        "context_length": 2**20,
        "embedding_length": c["hidden_size"],
        "block_count": c["num_hidden_layers"],
        "feed_forward_length": 0,
        "attention.head_count": 0,
        "attention.layer_norm_rms_epsilon": float(c["layer_norm_epsilon"]),
        "ssm.conv_kernel": c["conv_kernel"],
        "ssm.inner_size": inner,
        "ssm.state_size": c["state_size"],
        "ssm.time_step_rank": c["num_heads"],
        "ssm.group_count": groups,
    }
    whole = [("backbone.embeddings", "token_embd", None), ("backbone.norm_f", "output_norm", None), WHOLE[2]]
    return "mamba2", keys, "backbone.layers.{}.", names, whole


def latent(c, form=None):
    """DeepSeek and its like; `joined` is the form of older files, where the matrix of keys and values is one."""
    heads, rank, turning = c["num_attention_heads"], c["kv_lora_rank"], c["qk_rope_head_dim"]
    still, value = c["qk_nope_head_dim"], c["v_head_dim"]

    def keys_of(t):
        return t.reshape(heads, still + value, rank)[:, :still].swapaxes(1, 2)

    def values_of(t):
        return t.reshape(heads, still + value, rank)[:, still:]

    names = [
        ("self_attn.q_proj", "attn_q", None),
        ("self_attn.q_a_proj", "attn_q_a", None),
        ("self_attn.q_a_layernorm", "attn_q_a_norm", None),
        ("self_attn.q_b_proj", "attn_q_b", None),
        ("self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa", None),
        ("self_attn.kv_a_layernorm", "attn_kv_a_norm", None),
        ("self_attn.o_proj", "attn_output", None),
        ("mlp.gate_proj", "ffn_gate", None),
        ("mlp.up_proj", "ffn_up", None),
        ("mlp.down_proj", "ffn_down", None),
        ("experts.gate", "ffn_gate_exps", None),
        ("experts.up", "ffn_up_exps", None),
        ("experts.down", "ffn_down_exps", None),
        ("router", "ffn_gate_inp", None),
        ("mlp.gate.e_score_correction", "exp_probs_b", None),
        ("mlp.shared_experts.gate_proj", "ffn_gate_shexp", None),
        ("mlp.shared_experts.up_proj", "ffn_up_shexp", None),
        ("mlp.shared_experts.down_proj", "ffn_down_shexp", None),
        ("input_layernorm", "attn_norm", None),
        ("post_attention_layernorm", "ffn_norm", None),
    ]
    dense = c.get("mlp_layer_types", []).count("dense") or c.get("first_k_dense_replace", 0)
    keys = llama_keys(c) | {
        "leading_dense_block_count": dense,
        "attention.kv_lora_rank": rank,
        "rope.dimension_count": turning,
        "rope.freq_base": float(c["rope_parameters"]["rope_theta"]),
        "expert_count": c["n_routed_experts"],
        "expert_used_count": c["num_experts_per_tok"],
        "expert_shared_count": c["n_shared_experts"],
        "expert_feed_forward_length": c["moe_intermediate_size"],
        "expert_weights_scale": float(c["routed_scaling_factor"]),
        "expert_weights_norm": c["norm_topk_prob"],
        "expert_gating_func": 1 if c["model_type"] == "deepseek_v2" else 2,
    }
    if c["q_lora_rank"]:
        keys["attention.q_lora_rank"] = c["q_lora_rank"]
    if (c["n_group"] or 1) > 1:
        keys |= {"expert_group_count": c["n_group"], "expert_group_used_count": c["topk_group"]}
    if form == "joined":
        keys |= {"attention.key_length": still + turning, "attention.value_length": value}
        names.append(("self_attn.kv_b_proj", "attn_kv_b", None))
    else:
        keys |= {
            "attention.head_count_kv": 1,
            "attention.key_length": rank + turning,
            "attention.value_length": rank,
            "attention.key_length_mla": still + turning,
            "attention.value_length_mla": value,
        }
        names += [("self_attn.kv_b_proj", "attn_k_b", keys_of), ("self_attn.kv_b_proj", "attn_v_b", values_of)]
    rope = c["rope_parameters"]
    if rope["rope_type"] == "yarn":
        keys |= {
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": float(rope["factor"]),
            "rope.scaling.original_context_length": rope["original_max_position_embeddings"],
        }
        for k in ["beta_fast", "beta_slow"]:
            if k in rope:
                keys[f"rope.scaling.yarn_{k}"] = float(rope[k])
        if "mscale_all_dim" in rope:
            keys["rope.scaling.yarn_log_multiplier"] = 0.1 * rope["mscale_all_dim"]
    return "deepseek2", keys, "model.layers.{}.", names, WHOLE


LATENT = ["deepseek_v2", "deepseek_v3", "glm4_moe_lite"]

CONVERT = {
    "mamba2": mamba,
    "qwen3_next": delta,
    "qwen3_5_text": delta,
    "qwen3_5_moe_text": delta,
    "cohere2": cohere,
    "deepseek_v2": latent,
    "deepseek_v3": latent,
    "gemma": gemma,
    "gemma2": gemma,
    "gemma3_text": gemma,
    "glm4": glm,
    "glm4_moe_lite": latent,
    "gpt2": gpt2,
    "gpt_neox": neox,
    "llama": llama,
    "mistral": llama,
    "mixtral": moe,
    "mpt": mpt,
    "olmo2": olmo,
    "olmo3": olmo,
    "olmoe": moe,
    "phi3": phi,
    "qwen2": llama,
    "qwen2_moe": moe,
    "qwen3": llama,
    "qwen3_moe": moe,
    "smollm3": llama,
}


def write(folder):
    """Writes the file into the folder, or says why there is none."""
    from safetensors.numpy import load_file

    folder = Path(folder)
    c = json.loads((folder / "config.json").read_text())
    if why := unsaid(c):
        print(f"{folder}: no GGUF file, {why}")
        return
    tensors = parted(stacked(load_file(str(folder / "model.safetensors"))), c)
    convert = CONVERT[c["model_type"]]
    write_as(folder / f"{c['architectures'][0]}.gguf", c, tensors, *convert(c))
    if c["model_type"] in LATENT:
        write_as(folder / f"{c['architectures'][0]}-joined.gguf", c, tensors, *convert(c, "joined"))


def write_as(file, c, tensors, arch, keys, prefix, names, whole):
    from gguf import GGUFWriter

    out = GGUFWriter(file, arch)
    out.add_tokenizer_model("no_vocab")
    out.add_vocab_size(c["vocab_size"])
    for k, v in keys.items():
        k = f"{arch}.{k}"
        if isinstance(v, bool):
            out.add_bool(k, v)
        elif isinstance(v, int):
            out.add_uint32(k, v)
        elif isinstance(v, float):
            out.add_float32(k, v)
        elif isinstance(v, str):
            out.add_string(k, v)
        elif isinstance(v, np.ndarray):
            out.add_tensor(k.removeprefix(arch + "."), v)
        else:
            out.add_array(k, v)
    used = set()

    def add(a, b, change):
        for leaf in [".weight", ".bias", ""]:
            for name in [f"{a}{leaf}", f"transformer.{a}{leaf}"]:
                if name in tensors:
                    used.add(name)
                    t = tensors[name].astype(np.float32)
                    out.add_tensor(f"{b}{leaf}", np.ascontiguousarray(change(t) if change else t))
                    break

    for a, b, change in whole:
        add(a, b, change)
    for i in range(keys["block_count"]):
        for a, b, change in names:
            add(prefix.format(i) + a, f"blk.{i}.{b}", change)
    left = set(tensors) - used
    if left:
        print(f"{file}: not in the GGUF file: {', '.join(sorted(left))}")
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    print(file)


def peer(file):
    """The largest difference of llama.cpp's logits to the reference, as a part of its largest number.

    Some are no faults of a file: it takes `gelu` by the tangent's form, from a table of halves (to 1e-3), gives Phi-3
    no window, and takes the long factors of Phi-3 where its context, at least 256, is longer than the training's. Of
    DeepSeek V2 it opens none without narrow queries but that of 27 layers, and it judges groups of experts as V3 does.
    Norms of GLM-4.7-Flash have its own `eps` throughout.
    """
    import llama_cpp as lc
    from safetensors.numpy import load_file

    ref = load_file(str(Path(file).parent / "ref.safetensors"))
    worst = 0.0
    plain = dict(type_k=0, type_v=0, flash_attn=False, n_threads=1)
    model = lc.Llama(str(file), n_ctx=64, n_batch=64, logits_all=True, verbose=False, **plain)
    for row, want in zip(ref["input_ids"], ref["out"]):
        model.reset()
        model.eval(row.tolist())
        got = np.array(model.scores[: len(row)])
        worst = max(worst, float(np.abs(got - want).max() / np.abs(ref["out"]).max()))
    return worst
