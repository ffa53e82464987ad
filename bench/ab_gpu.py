#!/usr/bin/env python3
"""Compares Trireme with PyTorch on one GPU: the same models and batches, A B A B in one run. ./bench-gpu builds
the program and starts it. For each model it prints tokens per second of both, their ratio, MFU, and memory
beside the plan (GiB: as Trireme counts; driver: what the driver has given out, with the context); with --out also as JSON.

MFU counts 6 FLOPs a parameter and token (embeddings that are only looked up left out) and the attention's
12 * layers * hidden * seq / 2 (causal); nothing is counted for recomputation. It is a share of --peak (H100 and
H200: 989 TFLOP/s in bf16), and of the rate of a large product that PyTorch measures in the same run.
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = {
    "gpt2-124m": dict(family="gpt2", layers=12, hidden=768, heads=12, kv_heads=12, ffn=3072, vocab=50257, seq=1024,
                      micro=32, tied=True),
    "gpt2-1.5b": dict(family="gpt2", layers=48, hidden=1600, heads=25, kv_heads=25, ffn=6400, vocab=50257, seq=1024,
                      micro=8, tied=True),
    "llama-1b": dict(family="llama", layers=16, hidden=2048, heads=32, kv_heads=8, ffn=8192, vocab=32000, seq=2048,
                     micro=8, tied=True),
    "llama-8b-layer": dict(family="llama", layers=2, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocab=1024,
                           seq=4096, micro=4, tied=False),
}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--peak", type=float, default=989e12, help="FLOP/s of the GPU in bf16")
    p.add_argument("--limit-s", type=float, default=540,
                   help="of all of it; each model has an equal share of what is left; what does not fit is named")
    p.add_argument("--trireme", default=os.path.join(HERE, "..", "build-gpu", "trireme"))
    p.add_argument("--device", default="cuda", help="Trireme's; without a GPU, cpu shows that this file works")
    p.add_argument("--only", choices=["trireme", "peer"])
    p.add_argument("--small", action="store_true", help="tiny models of the same kinds, to try this file")
    p.add_argument("--out", help="file for the figures as JSON")
    return p.parse_args()


def small(m):
    heads = 4 if m["family"] == "gpt2" else 8
    return dict(m, layers=2, hidden=16 * heads, heads=heads, kv_heads=min(heads, m["kv_heads"]), ffn=128, vocab=512,
                seq=64, micro=2)


def trireme_command(a, m):
    keys = {"model.family": m["family"], "model.layers": m["layers"], "model.hidden": m["hidden"],
            "model.heads": m["heads"], "model.ffn": m["ffn"], "model.vocab": m["vocab"], "model.max_seq": m["seq"],
            "model.tie_embeddings": str(m["tied"]).lower(), "data.train": "mock", "data.seq_len": m["seq"],
            "train.micro_batch": m["micro"], "train.global_batch": m["micro"], "train.steps": a.steps + 2,
            "train.precision": "bf16", "launch.ranks": 1, "launch.device": a.device}
    if m["family"] == "gpt2":
        keys.update({"model.drop_embed": 0, "model.drop_attention": 0, "model.drop_residual": 0})
    else:
        keys["model.kv_heads"] = m["kv_heads"]
    return [a.trireme, "bench", "train"] + ["--%s=%s" % pair for pair in keys.items()] + ["--json"]


def peer_command(a, m, rate):
    words = [os.environ.get("PYTHON", sys.executable), os.path.join(HERE, "peer_gpu.py"), "--steps", str(a.steps)]
    for key, value in m.items():
        if key != "tied":
            words += ["--" + key.replace("_", "-"), str(value)]
    return words + (["--tied"] if m["tied"] else []) + (["--rate"] if rate else [])


def run(command, limit_s):
    """The JSON object that the command printed last; None and a line where it failed."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             start_new_session=True)
    try:
        out, err = child.communicate(timeout=limit_s)
    except BaseException as why:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        if isinstance(why, subprocess.TimeoutExpired):
            return None, "took more than %.0f s" % limit_s
        raise
    lines = [line for line in out.splitlines() if line.startswith("{") and line.endswith("}")]
    if child.returncode != 0 or not lines:
        return None, "exit code %d: %s" % (child.returncode, (err.strip() or out.strip())[-400:])
    return json.loads(lines[-1]), None


