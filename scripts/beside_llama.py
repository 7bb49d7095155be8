#!/usr/bin/env python3
"""Greedy texts and perplexity of a GGUF file in Tenon and in llama.cpp, beside one another.

    beside_llama.py TENON MODEL.gguf PROMPTS.json [--text TEXT] [--count N] [--kv f16|f32] [--llama OTHER.gguf]

PROMPTS.json is a list of texts, such as scripts/prompts.json. Both engines take the same tokens, make N more of each
prompt, the likeliest one each time, and go on behind what would end an answer. For each prompt it says at which token
Tenon's text parts from llama.cpp's, in which tokens, and what logits the two have there, in either engine behind the
same tokens. The number in brackets is how far Tenon's token is ahead. Where that is a few tenths in both engines,
rounding decides.

Perplexity is llama.cpp's: chunks of 512 tokens, each begun anew, of which the second half is scored.

Everything is measured twice: by default, where Tenon rounds what quantized weights are multiplied by to 8 bits, as
llama.cpp does, and with `--exact`. `--llama` is the file that llama.cpp reads in the place of MODEL: the same weights
in f32, say, which it multiplies exactly.

It needs numpy and llama-cpp-python; LLAMA_CPP_LIB_PATH is the folder of another build of libllama.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import llama_cpp
import numpy as np

CHUNK = 512
MODES = {"default": [], "exact": ["--exact"]}


class Llama:
    def __init__(self, path, threads, kv, context):
        kind = {"f32": 0, "f16": 1}[kv]
        self.model = llama_cpp.Llama(
            path,
            n_ctx=context,
            n_batch=CHUNK,
            n_threads=threads,
            n_threads_batch=threads,
            type_k=kind,
            type_v=kind,
            flash_attn=True,
            logits_all=True,
            verbose=False,
        )

    def tokens(self, text):
        return self.model.tokenize(text.encode(), add_bos=True, special=True)

    def text(self, token):
        return self.model.detokenize([token], special=True).decode(errors="replace")

    def logits(self, ids):
        """A row for each token."""
        self.model.reset()
        self.model.eval(ids)
        return self.model.scores[: len(ids)]

    def step(self, token):
        self.model.eval([token])
        return self.model.scores[self.model.n_tokens - 1]

    def greedy(self, ids, count):
        made = [int(self.logits(ids)[-1].argmax())]
        while len(made) < count:
            made.append(int(self.step(made[-1]).argmax()))
        return made

    def perplexity(self, text):
        ids, begin = self.tokens(text), self.tokens("")[:1]
        surprise = []
        for at in range(0, len(ids) - CHUNK + 1, CHUNK):
            chunk = begin + ids[at + len(begin) : at + CHUNK]
            rows = self.logits(chunk)
            for row, token in zip(rows[CHUNK // 2 : -1], chunk[CHUNK // 2 + 1 :]):
                row = row.astype(np.float64) - row.max()
                surprise.append(np.log(np.exp(row).sum()) - row[token])
        return float(np.exp(np.mean(surprise))), len(surprise)


class Tenon:
    def __init__(self, binary, path, threads):
        self.binary, self.path, self.threads = binary, path, str(threads)

    def run(self, command, *options):
        line = [self.binary, command, self.path, "--threads", self.threads, "--json", *options]
        made = subprocess.run(line, capture_output=True, text=True)
        if made.returncode != 0:
            raise SystemExit(f"{' '.join(line)[:300]}\n{made.stderr}")
        return json.loads(made.stdout)

    def generate(self, ids, count, *options):
        ids = ",".join(map(str, ids))
        return self.run("generate", "--ids", ids, "--max-tokens", str(count), "--ignore-eos", *options)["ids"]

    def logits(self, ids, *options):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/logits.npy"
            self.generate(ids, 1, "--logits", path, *options)
            return np.load(path)

    def perplexity(self, path, *options):
        made = self.run("perplexity", path, "--ctx", str(CHUNK), *options)
        return made["perplexity"], made["tokens"]


def parted(tenon, llama, ids, ours, theirs, options):
    """Where and how two texts behind the prompt `ids` part."""
    at = next((i for i, pair in enumerate(zip(ours, theirs)) if pair[0] != pair[1]), None)
    if at is None:
        return "the same"
    pair = [ours[at], theirs[at]]
    # llama.cpp's logits depend on how tokens are put together, so it goes as it went.
    row = llama.logits(ids)[-1]
    for token in theirs[:at]:
        row = llama.step(token)
    said = f"at {at}, {llama.text(pair[0])!r} for {llama.text(pair[1])!r}:"
    for name, row in [("Tenon", tenon.logits(ids + theirs[:at], *options)[-1]), ("llama.cpp", row)]:
        a, b = map(float, row[pair])
        said += f" {name} {a:.3f} {b:.3f} ({a - b:+.3f})"
    return said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tenon")
    parser.add_argument("model")
    parser.add_argument("prompts")
    parser.add_argument("--text", help="a file for the perplexity; without it there is none")
    parser.add_argument("--count", type=int, default=128, help="tokens made of each prompt")
    parser.add_argument("--kv", default="f16", choices=["f16", "f32"], help="llama.cpp's keys and values")
    parser.add_argument("--llama", help="what llama.cpp reads in the place of the model")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    prompts = json.loads(Path(args.prompts).read_text())
    tenon = Tenon(args.tenon, args.model, args.threads)
    llama = Llama(args.llama or args.model, args.threads, args.kv, 2 * CHUNK)
    same = dict.fromkeys(MODES, 0)
    for prompt in prompts:
        ids = llama.tokens(prompt)
        print(f"{prompt[:40]!r}, {len(ids)} tokens", flush=True)
        theirs = llama.greedy(ids, args.count)
        for mode, options in MODES.items():
            ours = tenon.generate(ids, args.count, *options)
            print(f"  {mode:8}{parted(tenon, llama, ids, ours, theirs, options)}", flush=True)
            same[mode] += ours == theirs
    for mode, count in same.items():
        print(f"{mode}: {count} of {len(prompts)} texts are the same")
    if args.text:
        theirs, count = llama.perplexity(Path(args.text).read_text())
        print(f"perplexity, llama.cpp: {theirs:.4f} over {count} tokens", flush=True)
        for mode, options in MODES.items():
            ours, count = tenon.perplexity(args.text, *options)
            print(f"perplexity, Tenon, {mode}: {ours:.4f} over {count} tokens, {100 * (ours / theirs - 1):+.3f}%")


if __name__ == "__main__":
    main()
