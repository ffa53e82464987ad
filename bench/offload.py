#!/usr/bin/env python3
"""Measures the cost of offload to a file. Trains the same GPT-2 in fp32 with its optimizer state on the device (A)
and in a file, with one or more numbers of state slots (B, C …). The rounds alternate A B C A B C … in one run, so
that other load affects all alike. Then trains a model whose state is larger than memory.budget: Trireme must refuse
it on the device, and must train it with weights, gradients and optimizer state in files.

  bench/offload.py --path DIR --size 124m --ranks 2 --threads 1 --rounds 3 --slots 3 5

DIR is a folder on the disk to measure. Prints, as medians over the rounds: the step, the update, bytes that
rank 0 moves in a step, GB/s (1e9) while its file moves, the same over the whole update, and the share of the
transfer that is hidden: 1 - seconds waited / seconds moving.

The last column is that share over what could be hidden with so many slots. Before the norm is known there is room
for the state of as many buckets as there are slots, and after the last update the same; only these transfers have a
pass to hide behind. All others can hide behind the arithmetic of the update, which is the update on the device.

Exit code 0 when the large model was refused with 3, trained, and stayed below its budget; 1 when not.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SIZES = {"12m": (6, 384, 6, 4096), "124m": (12, 768, 12, 50257)}  # layers, hidden, heads, vocabulary
FIT_EXIT = 3


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--path", required=True, help="folder on the disk to measure")
    p.add_argument("--size", choices=sorted(SIZES), default="12m")
    p.add_argument("--ranks", type=int, default=1)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--seq", type=int, default=128)
    p.add_argument("--micro", type=int, default=2)
    p.add_argument("--micros", type=int, default=4, help="micro-batches a rank and step")
    p.add_argument("--steps", type=int, default=6, help="of which 2 are not counted")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--slots", type=int, nargs="+", default=[3], help="parallel.offload.slots; 0: the default, unsaid")
    p.add_argument("--budget-share", type=float, default=0.75, help="memory.budget over the state's 16 bytes a parameter")
    p.add_argument("--budget-vocab", type=int, default=8192, help="of the large model: slots hold its largest tensor many times")
    p.add_argument("--only", choices=["speed", "budget"])
    p.add_argument("--limit-s", type=int, default=600, help="of one command")
    p.add_argument("--trireme", default=os.path.join(HERE, "..", "build", "trireme"))
    return p.parse_args()


def keys_of(a):
    layers, hidden, heads, vocab = SIZES[a.size]
    return {"model.family": "gpt2", "model.layers": layers, "model.hidden": hidden, "model.heads": heads,
            "model.vocab": vocab, "model.max_seq": a.seq, "model.drop_embed": 0, "model.drop_attention": 0,
            "model.drop_residual": 0, "data.seq_len": a.seq, "train.micro_batch": a.micro,
            "train.global_batch": a.micro * a.micros * a.ranks, "train.steps": a.steps, "parallel.dp": "zero3",
            "launch.ranks": a.ranks, "launch.threads_per_rank": a.threads}


def offload(folder, *what):
    return {"parallel.offload.path": folder, **{"parallel.offload." + w: "file" for w in what}}


def run(a, keys):
    """Exit code, the JSON object, stderr."""
    command = [a.trireme, "bench", "train"] + [f"--{key}={value}" for key, value in keys.items()] + ["--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=a.limit_s)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return done.returncode, json.loads(lines[-1]) if lines else None, done.stderr


def measure(a, keys):
    code, figures, said = run(a, keys)
    if code != 0:
        raise SystemExit(f"exit code {code}\n{said[-2000:]}")
    return figures


def in_passes(a, slots):
    """The share of a step's transfers that a pass can hide: the first reads and the last writes, as many as slots."""
    layers, hidden, _, vocab = SIZES[a.size]
    buckets = [(vocab + a.seq) * hidden] + layers * [12 * hidden * hidden + 13 * hidden] + [2 * hidden]
    slots = slots or 3
    return (sum(buckets[:slots]) + sum(buckets[-slots:])) / (2 * sum(buckets)) if slots < len(buckets) else 1


