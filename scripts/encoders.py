#!/usr/bin/env python3
"""Small random checkpoints of encoders, with what transformers makes of texts, and GGUF files of encoders.

    encoders.py make -o DIR                      makes DIR/CLASS/ for each class below
    encoders.py gguf DIR FILE.gguf [--type T]    writes the checkpoint DIR as GGUF: f32, f16, q8_0

A checkpoint has config, weights, a tokenizer of some sixty pieces of words, and `ref.json`: `texts`, `ids` of each,
`vectors` of each as the checkpoint asks for them, and `pooled`, vectors by the other ways. One that scores has also a
`query`, `pairs` (the ids of the query and each text), `segments` and `scores`. Weights are random and of a fixed seed.

It needs torch, transformers, tokenizers and safetensors; `gguf` for GGUF files.
"""

import argparse
import json
import shutil
from pathlib import Path

import numpy as np

SMALL = dict(
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=40,
    type_vocab_size=2,
)
SIGMOID = {"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid", "version": "4.0.1"}}
# What stands beside the config's arguments: `kind` pools, `unit` says that vectors get the length 1, `most` is the
# length that sentence-transformers cuts texts to, `more` stands in the config file.
MODELS = {
    "BertModel": dict(),
    "BertForMaskedLM": dict(kind="cls", unit=True, most=24, hidden_act="relu"),
    "BertForSequenceClassification": dict(num_labels=1),
    "XLMRobertaForSequenceClassification": dict(
        num_labels=1, pad_token_id=1, type_vocab_size=1, max_position_embeddings=42, more=SIGMOID, hidden_act="gelu_new"
    ),
}
TEXTS = ["a tenon", "The joint is cut, and a peg holds it.", "peg!", "of oak", "a mortise, a tenon, and of oak a peg"]
QUERY = "what holds a joint?"
WORDS = "the a of joint tenon mortise peg oak hold".split()


def tokenizer(roberta):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    special = ["<s>", "<pad>", "</s>", "<unk>"] if roberta else ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    letters = "abcdefghijklmnopqrstuvwxyz"
    pieces = [*special, *letters, *WORDS[2:], "the", *(f"##{c}" for c in "abcdeghilmnorstu"), ",", ".", "?"]
    vocab = {t: i for i, t in enumerate(pieces)}
    made = Tokenizer(models.WordPiece(vocab, unk_token=special[3 if roberta else 1]))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if roberta:
        made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    else:
        single, pair = "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1"
        made.post_processor = processors.TemplateProcessing(
            single=single, pair=pair, special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
    return made, len(pieces)


def pooled(rows, kind):
    return {"mean": rows.mean(0), "cls": rows[0], "lasttoken": rows[-1], "max": rows.max(0).values}[kind]


def modules(out, kind, unit, most):
    """What sentence-transformers writes beside a checkpoint, as its older versions did."""
    kinds = ["Transformer", "Pooling"] + ["Normalize"] * unit
    place = lambda i, k: "" if i == 0 else f"{i}_{k}"
    kind_of = lambda k: f"sentence_transformers.models.{k}"
    listed = [dict(idx=i, name=str(i), path=place(i, k), type=kind_of(k)) for i, k in enumerate(kinds)]
    (out / "modules.json").write_text(json.dumps(listed, indent=2))
    keys = {"cls": "cls_token", "mean": "mean_tokens", "max": "max_tokens", "mean_sqrt_len": "mean_sqrt_len_tokens"}
    pooling = {f"pooling_mode_{key}": k == kind for k, key in keys.items()}
    (out / "1_Pooling").mkdir()
    (out / "1_Pooling/config.json").write_text(json.dumps(dict(word_embedding_dimension=8, **pooling), indent=2))
    (out / "sentence_bert_config.json").write_text(json.dumps(dict(max_seq_length=most, do_lower_case=False)))


def make(name, folder):
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    made = dict(MODELS[name])
    kind, unit, most, more = (made.pop(k, d) for k, d in dict(kind=None, unit=False, most=None, more={}).items())
    cls = getattr(transformers, name)
    words, size = tokenizer("Roberta" in name)
    config = cls.config_class(**dict(SMALL, vocab_size=size, **{k: v for k, v in made.items() if k not in SMALL}))
    for key in SMALL:
        setattr(config, key, made.get(key, SMALL[key]))
    config._attn_implementation = "eager"
    model = cls(config).float().eval()
    g = torch.Generator().manual_seed(sum(map(ord, name)))
    with torch.no_grad():
        for key, p in model.named_parameters():
            norm = 1.0 if "LayerNorm.weight" in key else 0.0
            p.copy_(torch.randn(p.shape, generator=g) * (0.3 if p.dim() == 1 else 0.6) + norm)
    out = folder / name
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    model.save_pretrained(out)
    text = json.loads((out / "config.json").read_text())
    (out / "config.json").write_text(json.dumps(text | more, indent=2))
    words.save(str(out / "tokenizer.json"), pretty=False)
    if kind:
        modules(out, kind, unit, most)

    base = getattr(model, model.base_model_prefix, model)
    tensor = lambda ids: torch.tensor([ids])
    ids = [words.encode(t).ids for t in TEXTS]
    with torch.no_grad():
        rows = [base(input_ids=tensor(i)).last_hidden_state[0] for i in ids]
    whole = [pooled(r, kind or "mean") for r in rows]
    if unit:
        whole = [torch.nn.functional.normalize(v, dim=0) for v in whole]
    ref = dict(texts=TEXTS, ids=ids, vectors=[v.tolist() for v in whole])
    if name == "BertModel":
        ref["pooled"] = {k: [pooled(r, k).tolist() for r in rows] for k in ["mean", "cls", "lasttoken", "max"]}
    if "num_labels" in made:
        pairs = [words.encode(QUERY, t) for t in TEXTS]
        with torch.no_grad():
            given = [dict(input_ids=tensor(p.ids), token_type_ids=tensor(p.type_ids)) for p in pairs]
            scores = [model(**x).logits[0, 0] for x in given]
        if more:
            scores = [torch.sigmoid(s) for s in scores]
        ref |= dict(query=QUERY, pairs=[p.ids for p in pairs], segments=[p.type_ids for p in pairs])
        ref |= dict(scores=[float(s) for s in scores])
    (out / "ref.json").write_text(json.dumps(ref))
    print(f"{name}: {sum(f.stat().st_size for f in out.rglob('*') if f.is_file()) // 1024} KB")


NAMES = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm",
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
    "pooler.dense": "cls",
    "classifier": "cls.output",
}


