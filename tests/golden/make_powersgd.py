#!/usr/bin/env python3
"""Writes tests/golden/powersgd_torch.txt, which unit/parallel reads.

Gradients reduced by PyTorch's own PowerSGD hook on two ranks (DDP over gloo). Gradients and the
first factors are Trireme's counter-based random numbers (src/base/rng.h), so that both sides start
from the same ones; everything between them and the means is PyTorch's.

Lines:   case RANK WARM_START ERROR_FEEDBACK EPSILON
         for each step from START on, the mean of each parameter's gradients, one line a parameter

Run with a Python that has PyTorch and numpy.
"""
import os
import tempfile

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powersgd

HERE = os.path.dirname(os.path.abspath(__file__))
RANKS, START, STEPS, SEED, GRADIENT_SEED = 2, 2, 5, 11, 7
SHAPES = [(10, 8), (16, 5), (4, 4), (9,)]  # the third is worth it at rank 1 only, the last never
RNG_MOCK, RNG_POWERSGD = 5, 6
CASES = [  # rank, warm start, error feedback, epsilon
    (1, True, True, 0), (2, True, True, 0), (3, True, True, 0),
    (2, False, True, 0), (2, True, False, 0), (1, True, True, 0.5), (2, False, False, 1e-8),
]
M64 = (1 << 64) - 1


def mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & M64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & M64
    return x ^ (x >> 31)


def key_make(seed, use, a, b):
    golden = 0x9E3779B97F4A7C15
    h = mix((seed + golden) & M64)
    for word in (use, a, b):
        h = mix((h + golden + word) & M64)
    return h & 0xFFFFFFFF, h >> 32


def philox(key, counter):
    c0, c1, c2, c3 = counter & 0xFFFFFFFF, counter >> 32, 0, 0
    k0, k1 = key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & 0xFFFFFFFF, (p0 >> 32) ^ c3 ^ k1, p0 & 0xFFFFFFFF
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0, c1, c2, c3


def normals(key, count):
    out = []
    for counter in range((count + 3) // 4):
        words = philox(key, counter)
        for i in (0, 2):
            u = ((words[i] >> 8) + 1) * 2.0**-24
            radius, angle = np.sqrt(-2 * np.log(u)), 6.2831853 * (words[i + 1] >> 8) * 2.0**-24
            out += [radius * np.cos(angle), radius * np.sin(angle)]
    return torch.tensor(np.array(out[:count], dtype=np.float32))


class Weights(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.all = torch.nn.ParameterList(torch.zeros(s) for s in SHAPES)

    def forward(self, gradients):
        return sum((w * g).sum() for w, g in zip(self.all, gradients))


def gradients_of(step, rank):
    flat = normals(key_make(GRADIENT_SEED, RNG_MOCK, step, rank), sum(int(np.prod(s)) for s in SHAPES))
    parts = torch.split(flat, [int(np.prod(s)) for s in SHAPES])
    return [p.view(s) for p, s in zip(parts, SHAPES)]


def run(case, rank):
    approximation, warm, feedback, epsilon = case
    model = torch.nn.parallel.DistributedDataParallel(Weights())
    state = powersgd.PowerSGDState(
        None, approximation, start_powerSGD_iter=START, min_compression_rate=1, use_error_feedback=feedback,
        warm_start=warm, orthogonalization_epsilon=epsilon)
    row_of = {s[1]: i for i, s in enumerate(SHAPES) if len(s) == 2}

    def first_factor(batch, m, r, **_):  # what the hook draws Q with
        assert batch == 1
        return normals(key_make(SEED, RNG_POWERSGD, row_of[m], state.iter), m * r).view(1, m, r)

    torch.randn = first_factor
    model.register_comm_hook(state, powersgd.powerSGD_hook)
    lines = ["case %d %d %d %g" % (approximation, warm, feedback, epsilon)]
    for step in range(STEPS):
        model.zero_grad()
        model(gradients_of(step, rank)).backward()
        if step >= START:
            lines += [" ".join("%.7e" % x for x in w.grad.flatten().tolist()) for w in model.module.all]
    return lines


def work(rank, store, out):
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=RANKS)
    lines = [line for case in CASES for line in run(case, rank)]
    dist.destroy_process_group()
    if rank == 0:
        with open(out, "w") as f:
            f.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, (os.path.join(folder, "store"), os.path.join(HERE, "powersgd_torch.txt")), RANKS)