def flops_per_token(m, parameters):
    looked_up = m["vocab"] * m["hidden"] if not m["tied"] else 0
    if m["family"] == "gpt2":
        looked_up += m["seq"] * m["hidden"]
    return 6.0 * (parameters - looked_up) + 6.0 * m["layers"] * m["hidden"] * m["seq"]


def median(rows, key):
    found = [r[key] for r in rows if r and key in r]
    return statistics.median(found) if found else None


def measure(a, name, m, end, rate):
    """Alternates the two. Returns the figures of a model and the rate of a large product."""
    rows = {"trireme": [], "peer": []}
    for number in range(a.rounds):
        for who in ["trireme", "peer"]:
            if a.only not in (None, who):
                continue
            left = end - time.monotonic()
            if left < 5:
                print("%s round %d: no time left for %s" % (name, number + 1, who))
                continue
            wants_rate = who == "peer" and rate is None
            command = trireme_command(a, m) if who == "trireme" else peer_command(a, m, wants_rate)
            found, why = run(command, left)
            if why:
                print("%s round %d: %s: %s" % (name, number + 1, who, why))
                continue
            rows[who].append(found)
            rate = found.get("matmul_flops_per_s", rate) if wants_rate else rate
            print("%s round %d: %s %.0f tokens/s, first step %.1f s" %
                  (name, number + 1, who, found["tokens_per_s"], found["first_step_s"]), flush=True)
    return rows, rate


def figures(a, name, m, rows, rate):
    ours, peers = rows["trireme"], rows["peer"]
    one = {"model": name, "tokens_per_s": median(ours, "tokens_per_s"), "peer": median(peers, "tokens_per_s")}
    parameters = (median(ours, "params") or median(peers, "parameters"))
    if one["tokens_per_s"] and one["peer"]:
        one["ratio"] = one["tokens_per_s"] / one["peer"]
    if one["tokens_per_s"] and parameters:
        done = one["tokens_per_s"] * flops_per_token(m, parameters)
        one["mfu"] = done / a.peak
        if rate:
            one["of_measured"] = done / rate
    for key in ["device_bytes_per_rank", "driver_bytes", "plan_bytes_per_rank", "first_step_s"]:
        one[key] = median(ours, key)
    one["peer_bytes"], one["peer_first_step_s"] = median(peers, "peak_bytes"), median(peers, "first_step_s")
    return one


def cell(value, form):
    return form % value if value is not None else "-"


def main():
    a = arguments()
    end, rate, table = time.monotonic() + a.limit_s, None, []
    for number, name in enumerate(a.models):
        m = small(MODELS[name]) if a.small else MODELS[name]
        now = time.monotonic()
        # A model that takes long leaves the others their share.
        rows, rate = measure(a, name, m, now + (end - now) / (len(a.models) - number), rate)
        table.append(figures(a, name, m, rows, rate))
        if a.out:
            with open(a.out, "w") as f:
                json.dump({"rate": rate, "models": table}, f, indent=1)
        print(json.dumps(table[-1]), flush=True)
    print("\n%-16s %10s %10s %6s %6s %8s %9s %10s %9s %9s" % (
        "model", "tokens/s", "peer", "ratio", "MFU", "of rate", "GiB", "driver GiB", "plan GiB", "peer GiB"))
    for t in table:
        sizes = [t.get(k) / 2**30 if t.get(k) else None
                 for k in ["device_bytes_per_rank", "driver_bytes", "plan_bytes_per_rank", "peer_bytes"]]
        print("%-16s %10s %10s %6s %6s %8s %9s %10s %9s %9s" % (
            t["model"], cell(t["tokens_per_s"], "%.0f"), cell(t["peer"], "%.0f"), cell(t.get("ratio"), "%.2f"),
            cell(t.get("mfu"), "%.3f"), cell(t.get("of_measured"), "%.3f"), *(cell(s, "%.2f") for s in sizes)))
    print("large product: %s TFLOP/s" % cell(rate / 1e12 if rate else None, "%.0f"))
    return 0 if all(t["tokens_per_s"] for t in table) or a.only == "peer" else 1


if __name__ == "__main__":
    sys.exit(main())
