#!/usr/bin/env python3
"""Greedy texts and perplexity of a GGUF file in Tenon and in llama.cpp, beside one another.

    beside_llama.py TENON MODEL.gguf PROMPTS.json [--text TEXT] [--count N] [--kv f16|f32] [--llama OTHER.gguf]
    beside_llama.py TENON MODEL.gguf --speed

PROMPTS.json is a list of texts, such as scripts/prompts.json. Both engines take the same tokens, make N more of each
prompt, the likeliest one each time, and go on behind what would end an answer. For each prompt it says at which token
Tenon's text parts from llama.cpp's, in which tokens, and what logits the two have there, in either engine behind the
same tokens. The number in brackets is how far Tenon's token is ahead. Where that is a few tenths in both engines,
rounding decides.

Perplexity is llama.cpp's: chunks of 512 tokens, each begun anew, of which the second half is scored. The first four
chunks also say how far the default's distributions are from those of `--exact` (the mean Kullback-Leibler divergence).

Speed is tokens a second of a prompt of 512, and of 1 and 8 sequences that go on by 128 behind one, in rounds by turns.

Everything is measured twice: by default, where Tenon rounds what quantized weights are multiplied by to 8 bits, as
llama.cpp does, and with `--exact`. `--llama` is the file that llama.cpp reads in the place of MODEL: the same weights
in f32, say, which it multiplies exactly.

It needs numpy and llama-cpp-python; LLAMA_CPP_LIB_PATH is the folder of another build of libllama.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import llama_cpp
import numpy as np

CHUNK = 512
BATCHES = [1, 8]
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

    def chunks(self, text):
        """Parts of a text that are each begun anew."""
        ids, begin = self.tokens(text), self.tokens("")[:1]
        return [begin + ids[at + len(begin) : at + CHUNK] for at in range(0, len(ids) - CHUNK + 1, CHUNK)]

    def perplexity(self, text):
        surprise = []
        for chunk in self.chunks(text):
            rows = self.logits(chunk)
            for row, token in zip(rows[CHUNK // 2 : -1], chunk[CHUNK // 2 + 1 :]):
                surprise.append(-log_softmax(row)[token])
        return float(np.exp(np.mean(surprise))), len(surprise)


class Steps:
    """A model in llama.cpp that is timed: batches of several sequences."""

    def __init__(self, path, threads):
        llama_cpp.llama_backend_init()
        self.threads = threads
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), llama_cpp.llama_model_default_params())

    def step(self, context, rows):
        """Rows of (token, position, sequence); the last row of each sequence has logits."""
        batch = llama_cpp.llama_batch_init(len(rows), 0, 1)
        batch.n_tokens = len(rows)
        last = {sequence: i for i, (_, _, sequence) in enumerate(rows)}
        for i, (token, position, sequence) in enumerate(rows):
            batch.token[i], batch.pos[i] = token, position
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, sequence
            batch.logits[i] = last[sequence] == i
        if llama_cpp.llama_decode(context, batch) != 0:
            raise SystemExit("llama.cpp fails")
        llama_cpp.llama_batch_free(batch)
        # What runs behind the call is waited for.
        llama_cpp.llama_get_logits_ith(context, -1)

    def speeds(self, count):
        found = {}
        for batch in BATCHES:
            params = llama_cpp.llama_context_default_params()
            params.n_ctx, params.n_batch, params.n_ubatch = (CHUNK + count) * batch, CHUNK, CHUNK
            params.n_seq_max = batch
            params.n_threads = params.n_threads_batch = self.threads
            context = llama_cpp.llama_init_from_model(self.model, params)
            begun = time.perf_counter()
            for sequence in range(batch):
                self.step(context, [(100 + i, i, sequence) for i in range(CHUNK)])
            if batch == 1:
                found["prefill"] = CHUNK / (time.perf_counter() - begun)
            begun = time.perf_counter()
            for i in range(count):
                self.step(context, [(100 + i, CHUNK + i, sequence) for sequence in range(batch)])
            found[f"batch {batch}"] = batch * count / (time.perf_counter() - begun)
            llama_cpp.llama_free(context)
        return found


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

    def speeds(self, count):
        batches = ",".join(map(str, BATCHES))
        said = ["--pp", str(CHUNK), "--tg", str(count), "--batch", batches, "--runs", "1"]
        name = lambda row: "prefill" if row["what"] == "prefill" else f"batch {row['batch']}"
        return {name(row): row["tps"] for row in self.run("bench-llm", *said)["rows"]}

    def perplexity(self, path, *options):
        made = self.run("perplexity", path, "--ctx", str(CHUNK), *options)
        return made["perplexity"], made["tokens"]


def log_softmax(row):
    row = row.astype(np.float64) - row.max()
    return row - np.log(np.exp(row).sum())


def divergence(tenon, chunks):
    far = []
    for chunk in chunks:
        rows = (tenon.logits(chunk, *options) for options in (MODES["exact"], MODES["default"]))
        for exact, other in zip(*rows):
            exact, other = log_softmax(exact), log_softmax(other)
            far.append(float((np.exp(exact) * (exact - other)).sum()))
    return np.mean(far), len(far)


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


def speed(tenon, llama, count, rounds=5):
    pairs = [(tenon.speeds(count), llama.speeds(count)) for _ in range(rounds)]
    for name in pairs[0][1]:
        ours, theirs = (statistics.median(pair[who][name] for pair in pairs) for who in (0, 1))
        ratios = sorted(a[name] / b[name] for a, b in pairs)
        between = f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
        print(f"{name}: Tenon {ours:.0f}, llama.cpp {theirs:.0f}, {statistics.median(ratios):.2f} times ({between})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tenon")
    parser.add_argument("model")
    parser.add_argument("prompts", nargs="?")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--text", help="a file for the perplexity; without it there is none")
    parser.add_argument("--count", type=int, default=128, help="tokens made of each prompt")
    parser.add_argument("--kv", default="f16", choices=["f16", "f32"], help="llama.cpp's keys and values")
    parser.add_argument("--llama", help="what llama.cpp reads in the place of the model")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    tenon = Tenon(args.tenon, args.model, args.threads)
    if args.speed:
        return speed(tenon, Steps(args.llama or args.model, args.threads), args.count)
    prompts = json.loads(Path(args.prompts).read_text()) if args.prompts else []
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
    for mode, count in same.items() if prompts else ():
        print(f"{mode}: {count} of {len(prompts)} texts are the same")
    if args.text:
        theirs, count = llama.perplexity(Path(args.text).read_text())
        print(f"perplexity, llama.cpp: {theirs:.4f} over {count} tokens", flush=True)
        for mode, options in MODES.items():
            ours, count = tenon.perplexity(args.text, *options)
            print(f"perplexity, Tenon, {mode}: {ours:.4f} over {count} tokens, {100 * (ours / theirs - 1):+.3f}%")
        far, count = divergence(tenon, llama.chunks(Path(args.text).read_text())[:4])
        print(f"divergence of the default from exact: {far:.2e} over {count} tokens")


if __name__ == "__main__":
    main()
