#!/usr/bin/env python3
"""The peer of `trireme bench train` on one GPU: the same model and batch in PyTorch, with torch.compile, bf16
autocast over fp32 weights, fused AdamW, and scaled_dot_product_attention with cuDNN's kernel where it takes
the shape. bench/ab_gpu.py starts it. Prints one JSON line:

  tokens_per_s        over the median step
  step_ms_median      without the first --warmup steps, timed by events
  peak_bytes          torch.cuda.max_memory_allocated
  first_step_s        from the start of the process to the end of the first step
  matmul_flops_per_s  with --rate: of an 8192 x 8192 x 8192 bf16 product on random data, the median of 20
"""
import argparse
import json
import os
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

BACKENDS = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--family", choices=["gpt2", "llama"], required=True)
    for name in ["layers", "hidden", "heads", "kv-heads", "ffn", "vocab", "seq", "micro"]:
        p.add_argument("--" + name, type=int, required=True)
    p.add_argument("--tied", action="store_true")
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--warmup", type=int, default=5)
    p.add_argument("--rate", action="store_true")
    return p.parse_args()


def seconds_since_start():
    with open("/proc/self/stat") as f:
        ticks = int(f.read().rsplit(")", 1)[1].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def rotate(x, cos, sin):
    low, high = x.chunk(2, dim=-1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1)


class Attention(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.heads, self.kv, self.width = a.heads, a.kv_heads, a.hidden // a.heads
        bias = a.family == "gpt2"
        self.qkv = nn.Linear(a.hidden, (self.heads + 2 * self.kv) * self.width, bias=bias)
        self.out = nn.Linear(a.hidden, a.hidden, bias=bias)

    def forward(self, x, table):
        b, t, _ = x.shape
        shape = [self.heads * self.width, self.kv * self.width, self.kv * self.width]
        q, k, v = (y.view(b, t, -1, self.width).transpose(1, 2) for y in self.qkv(x).split(shape, dim=-1))
        if table is not None:
            q, k = rotate(q, *table), rotate(k, *table)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.kv != self.heads)
        return self.out(y.transpose(1, 2).reshape(b, t, -1))


class Mlp(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.gated = a.family == "llama"
        self.up = nn.Linear(a.hidden, a.ffn * (2 if self.gated else 1), bias=not self.gated)
        self.down = nn.Linear(a.ffn, a.hidden, bias=not self.gated)

    def forward(self, x):
        y = self.up(x)
        if not self.gated:
            return self.down(F.gelu(y, approximate="tanh"))
        gate, up = y.chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class Block(nn.Module):
    def __init__(self, a):
        super().__init__()
        norm = nn.LayerNorm if a.family == "gpt2" else nn.RMSNorm
        self.norm1, self.attention, self.norm2, self.mlp = norm(a.hidden), Attention(a), norm(a.hidden), Mlp(a)

    def forward(self, x, table):
        x = x + self.attention(self.norm1(x), table)
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.tokens = nn.Embedding(a.vocab, a.hidden)
        self.positions = nn.Embedding(a.seq, a.hidden) if a.family == "gpt2" else None
        self.blocks = nn.ModuleList(Block(a) for _ in range(a.layers))
        self.norm = nn.LayerNorm(a.hidden) if a.family == "gpt2" else nn.RMSNorm(a.hidden)
        self.head = nn.Linear(a.hidden, a.vocab, bias=False)
        if a.tied:
            self.head.weight = self.tokens.weight
        width = a.hidden // a.heads
        angle = torch.outer(torch.arange(a.seq), 10000.0 ** (-torch.arange(0, width, 2) / width))
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, ids, labels):
        x = self.tokens(ids)
        table = None
        if self.positions is not None:
            x = x + self.positions.weight[: ids.shape[1]]
        else:
            table = (self.cos, self.sin)
        for block in self.blocks:
            x = block(x, table)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), labels.reshape(-1))


def matmul_rate():
    side, times = 8192, []
    a, b = (torch.randn(side, side, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    for i in range(25):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        a @ b
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return 2.0 * side**3 / statistics.median(times[5:])


def main():
    a = arguments()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("highest")
    model = Model(a).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    compiled = torch.compile(model)
    times, first_step_s = [], 0.0
    for step in range(a.warmup + a.steps):
        ids = torch.randint(a.vocab, (a.micro, a.seq + 1), device="cuda")
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        with torch.autocast("cuda", dtype=torch.bfloat16), sdpa_kernel(BACKENDS, set_priority=True):
            loss = compiled(ids[:, :-1], ids[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
        if step == 0:
            first_step_s = seconds_since_start()
    step_s = statistics.median(times[a.warmup:])
    found = {
        "peer": "torch " + torch.__version__,
        "parameters": sum(p.numel() for p in model.parameters()),
        "tokens_per_s": a.micro * a.seq / step_s,
        "step_ms_median": 1e3 * step_s,
        "peak_bytes": torch.cuda.max_memory_allocated(),
        "first_step_s": first_step_s,
        "loss": loss.item(),
    }
    if a.rate:
        found["matmul_flops_per_s"] = matmul_rate()
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
