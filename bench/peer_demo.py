#!/usr/bin/env python3
"""The reference of the demo: trains its model on its text for its wall time in PyTorch (one process, two threads).

  python bench/peer_demo.py --text austen.txt              BPE trained by HuggingFace's tokenizers,
                                                           every twentieth document held out
  python bench/peer_demo.py --shards PREFIX --tokenizer F  the shards that `trireme data prepare`
                                                           wrote: the same tokens and held-out
                                                           documents as the demo's (PREFIX_valid)

A GPT-2 of 4 layers x 192, no dropout; steps of 512 tokens; AdamW, lr 3e-3 falling with the wall
clock as a half cosine to a tenth. Prints one JSON line: tokens seen, and bits per byte on the
held-out documents (joined, windows of --seq tokens, ends of documents counted as tokens).
"""
import argparse
import json
import math
import sys
import time

import numpy as np
import tokenizers
import torch
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel

EOD = "<|endoftext|>"


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = p.add_mutually_exclusive_group(required=True)
    source.add_argument("--text", help="documents separated by form feeds")
    source.add_argument("--shards", metavar="PREFIX")
    p.add_argument("--tokenizer", help="tokenizer.json of the shards")
    p.add_argument("--vocab", type=int, default=2048)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--hidden", type=int, default=192)
    p.add_argument("--heads", type=int, default=6)
    p.add_argument("--seq", type=int, default=128)
    p.add_argument("--batch", type=int, default=4, help="sequences a step")
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--warmup", type=int, default=50, help="steps")
    p.add_argument("--seconds", type=float, default=180)
    p.add_argument("--threads", type=int, default=2)
    return p.parse_args()


def from_text(a):
    """Train ids, held-out ids, bytes of the held-out text."""
    with open(a.text, encoding="utf-8") as f:
        documents = f.read().split("\f")
    train = [d for i, d in enumerate(documents) if i % 20 != 19]
    held = [d for i, d in enumerate(documents) if i % 20 == 19]
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = tokenizers.decoders.ByteLevel()
    bpe.train_from_iterator(train, tokenizers.trainers.BpeTrainer(
        vocab_size=a.vocab, special_tokens=[EOD], show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    end = bpe.token_to_id(EOD)
    join = lambda part: np.concatenate([np.array(bpe.encode(d).ids + [end], np.int64) for d in part])
    return join(train), join(held), sum(len(d.encode()) for d in held)


def read_shard(prefix):
    """All ids of a Megatron shard in stored order."""
    with open(prefix + ".idx", "rb") as f:
        head = f.read(18)
    if len(head) < 18 or head[:9] != b"MMIDIDX\0\0":
        raise SystemExit("%s.idx: not a Megatron index" % prefix)
    kind = {4: np.int32, 8: np.uint16}[head[17]]
    return np.fromfile(prefix + ".bin", kind).astype(np.int64)


def from_shards(a):
    bpe = tokenizers.Tokenizer.from_file(a.tokenizer)
    train, held = read_shard(a.shards), read_shard(a.shards + "_valid")
    return train, held, len(bpe.decode(held.tolist(), skip_special_tokens=True).encode())


def make_model(a):
    config = GPT2Config(n_layer=a.layers, n_embd=a.hidden, n_head=a.heads, vocab_size=a.vocab,
                        n_positions=a.seq, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False,
                        bos_token_id=None, eos_token_id=None)
    config._attn_implementation = "sdpa"
    torch.manual_seed(0)
    return GPT2LMHeadModel(config)


def batches(ids, a):
    """Endless: windows of seq+1 tokens, each once an epoch in a new order."""
    starts = np.arange(0, len(ids) - a.seq - 1, a.seq)
    random = np.random.default_rng(0)
    while True:
        order = random.permutation(starts)
        for i in range(0, len(order) - a.batch + 1, a.batch):
            yield torch.from_numpy(np.stack([ids[s:s + a.seq + 1] for s in order[i:i + a.batch]]))


def loss_of(model, ids, reduction="mean"):
    logits = model(input_ids=ids[:, :-1]).logits
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1), reduction=reduction)


def train(model, ids, a):
    optimizer = torch.optim.AdamW(model.parameters(), lr=a.lr, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    start, steps, shown = time.monotonic(), 0, 0.0
    for batch in batches(ids, a):
        gone = (time.monotonic() - start) / a.seconds
        if gone >= 1.0:
            break
        ratio = 0.1 + 0.9 * (1 + math.cos(math.pi * gone)) / 2
        for group in optimizer.param_groups:
            group["lr"] = a.lr * ratio * min(1.0, (steps + 1) / a.warmup)
        loss = loss_of(model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        steps += 1
        if gone - shown >= 0.1:
            shown = gone
            print("step %d  loss %.4f  %3.0f %%" % (steps, loss.item(), 100 * gone), file=sys.stderr, flush=True)
    return steps, time.monotonic() - start


@torch.no_grad()
def held_out_nats(model, ids, a):
    """Summed over every token but the first."""
    total, stop = 0.0, len(ids) - 1
    whole = stop // a.seq * a.seq
    windows = torch.from_numpy(np.stack([ids[s:s + a.seq + 1] for s in range(0, whole, a.seq)]))
    for part in windows.split(32):
        total += loss_of(model, part, "sum").item()
    if whole < stop:
        total += loss_of(model, torch.from_numpy(ids[whole:][None]), "sum").item()
    return total


def main():
    a = arguments()
    if a.shards and not a.tokenizer:
        raise SystemExit("--shards needs --tokenizer")
    torch.set_num_threads(a.threads)
    ids, held, held_bytes = from_shards(a) if a.shards else from_text(a)
    model = make_model(a)
    steps, seconds = train(model, ids, a)
    nats = held_out_nats(model, held, a)
    print(json.dumps({
        "parameters": sum(p.numel() for p in model.parameters()),
        "train_tokens": len(ids),
        "tokens_seen": steps * a.batch * a.seq,
        "tokens_per_s": steps * a.batch * a.seq / seconds,
        "held_out_bytes": held_bytes,
        "held_out_loss": nats / (len(held) - 1),
        "bits_per_byte": nats / math.log(2) / held_bytes,
    }))


if __name__ == "__main__":
    main()
