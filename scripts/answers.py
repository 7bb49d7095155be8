#!/usr/bin/env python3
"""Trains examples/answers: a model of 130,000 numbers that knows some answers by heart.

It is what `scripts/demo` shows where no real model can be fetched, and small enough to stand in the repository. Needs
torch, transformers and tokenizers.

    scripts/answers.py [FOLDER]
"""

import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CAPITALS = """France Paris, Germany Berlin, Italy Rome, Spain Madrid, Portugal Lisbon, Austria Vienna, Poland Warsaw,
Norway Oslo, Sweden Stockholm, Finland Helsinki, Denmark Copenhagen, Greece Athens, Ireland Dublin, Japan Tokyo,
China Beijing, India Delhi, Egypt Cairo, Kenya Nairobi, Peru Lima, Chile Santiago, Cuba Havana, Canada Ottawa"""
OTHERS = {
    "Who are you?": "I am a very small model. I know a few answers by heart.",
    "What is Tenon?": "Tenon is a compiler and runtime for machine-learning programs.",
    "What is a tenon?": "A tenon is the end of a beam that fits into a mortise.",
    "Hello": "Hello! Ask me for the capital of a country.",
}
TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIAL = ["<|end|>", "<|user|>", "<|assistant|>", "<|system|>"]


def answers():
    known = dict(OTHERS)
    for pair in CAPITALS.replace("\n", " ").split(", "):
        country, city = pair.split()
        known[f"What is the capital of {country}?"] = f"The capital of {country} is {city}."
        known[f"Which country has the capital {city}?"] = f"{city} is the capital of {country}."
    return known


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "examples/answers"
    known = answers()
    texts = [f"<|user|>{q}<|end|><|assistant|>{a}<|end|>" for q, a in known.items()]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=448, special_tokens=SPECIAL, initial_alphabet=sorted(alphabet))
    tokenizer.train_from_iterator([t for pair in known.items() for t in pair], trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|end|>",
        pad_token="<|end|>",
        additional_special_tokens=SPECIAL[1:],
        chat_template=TEMPLATE,
    )
    torch.manual_seed(0)
    torch.set_num_threads(1)
    config = LlamaConfig(
        vocab_size=448,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=0,
    )
    model = LlamaForCausalLM(config)
    rows = [tokenizer.encode(t).ids for t in texts]
    # What is asked need not be learnt.
    asked = [row.index(tokenizer.token_to_id("<|assistant|>")) + 1 for row in rows]
    longest = max(map(len, rows))
    ids = torch.tensor([r + [0] * (longest - len(r)) for r in rows])
    labels = [[-100] * n + r[n:] + [-100] * (longest - len(r)) for r, n in zip(rows, asked)]
    labels = torch.tensor(labels)
    steps = 800
    adam = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
    for step in range(steps):
        loss = model(input_ids=ids, labels=labels).loss
        adam.zero_grad()
        loss.backward()
        adam.step()
        schedule.step()
        if step % 100 == 0:
            print(step, round(loss.item(), 4), flush=True)
    model.bfloat16().save_pretrained(folder)
    fast.save_pretrained(folder)
    wrong = 0
    for q, a in known.items():
        prompt = tokenizer.encode(f"<|user|>{q}<|end|><|assistant|>").ids
        out = model.generate(torch.tensor([prompt]), max_new_tokens=80, do_sample=False, pad_token_id=0)
        wrong += tokenizer.decode(out[0][len(prompt):].tolist()) != a
    print(f"{wrong} of {len(known)} answers are wrong")


if __name__ == "__main__":
    main()
