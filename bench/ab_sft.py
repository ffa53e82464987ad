#!/usr/bin/env python3
"""Compares fine-tuning on conversations with TRL, or with --lora R with PEFT under TRL: the same folder, file of conversations,
packed rows and steps. The rounds alternate A B A B … in one run. Prints medians of tokens/s (a row has --seq tokens), of the
largest PSS of a rank, and their ratios.

  PYTHON=venv/bin/python bench/ab_sft.py --tokenizer FOLDER --layers 24 --seq 512 --rounds 3 [--dtype bf16] [--lora 16]

PYTHON has torch, transformers, trl and peft. The model has random weights in the shape of Qwen2 0.5B, with --layers layers;
its folder and the conversations are made below --work. FOLDER has a tokenizer with a chat template.
"""
import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
WORDS = "the a ship oar sea wind crew row bank fast slow north south harbour sail tide one two three".split()


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tokenizer", required=True)
    for name, default in (("layers", 24), ("seq", 512), ("micro", 1), ("steps", 4), ("ranks", 2), ("rounds", 3), ("lora", 0)):
        p.add_argument("--" + name, type=int, default=default)
    p.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    p.add_argument("--work", default="ab_sft_work")
    p.add_argument("--trireme", default=os.path.join(HERE, "..", "build", "trireme"))
    p.add_argument("--keys", nargs="*", default=[], help="further keys of Trireme's job, as --parallel.dp=zero3")
    p.add_argument("--only", choices=["trireme", "peer"])
    p.add_argument("--limit-s", type=int, default=900)
    return p.parse_args()


def make_folder(a):
    code = f"""
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM
torch.manual_seed(0)
c = Qwen2Config(vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers={a.layers}, num_attention_heads=14,
                num_key_value_heads=2, max_position_embeddings=32768, rope_theta=1e6, tie_word_embeddings=True)
Qwen2ForCausalLM(c).save_pretrained({os.path.join(a.work, "model")!r})
"""
    subprocess.run([os.environ.get("PYTHON", sys.executable), "-c", code], check=True)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "special_tokens_map.json"):
        if os.path.exists(os.path.join(a.tokenizer, name)):
            shutil.copy(os.path.join(a.tokenizer, name), os.path.join(a.work, "model"))


def make_conversations(a):
    r = random.Random(0)
    said = lambda n: " ".join(r.choice(WORDS) for _ in range(n))
    with open(os.path.join(a.work, "chat.jsonl"), "w") as f:
        for _ in range(1200):
            turns = r.choice([1, 1, 2, 3])
            messages = [{"role": role, "content": said(r.randint(8, 120))} for _ in range(turns) for role in ("user", "assistant")]
            f.write(json.dumps({"messages": messages}) + "\n")