def gguf_name(name):
    """By which name llama.cpp's converter writes a tensor; none where it leaves it out."""
    owner, _, leaf = name.removeprefix("bert.").rpartition(".")
    layer = ""
    if owner.startswith("encoder.layer."):
        number, _, owner = owner.removeprefix("encoder.layer.").partition(".")
        layer = f"blk.{number}."
    return f"{layer}{NAMES[owner]}.{leaf}" if owner in NAMES else None


def write(folder, file, kind):
    """A checkpoint of Bert, as llama.cpp's converter writes it."""
    import gguf
    from safetensors.numpy import load_file

    c = json.loads((folder / "config.json").read_text())
    tensors = load_file(str(folder / "model.safetensors"))
    scores = "classifier.weight" in tensors
    out = gguf.GGUFWriter(file, "bert")
    out.add_context_length(c["max_position_embeddings"])
    out.add_embedding_length(c["hidden_size"])
    out.add_feed_forward_length(c["intermediate_size"])
    out.add_block_count(c["num_hidden_layers"])
    out.add_head_count(c["num_attention_heads"])
    out.add_layer_norm_eps(c["layer_norm_eps"])
    out.add_causal_attention(False)
    out.add_pooling_type(gguf.PoolingType.RANK if scores else gguf.PoolingType.MEAN)
    vocab = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    pieces = sorted(vocab, key=vocab.get)
    special = lambda t: t.startswith("[") and t.endswith("]")
    shown = lambda t: t if special(t) else t[2:] if t.startswith("##") else "\u2581" + t
    types = gguf.TokenType
    out.add_tokenizer_model("bert")
    out.add_token_list([shown(t) for t in pieces])
    out.add_token_types([types.CONTROL if special(t) else types.NORMAL for t in pieces])
    out.add_token_type_count(c["type_vocab_size"])
    for key, text in dict(bos="[CLS]", sep="[SEP]", unk="[UNK]", pad="[PAD]").items():
        getattr(out, f"add_{key}_token_id")(vocab[text])
    for name, t in tensors.items():
        to = gguf_name(name)
        if to is None or (to.startswith("cls") and not scores):
            continue
        # Tables of positions and segments stay whole, as in the files of llama.cpp.
        small = t.ndim < 2 or to in ["position_embd.weight", "token_types.weight"]
        as_type = gguf.GGMLQuantizationType["F32" if small else kind.upper()]
        out.add_tensor(to, gguf.quants.quantize(t.astype(np.float32), as_type), raw_dtype=as_type)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def main():
    top = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sub = top.add_subparsers(dest="verb", required=True)
    sub.add_parser("make", help="make checkpoints").add_argument("-o", dest="folder", type=Path, required=True)
    p = sub.add_parser("gguf", help="write a checkpoint as GGUF")
    p.add_argument("folder", type=Path)
    p.add_argument("file", type=Path)
    p.add_argument("--type", default="f32")
    args = top.parse_args()
    if args.verb == "gguf":
        write(args.folder, args.file, args.type)
        return
    for name in MODELS:
        make(name, args.folder)


if __name__ == "__main__":
    main()
