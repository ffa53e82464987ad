#!/usr/bin/env python3
"""Measures every parallel strategy on one model and one global batch. The rounds alternate A B C … A B C …
in one run, so that other load affects all alike. Prints a markdown table: tokens/s (median of the rounds),
the ratio to ddp in the same round (median of the rounds' ratios), bytes of a rank as planned and as
measured (rank 0; shared pages divided).

  bench/strategies.py --ranks 2 --rounds 5
  bench/strategies.py --ranks 4 --only ddp,zero3,hsdp --steps 5

Data parallelism takes its share of the batch in one micro-batch, pipelines in --micros. Files of the
offloaded optimizer lie under --folder while it runs.
"""
import argparse
import json
import os
import statistics
import sys
import tempfile

from ab_train import HERE, cpu, median, run

# Name, ranks that it needs a multiple of, keys. "micros" and "path" are filled in.
STRATEGIES = [
    ("ddp", 1, {}),
    ("zero1", 1, {"parallel.dp": "zero1"}),
    ("zero2", 1, {"parallel.dp": "zero2"}),
    ("zero3", 1, {"parallel.dp": "zero3"}),
    ("zero3, weights kept for backward", 1, {"parallel.dp": "zero3", "parallel.reshard_after_forward": "false"}),
    ("hsdp", 4, {"parallel.dp": "zero3", "parallel.dp_replicate": 2}),
    ("zero3, optimizer on file", 1,
     {"parallel.dp": "zero3", "parallel.offload.optimizer": "file", "parallel.offload.path": "path"}),
    ("tp 2", 2, {"parallel.tp": 2}),
    ("tp 2, sequence parallel", 2, {"parallel.tp": 2, "parallel.sequence_parallel": "true"}),
    ("pp 2, gpipe", 2, {"parallel.pp": 2, "parallel.pp_schedule": "gpipe"}),
    ("pp 2, 1f1b", 2, {"parallel.pp": 2}),
    ("pp 2, interleaved", 2,
     {"parallel.pp": 2, "parallel.pp_schedule": "interleaved", "parallel.virtual_stages": 2}),
    ("pp 2, zb", 2, {"parallel.pp": 2, "parallel.pp_schedule": "zb"}),
    ("pp 2 x tp 2", 4, {"parallel.pp": 2, "parallel.tp": 2}),
    ("ddp, recompute selective", 1, {"parallel.recompute": "selective"}),
    ("ddp, recompute full", 1, {"parallel.recompute": "full"}),
    ("ddp, bf16", 1, {"train.precision": "bf16"}),
    ("ddp, fp16", 1, {"train.precision": "fp16"}),
]
BASE = "ddp"


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("layers", 6), ("hidden", 384), ("heads", 6), ("vocab", 4096), ("seq", 256), ("ranks", 2),
                          ("steps", 10), ("rounds", 3)):
        p.add_argument("--" + name, type=int, default=default)
    p.add_argument("--batch", type=int, default=4, help="sequences of a step, per rank")
    p.add_argument("--micros", type=int, default=8, help="micro-batches of a pipeline's step")
    p.add_argument("--threads", type=int, help="of a rank; default cores over ranks")
    p.add_argument("--only", help="names of strategies, separated by ';' or ',' (%s is always run)" % BASE)
    p.add_argument("--folder", default=".", help="for the files of offloaded state")
    p.add_argument("--limit-s", type=int, default=600, help="of one command")
    p.add_argument("--trireme", default=os.path.join(HERE, "..", "build", "trireme"))
    p.add_argument("--json", action="store_true")
    a = p.parse_args()
    a.threads = a.threads or max(1, (os.cpu_count() or 1) // a.ranks)
    return a


def chosen(a):
    """The strategies that this number of ranks has, or of these the ones that were named."""
    known = {name for name, _, _ in STRATEGIES}
    wanted = None
    if a.only:
        # A name may have a comma itself.
        wanted = {a.only} if a.only in known else {w.strip() for w in a.only.split(";" if ";" in a.only else ",")}
        if wanted - known:
            raise SystemExit("--only: unknown: %s\nvalid: %s" % (", ".join(wanted - known), "; ".join(sorted(known))))
        wanted.add(BASE)
    return [(name, keys) for name, needs, keys in STRATEGIES
            if a.ranks % needs == 0 and (wanted is None or name in wanted)]


def command(a, keys, folder):
    sequences = a.batch * a.ranks
    stages = keys.get("parallel.pp", 1)
    data_ranks = a.ranks // stages // keys.get("parallel.tp", 1)
    micros = a.micros if stages > 1 else 1
    if sequences % (data_ranks * micros):
        raise SystemExit("--batch %d x --ranks %d = %d sequences do not divide into %d micro-batches on each of %d "
                         "data-parallel ranks" % (a.batch, a.ranks, sequences, micros, data_ranks))
    every = {"model.family": "gpt2", "model.layers": a.layers, "model.hidden": a.hidden, "model.heads": a.heads,
             "model.vocab": a.vocab, "model.max_seq": a.seq, "model.drop_embed": 0, "model.drop_attention": 0,
             "model.drop_residual": 0, "data.seq_len": a.seq, "train.global_batch": sequences,
             "train.micro_batch": sequences // data_ranks // micros, "train.steps": a.steps,
             "launch.ranks": a.ranks, "launch.threads_per_rank": a.threads}
    own = {key: folder if value == "path" else value for key, value in keys.items()}
    return [a.trireme, "bench", "train"] + [f"--{k}={v}" for k, v in {**every, **own}.items()] + ["--json"]


def measure(a, strategies):
    results = {name: [] for name, _ in strategies}
    with tempfile.TemporaryDirectory(dir=a.folder, prefix="strategies-") as folder:
        for i in range(a.rounds):
            for name, keys in strategies:
                r = run(command(a, keys, os.path.abspath(folder)), a)
                r["ratio"] = r["tokens_per_s"] / (r if name == BASE else results[BASE][i])["tokens_per_s"]
                results[name].append(r)
                print("round %d  %-34s %10.1f tokens/s" % (i + 1, name, r["tokens_per_s"]), file=sys.stderr, flush=True)
    return results


def words(keys):
    """As on the command line, short: dp zero3, offload.optimizer file."""
    return ", ".join("%s %s" % (k.split(".", 1)[1], "DIR" if v == "path" and k.endswith("path") else v)
                     for k, v in keys.items() if not k.endswith("offload.path"))


def spread(results):
    values = [r["ratio"] for r in results]
    return "%.2f – %.2f" % (min(values), max(values))


def show(a, strategies, results):
    first = results[BASE][0]
    print("%s\n" % cpu())
    print("GPT-2 of %.1f M parameters (%d x %d, vocabulary %d), sequences of %d, %d of them a step; %d ranks of %d thread%s; "
          "%d step%s after 2, %d round%s.\n"
          % (first["params"] / 1e6, a.layers, a.hidden, a.vocab, a.seq, a.batch * a.ranks, a.ranks, a.threads,
             "" if a.threads == 1 else "s", a.steps - 2, "" if a.steps == 3 else "s", a.rounds, "" if a.rounds == 1 else "s"))
    print("| strategy | keys | tokens/s | of ddp | its rounds | plan, MiB a rank | measured, MiB |")
    print("| --- | --- | ---: | ---: | :---: | ---: | ---: |")
    for name, keys in strategies:
        r = results[name]
        print("| %s | %s | %.0f | %.2f | %s | %.1f | %.1f |"
              % (name, words(keys), median(r, "tokens_per_s"), statistics.median(x["ratio"] for x in r), spread(r),
                 median(r, "plan_bytes_per_rank") / 2**20, median(r, "pss_bytes_per_rank") / 2**20))


def main():
    a = arguments()
    if a.steps < 3:
        raise SystemExit("--steps %d: the first 2 are not counted; valid: 3 or more" % a.steps)
    strategies = chosen(a)
    results = measure(a, strategies)
    print(json.dumps({"cpu": cpu(), "rounds": results}, indent=1)) if a.json else show(a, strategies, results)


if __name__ == "__main__":
    main()