def trireme_command(a):
    out = os.path.join(a.work, "run")
    shutil.rmtree(out, ignore_errors=True)
    keys = {"model.path": os.path.join(a.work, "model"), "data.train": os.path.join(a.work, "chat.jsonl"), "data.seq_len": a.seq,
            "data.train_on": "all", "data.truncate": "keep_start", "train.steps": a.steps, "train.micro_batch": a.micro, "train.global_batch": a.micro * a.ranks,
            "train.precision": a.dtype, "train.save_every": 0, "train.out": out, "optimizer.lr": 1e-5, "launch.ranks": a.ranks,
            "launch.threads_per_rank": max(1, os.cpu_count() // a.ranks), "checks.replicas_every": 0}
    if a.lora:
        keys.update({"lora.rank": a.lora, "lora.alpha": 2 * a.lora, "lora.target_modules": "all-linear"})
    return [a.trireme, "train"] + [f"--{k}={v}" for k, v in keys.items()] + a.keys + ["--quiet"]


def descendants(pid):
    parents = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as f:
                parents.setdefault(int(f.read().rsplit(")", 1)[1].split()[1]), []).append(int(entry))
        except OSError:
            pass
    found = [pid]
    for process in found:
        found += parents.get(process, [])
    return found


def largest_pss(pid):
    """The largest PSS of the process and those that it started: a page that n processes share counts 1/n in each."""
    most = 0
    for process in descendants(pid):
        try:
            with open(f"/proc/{process}/smaps_rollup") as f:
                most = max([most] + [int(line.split()[1]) * 1024 for line in f if line.startswith("Pss:")])
        except OSError:
            pass
    return most


def watch(command, a, **options):
    """Runs the command. Returns the largest PSS that a process of it had, looking once a second."""
    child = subprocess.Popen(command, start_new_session=True, **options)
    most, end = 0, time.monotonic() + a.limit_s
    while True:
        try:
            child.wait(1)
            break
        except subprocess.TimeoutExpired:
            most = max(most, largest_pss(child.pid))
        if time.monotonic() > end:
            os.killpg(child.pid, signal.SIGKILL)
            raise SystemExit(f"no end within {a.limit_s} s: {' '.join(command)}")
    if child.returncode:
        raise SystemExit(f"{' '.join(command)}\nended with {child.returncode}")
    return most


def run_trireme(a):
    peak = watch(trireme_command(a), a)
    with open(os.path.join(a.work, "run", "log.jsonl")) as f:
        events = [json.loads(line) for line in f]
    steps = [e for e in events if e["event"] == "step"]
    planned = next(e for e in events if e["event"] == "start")["plan_bytes_per_rank"]
    return {"seconds": [s["seconds"] for s in steps], "losses": [s["loss"] for s in steps], "peak_bytes": peak, "plan_bytes": planned}


def run_peer(a):
    threads = max(1, os.cpu_count() // a.ranks)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(a.ranks)] if a.ranks > 1 else []
    command = [os.environ.get("PYTHON", sys.executable)] + launcher + [
        os.path.join(HERE, "peer_sft.py"), "--model", os.path.join(a.work, "model"), "--data", os.path.join(a.work, "chat.jsonl"),
        "--seq", str(a.seq), "--micro", str(a.micro), "--steps", str(a.steps), "--threads", str(threads), "--dtype", a.dtype,
        "--lora", str(a.lora)]
    with open(os.path.join(a.work, "peer.log"), "w+") as log:
        peak = watch(command, a, stdout=log, stderr=subprocess.STDOUT, env=dict(os.environ, OMP_NUM_THREADS=str(threads)))
        log.seek(0)
        return dict(json.loads([line for line in log if line.startswith('{"seconds"')][-1]), peak_bytes=peak)


def main():
    a = arguments()
    os.makedirs(a.work, exist_ok=True)
    if not os.path.exists(os.path.join(a.work, "model", "config.json")):
        make_folder(a)
    make_conversations(a)
    sides = {"trireme": run_trireme, "peer": run_peer}
    sides = {k: v for k, v in sides.items() if a.only in (None, k)}
    results = {k: [] for k in sides}
    for i in range(a.rounds):
        for name, run in sides.items():
            r = run(a)
            r["tokens_per_s"] = a.micro * a.ranks * a.seq / statistics.median(r["seconds"][1:])
            results[name].append(r)
            print(f"round {i + 1}: {name:8} {r['tokens_per_s']:8.1f} tokens/s  {r['peak_bytes'] / 1e9:6.2f} GB a rank  "
                  f"losses {' '.join('%.5f' % x for x in r['losses'])}"
                  + (f"  plan {r['plan_bytes'] / 1e9:.2f} GB" if "plan_bytes" in r else ""), flush=True)
    if len(sides) == 2:
        middle = {k: {f: statistics.median(r[f] for r in v) for f in ("tokens_per_s", "peak_bytes")} for k, v in results.items()}
        print("ratio: %.2fx tokens/s, %.2fx memory" % (middle["trireme"]["tokens_per_s"] / middle["peer"]["tokens_per_s"],
                                                         middle["trireme"]["peak_bytes"] / middle["peer"]["peak_bytes"]))


if __name__ == "__main__":
    main()
