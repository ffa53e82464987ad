#!/usr/bin/env python3
"""Compares Trireme with transformers on a real HuggingFace folder: its greedy text, and the losses of AdamW.

  bench/compare_folder.py FOLDER [--trireme build/trireme] [--tokens 40] [--steps 8]

Run with a Python that has torch and transformers. FOLDER holds config.json, safetensors and tokenizer.json. Both
programs compute in fp32 with two threads. Each prompt must be continued by the same tokens, and the loss of each step
on the text of this repository's documents must differ by at most 1e-4. Exit codes: 0 both agree, 1 they differ.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

HERE = pathlib.Path(__file__).resolve().parent
PROMPTS = ["The capital of France is", "def fibonacci(n):\n", "Once upon a time, in a village by the sea,"]
SEQ, BATCH, RATE = 128, 2, 1e-4


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder")
    p.add_argument("--trireme", default=str(HERE.parent / "build" / "trireme"))
    p.add_argument("--tokens", type=int, default=40)
    p.add_argument("--steps", type=int, default=8)
    return p.parse_args()


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{command[1]}: exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def same_text(a, model, tokenizer):
    same = True
    for prompt in PROMPTS:
        ids = tokenizer(prompt, return_tensors="pt", add_special_tokens=False).input_ids
        want = model.generate(ids, max_new_tokens=a.tokens, do_sample=False)[0, ids.shape[1]:]
        want = want.tolist()
        got = json.loads(run(a.trireme, "generate", "--model", a.folder, "--prompt", prompt, "--tokens", a.tokens,
                             "--temperature", 0, "--json").splitlines()[-1])["samples"][0]["ids"]
        if want[-1] == model.generation_config.eos_token_id:
            want.pop()
        print(f"{'same' if got == want else 'DIFFERS'}: {prompt!r} -> {tokenizer.decode(got)!r}" +
              ("" if got == want else f", transformers {tokenizer.decode(want)!r}"))
        same &= got == want
    return same


def text_of_documents():
    return "\n".join(p.read_text() for p in sorted((HERE.parent / "docs").glob("*.md")))


def losses_of_transformers(a, model, ids):
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.999), eps=1e-8, weight_decay=0)
    losses = []
    for step in range(a.steps):
        rows = ids[step * BATCH * SEQ:(step + 1) * BATCH * SEQ + 1]
        x, y = rows[:-1].view(BATCH, SEQ), rows[1:].view(BATCH, SEQ)
        logits = model(x).logits
        loss = torch.nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]).float(), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def losses_of_trireme(a, scratch, text):
    (scratch / "text.txt").write_text(text)
    run(a.trireme, "data", "prepare", "--input", scratch / "text.txt", "--tokenizer", a.folder, "--output-prefix", scratch / "shard")
    run(a.trireme, "train", "--model.path", a.folder, "--data.train", scratch / "shard", "--data.seq_len", SEQ,
        "--data.order", "sequential", "--train.global_batch", BATCH, "--train.micro_batch", BATCH, "--train.steps", a.steps,
        "--train.precision", "fp32", "--train.out", scratch / "run", "--train.save_every", 0, "--optimizer.name", "adamw",
        "--optimizer.lr", RATE, "--optimizer.betas", "[0.9, 0.999]", "--optimizer.weight_decay", 0, "--train.clip_grad_norm", 0,
        "--lr_schedule.name", "constant", "--launch.ranks", 1, "--launch.threads_per_rank", 2, "--quiet")
    lines = [json.loads(line) for line in (scratch / "run" / "log.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


def main():
    a = arguments()
    os.environ["HF_HUB_OFFLINE"] = "1"
    torch.set_num_threads(2)
    tokenizer = AutoTokenizer.from_pretrained(a.folder)
    model = AutoModelForCausalLM.from_pretrained(a.folder, dtype=torch.float32)
    same = same_text(a, model, tokenizer)
    text = text_of_documents()
    ids = torch.tensor(tokenizer(text, add_special_tokens=False).input_ids)
    with tempfile.TemporaryDirectory() as scratch:
        got = losses_of_trireme(a, pathlib.Path(scratch), text)
    want = losses_of_transformers(a, model, ids)
    for step, (x, y) in enumerate(zip(got, want), 1):
        print(f"step {step}: loss {x:.6f}, transformers {y:.6f}, difference {abs(x - y):.1e}")
    same &= len(got) == len(want) and all(abs(x - y) <= 1e-4 for x, y in zip(got, want))
    sys.exit(0 if same else 1)


main()
