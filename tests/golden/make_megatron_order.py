#!/usr/bin/env python3
"""Writes megatron_order.txt: samples in the order of Megatron-LM's GPTDataset and BlendedDataset, for
tests/unit/data/test_megatron_order.c.

    python3 make_megatron_order.py        (needs numpy)

The algorithm is written from its description: documents of all epochs shuffled by RandomState(seed), a sample every L
tokens of them with one token more, samples shuffled, the last epoch apart where less than 80 % of it is used; blends
take the data set that lags its weight most. The draws are numpy's own.

Shard s has documents of (37 i + 11 s) mod 29 tokens, i = 0 ... documents - 1, and the ids 100000 s, 100000 s + 1 and so
on. A line: L seed samples shards, then for each shard: documents from to weight; then the number of samples, and
FNV-1a (64 bits) over all L + 1 tokens of all samples as 64-bit little-endian words, and the first tokens of up to six
samples.
"""
import math
import os

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


def fnv(values):
    h = 0xCBF29CE484222325
    for v in values:
        for byte in int(v).to_bytes(8, "little"):
            h = ((h ^ byte) * 0x100000001B3) % 2**64
    return h


def lengths(shard, documents):
    return [(37 * i + 11 * shard) % 29 for i in range(documents)]


def stream(shard, sizes, order):
    starts = np.concatenate(([0], np.cumsum(sizes)))
    return np.concatenate([np.arange(starts[d], starts[d] + sizes[d]) for d in order]) + 100000 * shard


def one(shard, documents, low, high, length, seed, samples):
    """All samples [n, length + 1] of a shard, in order."""
    sizes = lengths(shard, documents)
    chosen = np.arange(round(low * documents), round(high * documents), dtype=np.int32)
    epoch = sum(sizes[d] for d in chosen)
    epochs = 1
    while epochs * epoch < samples * length + 1:
        epochs += 1
    apart, before = False, 0
    if epochs > 1:
        before = ((epochs - 1) * epoch - 1) // length
        apart = samples - before < int(0.80 * ((epoch - 1) // length))
    draw = np.random.RandomState(seed)
    parts = [np.tile(chosen, epochs - 1), chosen.copy()] if apart else [np.tile(chosen, epochs)]
    for part in parts:
        draw.shuffle(part)
    tokens = stream(shard, sizes, np.concatenate(parts))
    count = (epochs * epoch - 1) // length
    numbers = np.arange(count, dtype=np.uint32)
    parts = [numbers[:before], numbers[before:]] if apart else [numbers]
    for part in parts:
        draw.shuffle(part)
    order = np.concatenate(parts)
    return [tokens[n * length : n * length + length + 1] for n in order.astype(np.int64)]


def blend(shards, length, seed, samples):
    if len(shards) == 1:
        documents, low, high, _ = shards[0]
        return one(0, documents, low, high, length, seed, samples)
    total = sum(weight for *_, weight in shards)
    weights = [weight / total for *_, weight in shards]
    shares = [math.ceil(samples * weight) for weight in weights]
    mine = [
        one(s, documents, low, high, length, seed, math.ceil(share * 1.005))
        for s, ((documents, low, high, _), share) in enumerate(zip(shards, shares))
    ]
    given, out = [0] * len(shards), []
    for k in range(sum(shares)):
        lag = [weight * max(k, 1) - n for weight, n in zip(weights, given)]
        s = lag.index(max(lag))
        out.append(mine[s][given[s]])
        given[s] += 1
    return out


def cases():
    for documents in (3, 40, 1000):
        for length in (8, 31):
            for seed in (0, 1234, 2**32 - 1):
                epoch = (sum(lengths(0, documents)) - 1) // length
                for samples in sorted({1, epoch, epoch + 1, epoch * 3 // 2, epoch * 19 // 10, epoch * 5 // 2}):
                    if samples > 0 and epoch > 0:
                        yield length, seed, samples, [(documents, 0, 1, 1)]
    yield 16, 5, 700, [(1000, 0, 0.949, 1)]
    yield 16, 5, 30, [(1000, 0.949, 0.999, 1)]
    yield 16, 5, 90, [(41, 0.5, 1, 1)]
    yield 8, 42, 500, [(100, 0, 1, 0.7), (60, 0, 1, 0.3)]
    yield 8, 42, 500, [(100, 0, 0.9, 3), (60, 0, 0.9, 1), (200, 0, 0.9, 2.5)]


def main():
    with open(os.path.join(HERE, "megatron_order.txt"), "w") as out:
        for length, seed, samples, shards in cases():
            all_of = blend(shards, length, seed, samples)
            head = [length, seed, samples, len(shards)]
            for shard in shards:
                head += shard
            tail = [len(all_of), f"{fnv(np.concatenate(all_of)):016x}", *[s[0] for s in all_of[:6]]]
            print(*head, *tail, file=out)


if __name__ == "__main__":
    main()
