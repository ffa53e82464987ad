#!/usr/bin/env python3
"""Trains on the same conversations packed (data.packing: bfd) and one to a sequence (none), A B A B … in one run. Prints the tokens
of conversations per second of both, and the ratio beside the ratio of how full the sequences are: packing is worth what it fills.

  python3 bench/ab_packing.py --model FOLDER --seq 512 --rounds 4 [--trireme PROGRAM]

FOLDER is a HuggingFace folder with a chat template. A round is one run of each kind with --steps steps; its first step is left out.
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess

import ab_sft


def run(a, packing):
    out = os.path.join(a.work, "run")
    shutil.rmtree(out, ignore_errors=True)
    keys = {"model.path": a.model, "data.train": os.path.join(a.work, "chat.jsonl"), "data.seq_len": a.seq, "data.packing": packing,
            "data.truncate": "keep_start", "train.steps": a.steps, "train.micro_batch": a.micro, "train.global_batch": a.micro * a.ranks,
            "train.save_every": 0, "train.out": out, "launch.ranks": a.ranks,
            "launch.threads_per_rank": max(1, os.cpu_count() // a.ranks), "lr_schedule.warmup_steps": 1}
    subprocess.run([a.trireme, "train"] + [f"--{k}={v}" for k, v in keys.items()] + ["--quiet"], check=True)
    with open(os.path.join(out, "log.jsonl")) as f:
        events = [json.loads(line) for line in f]
    full = float(re.search(r"([0-9.]+) % full", next(e for e in events if e["event"] == "start")["note"]).group(1)) / 100
    seconds = [e["seconds"] for e in events if e["event"] == "step"][1:]
    return {"full": full, "tokens_per_s": full * a.seq * a.micro * a.ranks / statistics.median(seconds)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", required=True)
    for name, default in (("seq", 512), ("micro", 1), ("steps", 5), ("ranks", 2), ("rounds", 4)):
        p.add_argument("--" + name, type=int, default=default)
    p.add_argument("--work", default="ab_packing_work")
    p.add_argument("--trireme", default=os.path.join(ab_sft.HERE, "..", "build", "trireme"))
    a = p.parse_args()
    os.makedirs(a.work, exist_ok=True)
    ab_sft.make_conversations(a)
    results = {"bfd": [], "none": []}
    for i in range(a.rounds):
        for packing, rounds in results.items():
            rounds.append(run(a, packing))
            print(f"round {i + 1}: {packing:4} {rounds[-1]['tokens_per_s']:8.1f} tokens of conversations/s, "
                  f"sequences {100 * rounds[-1]['full']:.1f} % full", flush=True)
    middle = {k: statistics.median(r["tokens_per_s"] for r in v) for k, v in results.items()}
    speed, filled = middle["bfd"] / middle["none"], results["bfd"][0]["full"] / results["none"][0]["full"]
    print(f"ratio: {speed:.2f}x tokens of conversations/s where sequences are {filled:.2f}x as full: {speed / filled:.2f}")


if __name__ == "__main__":
    main()
