#!/usr/bin/env python3
"""Causal attention over whole sequences: tests/golden/attention.safetensors, which
unit/model/test_attention_torch.c reads. It comes from torch.nn.functional.scaled_dot_product_attention, with the masks
of transformers, and, with a cap of the scores or with sinks, from the attention of transformers' Gemma 2 and GPT-OSS.

For each case of CASES:
  NAME.qkv [B * T, (H + 2 KV) * D]     queries, then keys, then values of a token
  NAME.o [B * T, H * D]                the result
  NAME.do, NAME.dqkv                   an output gradient, and the gradient of qkv
  NAME.lse [B, H, T]                   log-sum-exp of each query's scores
  NAME.sinks, NAME.dsinks [H]          in a case with sinks: these and their gradient
  NAME.sizes [8] F32                   B, T, H, KV, D, the scale, the window and the cap (0: none)

PyTorch computes in fp64 from numbers that fp32 holds, but for Gemma 2's softmax, which is fp32. The results are rounded
to fp32. Needs torch, transformers and safetensors.
"""
import math
import os
import types

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers.masking_utils import causal_mask_function, sliding_window_causal_mask_function
from transformers.models.gemma2 import modeling_gemma2
from transformers.models.gpt_oss import modeling_gpt_oss

HERE = os.path.dirname(os.path.abspath(__file__))
# name: sequences, tokens, query heads, key-value heads, columns of a head, scale (None: 1/sqrt(D)), window, cap, sinks
CASES = {
    "heads": (2, 16, 2, 2, 8, None, 0, 0, False),
    "grouped": (2, 24, 4, 2, 4, None, 0, 0, False),
    "shared": (1, 40, 3, 1, 5, 0.7, 0, 0, False),
    "window": (2, 24, 4, 2, 4, None, 7, 0, False),
    "capped": (1, 40, 3, 1, 5, 0.7, 16, 1.5, False),
    "sinks": (2, 24, 4, 2, 4, None, 10, 0, True),
}


def attend(q, k, v, mask, scale, cap, sinks):
    groups = q.shape[1] // k.shape[1]
    module = types.SimpleNamespace(num_key_value_groups=groups, training=False, sinks=sinks)
    if cap or sinks is not None:
        added = torch.zeros(mask.shape, dtype=q.dtype).masked_fill(~mask, -math.inf)[None, None]
        if cap:
            return modeling_gemma2.eager_attention_forward(module, q, k, v, added, scaling=scale, softcap=cap)[0]
        return modeling_gpt_oss.eager_attention_forward(module, q, k, v, added, scaling=scale)[0]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, enable_gqa=True).transpose(1, 2)


def log_sum_exp(q, k, mask, scale, cap, sinks):
    scores = q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).transpose(2, 3) * scale
    scores = (torch.tanh(scores / cap) * cap if cap else scores).masked_fill(~mask, -math.inf)
    if sinks is not None:
        scores = torch.cat([scores, sinks.reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)], dim=-1)
    return scores.logsumexp(-1)


def make_case(generator, batch, tokens, heads, kv_heads, dim, scale, window, cap, has_sinks):
    scale = 1 / math.sqrt(dim) if scale is None else scale
    scale = torch.tensor(scale).item()  # the number that fp32 holds
    sizes = [heads * dim, kv_heads * dim, kv_heads * dim]
    qkv = torch.randn(batch * tokens, sum(sizes), generator=generator).double().requires_grad_()
    sinks = torch.randn(heads, generator=generator).double().requires_grad_() if has_sinks else None
    q, k, v = (t.view(batch, tokens, -1, dim).transpose(1, 2) for t in qkv.split(sizes, dim=1))
    position = torch.arange(tokens)
    sees = sliding_window_causal_mask_function(window) if window else causal_mask_function
    mask = sees(0, 0, position[:, None], position[None, :])
    o = attend(q, k, v, mask, scale, cap, sinks).reshape(batch * tokens, heads * dim)
    d_o = torch.randn(o.shape, generator=generator).double()
    o.backward(d_o)
    out = {"qkv": qkv, "o": o, "do": d_o, "dqkv": qkv.grad, "lse": log_sum_exp(q, k, mask, scale, cap, sinks),
           "sizes": torch.tensor([batch, tokens, heads, kv_heads, dim, scale, window, cap])}
    return out | ({"sinks": sinks, "dsinks": sinks.grad} if has_sinks else {})


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