def speed(a, folder):
    in_file = {**keys_of(a), **offload(folder, "optimizer")}
    sides = {"device": keys_of(a)}
    for slots in a.slots:
        sides[f"file, {slots or 3} slots"] = {**in_file, **({"parallel.offload.slots": slots} if slots else {})}
    found = {side: [] for side in sides}
    print(f"GPT-2 {a.size}, fp32, {a.ranks} ranks x {a.threads} threads, {a.micros} x {a.micro} x {a.seq} tokens a rank")
    print(f"{'round':8}{'optimizer in':>14}{'step ms':>10}{'update ms':>11}{'MB moved':>10}{'GB/s':>7}{'of update':>11}"
          f"{'hidden':>8}{'cpu ms':>8}{'of possible':>13}")

    def line(name, side, f, arithmetic_ms):
        tier = f["tier"]
        moved = tier["bytes_read"] + tier["bytes_written"]
        text = f"{name:8}{side:>14}{f['step_ms_median']:10.1f}{f['update_ms']:11.1f}"
        if moved:
            hidden = 1 - tier["waited_ms"] / tier["moving_ms"]
            possible = in_passes(a, int(side.split()[1])) + arithmetic_ms / tier["moving_ms"]
            text += (f"{moved / 1e6:10.1f}{moved / 1e6 / tier['moving_ms']:7.2f}{moved / 1e6 / f['update_ms']:11.2f}"
                     f"{hidden:8.2f}{tier['cpu_ms']:8.1f}{hidden / min(possible, 1):13.2f}")
        print(text, flush=True)

    for number in range(1, a.rounds + 1):
        for side, keys in sides.items():
            found[side].append(measure(a, keys))
            line(str(number), side, found[side][-1], found["device"][-1]["update_ms"])
    middle = {}
    for side, all_of in found.items():
        middle[side] = {k: statistics.median(f[k] for f in all_of) for k in ("step_ms_median", "update_ms")}
        middle[side]["tier"] = {k: statistics.median(f["tier"][k] for f in all_of) for k in all_of[0]["tier"]}
        line("median", side, middle[side], middle["device"]["update_ms"])
    for side in list(sides)[1:]:
        print(f"ratio   {side} / device: step {middle[side]['step_ms_median'] / middle['device']['step_ms_median']:.3f}, "
              f"update {middle[side]['update_ms'] / middle['device']['update_ms']:.2f}")


def budget(a, folder):
    """True when the claim holds."""
    layers, hidden, _, vocab = SIZES[a.size]
    vocab = min(vocab, a.budget_vocab)
    params = (vocab + a.seq + 2) * hidden + layers * (12 * hidden * hidden + 13 * hidden)
    state = 16 * params // a.ranks  # weight, gradient, two moments
    limit = int(a.budget_share * state)
    keys = {**keys_of(a), "model.vocab": vocab, "train.micro_batch": 1, "train.global_batch": a.ranks, "memory.budget": limit}
    code, _, said = run(a, keys)
    print(f"{params / 1e6:.1f} M parameters, state {state / 1e6:.0f} MB a rank, memory.budget {limit / 1e6:.0f} MB")
    print(f"as it stands: exit code {code} ({said.strip()[-200:]})")
    f = measure(a, {**keys, **offload(folder, "weights", "gradients", "optimizer")})
    tier = f["tier"]
    print(f"in files: step {f['step_ms_median']:.1f} ms, {(tier['bytes_read'] + tier['bytes_written']) / 1e6:.0f} MB moved a step, "
          f"resident {f['pss_bytes_per_rank'] / 1e6:.0f} MB, plan {f['plan_bytes_per_rank'] / 1e6:.0f} MB a rank")
    return code == FIT_EXIT and f["pss_bytes_per_rank"] < limit


def main():
    a = arguments()
    good = True
    with tempfile.TemporaryDirectory(prefix="bench-offload-", dir=a.path) as folder:
        if a.only != "budget":
            speed(a, folder)
        if a.only != "speed":
            good = budget(a, folder)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
