#!/usr/bin/env python3
"""Writes tests/golden/nf4.txt, which unit/base/test_nf4.c reads.

Ten shapes as fp32 and as bf16, quantised by the CPU back end of bitsandbytes with double quantisation. The numbers follow
from the index of an element, so that both sides make the same ones; test_nf4.c has the formula, too. torch sums absmax
with one thread; its mean may differ in the last bit on processors with other vectors.

Lines: rows cols type, the bits of the mean, then digests (digest_of) of: the codes, the codes of the scales, the maxima, and
the dequantised weights in fp32 and in bf16.

Run with a Python that has PyTorch, numpy and bitsandbytes.
"""
import os

import bitsandbytes.functional as bnb
import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
SHAPES = [(1, 64), (64, 64), (128, 192), (256, 256), (576, 576), (192, 576), (1536, 576), (576, 1536), (1024, 896),
          (448, 4864)]


def numbers(count):
    """Cubes of numbers in [-0.5, 0.5), which have the tails that weights have."""
    word = (np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(16)
    word = (word * np.uint64(0xBF58476D1CE4E5B9)) >> np.uint64(40)
    x = word.astype(np.float32) * np.float32(2.0**-24) - np.float32(0.5)
    return x * x * x


def digest_of(data):
    """The sum of words of 2 bytes, each times an odd number of its place, modulo 2^64. An odd last byte is a word."""
    raw = data.tobytes()
    raw += b"\0" * (len(raw) % 2)
    word = np.frombuffer(raw, dtype="<u2").astype(np.uint64)
    place = np.arange(len(word), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C16) + np.uint64(1)
    return int(((word + np.uint64(1)) * place).sum(dtype=np.uint64))


def line_of(rows, cols, dtype):
    x = torch.from_numpy(numbers(rows * cols).reshape(rows, cols)).to(dtype)
    codes, state = bnb.quantize_4bit(x, blocksize=64, compress_statistics=True, quant_type="nf4")
    out = [codes.numpy(), state.absmax.numpy(), state.state2.absmax.numpy()]
    for wide in (torch.float32, torch.bfloat16):
        state.dtype = wide
        values = bnb.dequantize_4bit(codes, state)
        out.append(values.numpy() if wide is torch.float32 else values.view(torch.int16).numpy())
    mean = state.offset.numpy().view(np.uint32)
    name = "fp32" if dtype is torch.float32 else "bf16"
    return f"{rows} {cols} {name} {int(mean)} " + " ".join(str(digest_of(d)) for d in out)


def main():
    torch.set_num_threads(1)
    with open(os.path.join(HERE, "nf4.txt"), "w") as f:
        for rows, cols in SHAPES:
            for dtype in (torch.float32, torch.bfloat16):
                f.write(line_of(rows, cols, dtype) + "\n")


if __name__ == "__main__":
    main()
