#!/usr/bin/env python3
"""The peer of `trireme bench train`: the same model and batch in PyTorch, DDP or FSDP2 over gloo on
CPUs (--strategy fsdp2: fully_shard on every layer and on the root, with its defaults).

One process with threads:   python bench/peer_ddp.py --ranks 1 --threads 2
Ranks:                      python -m torch.distributed.run --nproc_per_node 2 bench/peer_ddp.py --ranks 2
bench/ab_train.py starts it either way. Rank 0 prints one JSON line:

  tokens_per_s              tokens of all ranks over the median step
  step_ms_median            without the first --warmup steps
  rss_peak_bytes_per_rank   VmHWM of the largest rank
  pss_peak_bytes_per_rank   the same less what the rank shares with other processes
  first_step_s              from the start of the command (of the launcher, where there is one)
"""
import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from transformers import GPT2Config, GPT2LMHeadModel


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--family", choices=["gpt2"], default="gpt2")
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--hidden", type=int, default=768)
    p.add_argument("--heads", type=int, default=12)
    p.add_argument("--vocab", type=int, default=50257)
    p.add_argument("--seq", type=int, default=256)
    p.add_argument("--micro", type=int, default=2, help="sequences per rank and step")
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--warmup", type=int, default=2)
    p.add_argument("--ranks", type=int, default=1)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--strategy", choices=["ddp", "fsdp2"], default="ddp")
    p.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    return p.parse_args()


def seconds_since_start(pid):
    """Of a process, from its start time in ticks since boot."""
    with open("/proc/%d/stat" % pid) as f:
        ticks = int(f.read().rsplit(")", 1)[1].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def kilobytes(path, key):
    with open(path) as f:
        for line in f:
            if line.startswith(key + ":"):
                return 1024 * int(line.split()[1])
    raise KeyError(key)


def memory():
    """Peak resident bytes of this process, and the same without its shared pages' other owners."""
    peak = kilobytes("/proc/self/status", "VmHWM")
    rss = kilobytes("/proc/self/smaps_rollup", "Rss")
    pss = kilobytes("/proc/self/smaps_rollup", "Pss")
    return peak, peak - (rss - pss)


def make_model(a):
    config = GPT2Config(n_layer=a.layers, n_embd=a.hidden, n_head=a.heads, vocab_size=a.vocab,
                        n_positions=a.seq, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                        use_cache=False, bos_token_id=None, eos_token_id=None)
    config._attn_implementation = "sdpa"
    torch.manual_seed(0)
    return GPT2LMHeadModel(config)


def distribute(a, model):
    if a.strategy == "ddp":
        return DistributedDataParallel(model, gradient_as_bucket_view=True)
    for layer in model.transformer.h:
        fully_shard(layer)
    return fully_shard(model)


def train_step(a, model, optimizer, ids):
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.dtype == "bf16"):
        logits = model(input_ids=ids[:, :-1]).logits
        loss = F.cross_entropy(logits.reshape(-1, a.vocab), ids[:, 1:].reshape(-1))
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item()


def main():
    a = arguments()
    launched = "TORCHELASTIC_RUN_ID" in os.environ
    torch.set_num_threads(a.threads)
    if a.ranks > 1:
        dist.init_process_group("gloo")
        if dist.get_world_size() != a.ranks:
            raise SystemExit("--ranks %d, but the launcher started %d" % (a.ranks, dist.get_world_size()))
    rank = dist.get_rank() if a.ranks > 1 else 0
    model = make_model(a)
    parameters = sum(p.numel() for p in model.parameters())
    if a.ranks > 1:
        model = distribute(a, model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    random = torch.Generator().manual_seed(rank)
    times, first_step_s, loss = [], 0.0, 0.0
    for step in range(a.warmup + a.steps):
        ids = torch.randint(a.vocab, (a.micro, a.seq + 1), generator=random)
        start = time.monotonic()
        loss = train_step(a, model, optimizer, ids)
        times.append(time.monotonic() - start)
        if step == 0:
            first_step_s = seconds_since_start(os.getppid() if launched else os.getpid())
    found = [memory()]
    if a.ranks > 1:
        found = [None] * a.ranks
        dist.all_gather_object(found, memory())
    if rank == 0:
        step_s = statistics.median(times[a.warmup:])
        print(json.dumps({
            "peer": "torch " + torch.__version__,
            "parameters": parameters,
            "tokens_per_s": a.ranks * a.micro * a.seq / step_s,
            "step_ms_median": 1e3 * step_s,
            "step_ms_min": 1e3 * min(times[a.warmup:]),
            "rss_peak_bytes_per_rank": max(peak for peak, _ in found),
            "pss_peak_bytes_per_rank": max(pss for _, pss in found),
            "first_step_s": first_step_s,
            "loss": loss,
        }), flush=True)
    if a.ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
