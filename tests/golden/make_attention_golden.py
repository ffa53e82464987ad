#!/usr/bin/env python3
"""Causal attention over whole sequences, from torch.nn.functional.scaled_dot_product_attention:
tests/golden/attention.safetensors, which unit/model/test_attention_torch.c reads.

For each case of CASES:
  NAME.qkv [B * T, (H + 2 KV) * D]     queries, then keys, then values of a token
  NAME.o [B * T, H * D]                the result
  NAME.do, NAME.dqkv                   an output gradient, and the gradient of qkv
  NAME.lse [B, H, T]                   log-sum-exp of each query's scaled scores
  NAME.sizes [6] F32                   B, T, H, KV, D and the scale

PyTorch computes in fp64 from numbers that fp32 holds. The results are rounded to fp32. Needs torch and safetensors.
"""
import math
import os

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
# name: sequences, tokens, query heads, key-value heads, columns of a head, scale (None: 1/sqrt(D))
CASES = {
    "heads": (2, 16, 2, 2, 8, None),
    "grouped": (2, 24, 4, 2, 4, None),
    "shared": (1, 40, 3, 1, 5, 0.7),
}


def make_case(generator, batch, tokens, heads, kv_heads, dim, scale):
    scale = 1 / math.sqrt(dim) if scale is None else scale
    scale = torch.tensor(scale).item()  # the number that fp32 holds
    sizes = [heads * dim, kv_heads * dim, kv_heads * dim]
    qkv = torch.randn(batch * tokens, sum(sizes), generator=generator).double().requires_grad_()
    q, k, v = (t.view(batch, tokens, -1, dim).transpose(1, 2) for t in qkv.split(sizes, dim=1))
    o = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale, enable_gqa=True)
    o = o.transpose(1, 2).reshape(batch * tokens, heads * dim)
    d_o = torch.randn(o.shape, generator=generator).double()
    o.backward(d_o)
    scores = q @ k.repeat_interleave(heads // kv_heads, dim=1).transpose(2, 3) * scale
    scores = scores.masked_fill(torch.ones(tokens, tokens).triu(1).bool(), -math.inf)
    return {"qkv": qkv, "o": o, "do": d_o, "dqkv": qkv.grad, "lse": scores.logsumexp(-1),
            "sizes": torch.tensor([batch, tokens, heads, kv_heads, dim, scale])}


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    generator, out = torch.Generator().manual_seed(31), {}
    for name, sizes in CASES.items():
        for key, t in make_case(generator, *sizes).items():
            out[f"{name}.{key}"] = t.detach().float().contiguous()
    path = os.path.join(HERE, "attention.safetensors")
    save_file(out, path)
    os.chmod(path, 0o644)


if __name__ == "__main__":
    main()
