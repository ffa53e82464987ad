#!/usr/bin/env python3
"""Compares Trireme with PyTorch on the same model and batch. The rounds alternate A B A B … in one run,
so that other load on the machine affects both alike. Prints each round, the medians and their ratios.

  PYTHON=venv/bin/python bench/ab_train.py --layers 12 --hidden 768 --heads 12 --vocab 50257 \\
      --seq 256 --micro 2 --ranks 2 --threads 1 --rounds 3

PYTHON has torch and transformers. --ranks 1 --threads 2 compares one process with two threads.
--dp is Trireme's policy; --peer fsdp2 takes PyTorch's FSDP2 instead of DDP, --peer trireme takes
Trireme itself under ddp.
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
FLAGS = ["avx2", "fma", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16"]
SHAPE = ["layers", "hidden", "heads", "vocab", "seq", "micro", "steps", "ranks", "threads", "dtype"]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in zip(SHAPE, [12, 768, 12, 50257, 256, 2, 10, 2, 1]):
        p.add_argument("--" + name, type=int, default=default)
    p.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    p.add_argument("--dp", default="ddp", help="parallel.dp of Trireme")
    p.add_argument("--peer", choices=["ddp", "fsdp2", "trireme"], default="ddp")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--limit-s", type=int, default=600, help="of one command")
    p.add_argument("--trireme", default=os.path.join(HERE, "..", "build", "trireme"))
    p.add_argument("--only", choices=["trireme", "peer"])
    p.add_argument("--json", action="store_true")
    return p.parse_args()


def shape_flags(a):
    return [word for name in SHAPE for word in ("--" + name, str(getattr(a, name)))]


def trireme_command(a, dp):
    """The same GPT-2 without dropout, in the job file's own keys."""
    keys = {"model.family": "gpt2", "model.layers": a.layers, "model.hidden": a.hidden, "model.heads": a.heads,
            "model.vocab": a.vocab, "model.max_seq": a.seq, "model.drop_embed": 0, "model.drop_attention": 0,
            "model.drop_residual": 0, "data.seq_len": a.seq, "train.micro_batch": a.micro,
            "train.global_batch": a.micro * a.ranks, "train.steps": a.steps, "train.precision": a.dtype,
            "parallel.dp": dp, "launch.ranks": a.ranks, "launch.threads_per_rank": a.threads}
    return [a.trireme, "bench", "train"] + [f"--{key}={value}" for key, value in keys.items()] + ["--json"]


def peer_command(a):
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(a.ranks)] if a.ranks > 1 else []
    if a.peer == "trireme":
        return trireme_command(a, "ddp")
    script = [os.path.join(HERE, "peer_ddp.py"), "--strategy", a.peer]
    return [os.environ.get("PYTHON", sys.executable)] + launcher + script + shape_flags(a)


def run(command, a):
    """The JSON object that the command printed last. Its whole process group ends with it."""
    env = dict(os.environ, OMP_NUM_THREADS=str(a.threads))
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
                             start_new_session=True)
    try:
        out, err = child.communicate(timeout=a.limit_s)
    except BaseException:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        raise
    if child.returncode != 0:
        raise SystemExit("%s\nexit code %d\n%s" % (" ".join(command), child.returncode, err[-2000:]))
    start = out.find("{")
    if start < 0:
        raise SystemExit("%s\nprinted no JSON object:\n%s" % (" ".join(command), out[-2000:]))
    lines = [line for line in out.splitlines() if line.startswith("{") and line.endswith("}")]
    return json.loads(lines[-1] if lines else out[start:])


def memory_of(result):
    for key in ("peak_bytes_per_rank", "pss_peak_bytes_per_rank"):
        if key in result:
            return result[key]
    raise SystemExit("no memory figure in %s" % result)


def cpu():
    with open("/proc/cpuinfo") as f:
        text = f.read()
    field = lambda key: next((l.split(":", 1)[1].strip() for l in text.splitlines() if l.startswith(key)), "?")
    have = set(field("flags").split())
    return "%s, %d cores: %s" % (field("model name"), os.cpu_count(), " ".join(f for f in FLAGS if f in have))


def median(results, key):
    values = [r[key] for r in results if r.get(key) is not None]
    return statistics.median(values) if values else None


def summary(sides):
    out = {"cpu": cpu()}
    for name, results in sides.items():
        out[name] = {key: median(results, key) for key in results[0] if isinstance(results[0][key], (int, float))}
        out[name]["memory"] = statistics.median(memory_of(r) for r in results)
    if len(sides) == 2:
        t, p = out["trireme"], out["peer"]
        pairs = zip(sides["trireme"], sides["peer"])
        out["ratio"] = {
            "tokens_per_s": t["tokens_per_s"] / p["tokens_per_s"],
            "tokens_per_s_of_rounds": [x["tokens_per_s"] / y["tokens_per_s"] for x, y in pairs],
            "memory": t["memory"] / p["memory"],
            "first_step_s": t["first_step_s"] / p["first_step_s"],
        }
    return out


def show(out):
    print(out["cpu"])
    for name in ("trireme", "peer"):
        if name in out:
            r = out[name]
            extra = "  %.0f %% of matmul rate" % (100 * r["matmul_share"]) if r.get("matmul_share") else ""
            extra += "  plan %.3f GB" % (r["plan_bytes_per_rank"] / 1e9) if r.get("plan_bytes_per_rank") else ""
            print("%-8s %10.1f tokens/s  %9.2f ms/step  %7.3f GB/rank  first step %.2f s%s"
                  % (name, r["tokens_per_s"], r["step_ms_median"], r["memory"] / 1e9, r["first_step_s"], extra))
    if "ratio" in out:
        r = out["ratio"]
        print("ratio    %10.2fx tokens/s (rounds %s)  %.2fx memory  %.3fx first step"
              % (r["tokens_per_s"], " ".join("%.2f" % v for v in r["tokens_per_s_of_rounds"]), r["memory"], r["first_step_s"]))


def main():
    a = arguments()
    commands = {"trireme": trireme_command(a, a.dp), "peer": peer_command(a)}
    if a.only:
        commands = {a.only: commands[a.only]}
    sides = {name: [] for name in commands}
    for i in range(a.rounds):
        for name, command in commands.items():
            result = run(command, a)
            sides[name].append(result)
            print("round %d  %-8s %10.1f tokens/s" % (i + 1, name, result["tokens_per_s"]), file=sys.stderr, flush=True)
    out = summary(sides)
    print(json.dumps(out, indent=1)) if a.json else show(out)


if __name__ == "__main__":
    main()
