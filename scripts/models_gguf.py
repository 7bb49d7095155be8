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
        "feed_forward_length": c["intermediate_size"],
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
    if c["model_type"] in ["mistral", "mixtral", "qwen2", "qwen3"] and c.get("sliding_window"):
        return "a window"
    if c.get("norm_topk_prob", False) != (c["model_type"] == "qwen3_moe"):
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


CONVERT = {
    "cohere2": cohere,
    "gemma": gemma,
    "gemma2": gemma,
    "gemma3_text": gemma,
    "glm4": glm,
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
    from gguf import GGUFWriter
    from safetensors.numpy import load_file

    folder = Path(folder)
    c = json.loads((folder / "config.json").read_text())
    if why := unsaid(c):
        print(f"{folder}: no GGUF file, {why}")
        return
    tensors = stacked(load_file(str(folder / "model.safetensors")))
    arch, keys, prefix, names, whole = CONVERT[c["model_type"]](c)
    file = folder / f"{c['architectures'][0]}.gguf"
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
        for leaf in ["weight", "bias"]:
            for name in [f"{a}.{leaf}", f"transformer.{a}.{leaf}"]:
                if name in tensors:
                    used.add(name)
                    t = tensors[name].astype(np.float32)
                    out.add_tensor(f"{b}.{leaf}", np.ascontiguousarray(change(t) if change else t))
                    break

    for a, b, change in whole:
        add(a, b, change)
    for i in range(keys["block_count"]):
        for a, b, change in names:
            add(prefix.format(i) + a, f"blk.{i}.{b}", change)
    left = set(tensors) - used
    if left:
        print(f"{folder}: not in the GGUF file: {', '.join(sorted(left))}")
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    print(file)


def peer(file):
    """The largest difference of llama.cpp's logits to the reference, as a part of its largest number.

    Some are no faults of a file: it takes `gelu` by the tangent's form, from a table of halves (to 1e-3), gives Phi-3
    no window, and takes the long factors of Phi-3 where its context, at least 256, is longer than the training's.
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
