#!/usr/bin/env python3
"""Writes sampler_torch.txt: the indices of PyTorch's DistributedSampler, for tests/unit/data/test_sampler.c.

    python3 make_sampler_golden.py        (needs PyTorch)

One line a case: samples seed epoch ranks rank count hash first ..., where hash is FNV-1a (64 bits) over all
indices of that rank and epoch as 64-bit little-endian words, and first are the first eight at most.
"""
import os

from torch.utils.data import DistributedSampler

HERE = os.path.dirname(os.path.abspath(__file__))


def fnv(values):
    h = 0xCBF29CE484222325
    for v in values:
        for byte in v.to_bytes(8, "little"):
            h = ((h ^ byte) * 0x100000001B3) % 2**64
    return h


def line(samples, seed, epoch, ranks, rank):
    sampler = DistributedSampler(range(samples), num_replicas=ranks, rank=rank, shuffle=True, seed=seed, drop_last=False)
    sampler.set_epoch(epoch)
    indices = list(sampler)
    return [samples, seed, epoch, ranks, rank, len(indices), f"{fnv(indices):016x}", *indices[:8]]


def main():
    cases = []
    for samples in (1, 2, 7, 100, 1000):
        for seed, epoch in ((0, 0), (0, 1), (42, 3), (2**32 + 5, 2), (2**32 - 1, 1)):
            for ranks in (1, 2, 3, 8):
                for rank in sorted({0, ranks // 2, ranks - 1}):
                    cases.append(line(samples, seed, epoch, ranks, rank))
    for seed, epoch, ranks, rank in ((0, 0, 1, 0), (7, 1, 2, 1), (1234, 5, 3, 2), (1, 0, 16, 9)):
        cases.append(line(70000, seed, epoch, ranks, rank))
    with open(os.path.join(HERE, "sampler_torch.txt"), "w") as out:
        for case in cases:
            out.write(" ".join(str(v) for v in case) + "\n")


if __name__ == "__main__":
    main()
