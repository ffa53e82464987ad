#!/usr/bin/env python3
"""How far predicted steps are from measured ones, on this machine:
  plan_errors.py BUILD calibrate   writes the machine files that the predictions read
  plan_errors.py BUILD errors      every strategy, size, precision and number of hosts: predicted, then measured
  plan_errors.py BUILD overlap     backward passes beside all-reduces, between two hosts: predicted and measured
  plan_errors.py BUILD breakdown   where the time of a step goes: by kind of instruction, and between instructions
A row of errors is one job, as --only, --sizes, --precision and --hosts choose; the rows of a group share a kind of strategy.
BUILD is the folder of a build. Two hosts are two network namespaces with one rank each (two_hosts.py). The rounds measure
every row once, so that other load affects all alike; rounds that do not fit into --minutes are left out.
"""
import argparse
import collections
import json
import math
import os
import re
import shutil
import statistics
import sys
import tempfile
import time

from two_hosts import HOSTS, Failed

# Model, tokens of a sequence, measured steps, seconds of a step where it cannot be predicted. A step has BATCH sequences.
SIZES = {
    "0.5M": ({"layers": 4, "hidden": 96, "heads": 4, "vocab": 256}, 64, 40, 0.02),
    "12M": ({"layers": 6, "hidden": 384, "heads": 6, "vocab": 4096}, 128, 12, 1),
    "124M": ({"layers": 12, "hidden": 768, "heads": 12, "vocab": 50257}, 64, 4, 5),
}
BATCH, WARM_UP, START_S, LIMIT_S = 8, 2, 2, 300
BUCKETS = ["1Mi", "4Mi", "25Mi"]

# Name, group of rows, data-parallel ranks, micro-batches, keys below parallel.
STRATEGIES = [
    ("ddp", "data", 2, 1, {}),
    ("zero1", "data", 2, 1, {"dp": "zero1"}),
    ("zero2", "data", 2, 1, {"dp": "zero2"}),
    ("zero3", "data", 2, 1, {"dp": "zero3"}),
    ("tp", "tensor", 1, 2, {"tp": 2}),
    ("tp-sp", "tensor", 1, 2, {"tp": 2, "sequence_parallel": "true"}),
    ("cp", "tensor", 1, 2, {"cp": 2}),
    ("gpipe", "pipeline", 1, 4, {"pp": 2, "pp_schedule": "gpipe"}),
    ("1f1b", "pipeline", 1, 4, {"pp": 2, "pp_schedule": "1f1b"}),
    ("interleaved", "pipeline", 1, 4, {"pp": 2, "pp_schedule": "interleaved", "virtual_stages": 2}),
    ("zb", "pipeline", 1, 4, {"pp": 2, "pp_schedule": "zb"}),
    ("selective", "memory", 2, 1, {"recompute": "selective"}),
    ("full", "memory", 2, 1, {"recompute": "full"}),
    ("file", "memory", 2, 1, {"dp": "zero3", "offload.optimizer": "file", "offload.path": "files"}),
    ("ddp-micros", "micros", 2, 4, {}),
    ("zero3-micros", "micros", 2, 4, {"dp": "zero3"}),
    ("bf16-hook", "hooks", 2, 1, {"hook.name": "bf16"}),
    ("powersgd", "hooks", 2, 1, {"hook.name": "powersgd", "hook.rank": 4, "hook.start_step": WARM_UP}),
]

Row = collections.namedtuple("Row", "size precision hosts strategy group data_ranks micros keys")


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build")
    p.add_argument("mode", choices=sorted(MODES))
    for name, valid, default in (("sizes", SIZES, "12M,124M"), ("precision", ["fp32", "bf16"], "fp32,bf16"),
                                 ("hosts", HOSTS, "one,two"), ("only", [s[0] for s in STRATEGIES], None)):
        p.add_argument("--" + name, type=words_of(valid), default=words_of(valid)(default) if default else list(valid),
                       metavar="LIST", help="of " + ", ".join(valid))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--minutes", type=float, default=60, help="after which no run begins")
    p.add_argument("--threads", type=int, default=max(1, (os.cpu_count() or 1) // 2), help="of a rank")
    p.add_argument("--seconds", type=float, default=60, help="of calibrate, for one number of hosts")
    p.add_argument("--fastest", type=int, default=100, help="breakdown: percent of the steps, the fastest ones")
    p.add_argument("--machines", help="folder of the machine files; default BUILD")
    p.add_argument("--json", metavar="FILE", help="writes every measured and predicted number")
    a = p.parse_args()
    a.trireme = os.path.abspath(os.path.join(a.build, "trireme"))
    a.machines = os.path.abspath(a.machines or a.build)
    a.json = os.path.abspath(a.json) if a.json else None
    if not os.access(a.trireme, os.X_OK):
        sys.exit("%s: there is no program" % a.trireme)
    return a


def words_of(valid):
    def convert(text):
        words = text.split(",")
        if set(words) - set(valid):
            raise argparse.ArgumentTypeError("found %s; valid: %s" % (text, ", ".join(valid)))
        return words
    return convert


def machine_file(a, hosts):
    return os.path.join(a.machines, "machine-%s.json" % hosts)


# ---- Jobs

def flags_of(a, row, steps, more=()):
    model, seq, _, _ = SIZES[row.size]
    keys = {"model.family": "gpt2", "model.max_seq": seq, "data.seq_len": seq, "data.train": "mock",
            "train.global_batch": BATCH, "train.micro_batch": BATCH // row.data_ranks // row.micros, "train.steps": steps,
            "train.precision": row.precision, "lr_schedule.name": "constant", "launch.threads_per_rank": a.threads}
    keys.update({"model." + key: value for key, value in model.items()})
    keys.update({"model.drop_" + where: 0 for where in ("embed", "attention", "residual")})
    keys.update({"parallel." + key: value for key, value in row.keys})
    keys.update(HOSTS[row.hosts].launch)
    keys.update(more)
    return ["--%s=%s" % item for item in keys.items()]


def predict(a, host, row, steps, more=()):
    """What `explain --time` prints, or None and why."""
    machine = machine_file(a, row.hosts)
    if not os.path.exists(machine):
        return None, "no %s: run calibrate" % machine
    try:
        words = [a.trireme, "explain", "job.yaml", "--time", "--machine", machine, "--json"]
        return json.loads(host.plan(words + flags_of(a, row, steps, more), 60)), None
    except (Failed, ValueError) as why:
        return None, str(why)


def measure(a, host, row, steps, limit_s):
    words = [a.trireme, "bench", "train", "job.yaml", "--json"] + flags_of(a, row, steps)
    return json.loads(host.run(words, limit_s).strip().splitlines()[-1])["step_ms_median"]


def rows_of(a):
    return [Row(size, precision, hosts, *s[:-1], tuple(s[-1].items())) for size in a.sizes for precision in a.precision for hosts in a.hosts
            for s in STRATEGIES if s[0] in a.only]


# ---- Numbers

def percentile_90(values):
    return sorted(values)[math.ceil(0.9 * len(values)) - 1]


def spread(values):
    """Of repeats: from the least to the largest, in percent of the median."""
    return 100 * (max(values) - min(values)) / statistics.median(values) if len(values) > 1 else None


def cell(value, form="%.2f"):
    return "-" if value is None else form % value


def show_summary(found):
    """found: (row, error %, spread %) of each row that was predicted and measured."""
    print("\n| rows | number | median error % | 90th percentile % | median spread % |\n| --- | ---: | ---: | ---: | ---: |")
    groups = {"all": found}
    for field in ("size", "precision", "hosts", "group"):
        for one in found:
            groups.setdefault("%s %s" % (field, getattr(one[0], field)), []).append(one)
    for name, rows in groups.items():
        if not rows:
            continue
        off, spreads = [abs(error) for _, error, _ in rows], [s for _, _, s in rows if s is not None]
        print("| %s | %d | %.2f | %.2f | %s |" % (name, len(rows), statistics.median(off), percentile_90(off),
                                                  cell(statistics.median(spreads) if spreads else None)))


# ---- The modes

def calibrate(a, hosts):
    for name, host in hosts.items():
        where = ["--comm", "tls"] if name == "two" else ["--ranks", "2"]
        began = time.time()
        print(host.run([a.trireme, "bench", "calibrate", "--threads", str(a.threads), "--precision", "fp32,bf16",
                        "--seconds", str(a.seconds), "--path", ".", "--out", machine_file(a, name)] + where,
                       LIMIT_S + 4 * a.seconds).strip())
        print("calibrated %s in %.0f s" % (name, time.time() - began), flush=True)


def predict_rows(a, hosts, rows):
    told, why_not = {}, collections.Counter()
    for row in rows:
        j, why = predict(a, hosts[row.hosts], row, SIZES[row.size][2] + WARM_UP)
        told[row] = j["step_ms_predicted"] if j else None
        why_not.update([why] if why else [])
    for why, count in why_not.items():
        print("%d rows are not predicted: %s" % (count, why), flush=True)
    return told


def measure_rows(a, hosts, rows, told):
    """Milliseconds of each row in each round."""
    def seconds_of(row):
        _, _, steps, guess = SIZES[row.size]
        return START_S + (steps + WARM_UP) * (told[row] * 1e-3 if told[row] else guess)
    measured, refused, began = {row: [] for row in rows}, {}, time.time()
    print("%d runs, about %.0f minutes; none begins after %g minutes"
          % (a.rounds * len(rows), a.rounds * sum(map(seconds_of, rows)) / 60, a.minutes), flush=True)
    for i in range(a.rounds):
        for row in rows:
            if time.time() - began > 60 * a.minutes or row in refused:
                continue
            try:
                ms = measure(a, hosts[row.hosts], row, SIZES[row.size][2] + WARM_UP, LIMIT_S + 10 * seconds_of(row))
                measured[row].append(ms)
                print("round %d  %-5s %-4s %-3s %-12s %10.2f ms" % (i + 1, *row[:4], ms), file=sys.stderr, flush=True)
            except (Failed, ValueError, KeyError) as why:
                refused[row] = str(why)
    for row, why in refused.items():
        print("not measured: %s %s %s %s: %s" % (*row[:4], why))
    return measured


def errors(a, hosts):
    rows = rows_of(a)
    told = predict_rows(a, hosts, rows)
    measured = measure_rows(a, hosts, rows, told)
    found, kept = [], []
    print("\n| size | precision | hosts | strategy | predicted ms | measured ms | spread % | error % |")
    print("| --- | --- | --- | --- | ---: | ---: | ---: | ---: |")
    for row in rows:
        real = statistics.median(measured[row]) if measured[row] else None
        error = 100 * (told[row] - real) / real if told[row] and real else None
        between = spread(measured[row]) if real else None
        print("| %s | %s | %s | %s | %s | %s | %s | %s |" % (*row[:4], cell(told[row]), cell(real), cell(between),
                                                             cell(error, "%+.2f")))
        kept.append(dict(row._asdict(), predicted_ms=told[row], measured_ms=measured[row]))
        if error is not None:
            found.append((row, error, between))
    show_summary(found)
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump(kept, f, indent=1)


# ---- Steps in parts

Span = collections.namedtuple("Span", "name begin end waited")
Step = collections.namedtuple("Step", "begin end spans")


def traced_steps(a, host, row, more=()):
    """Trains, and returns the steps of each rank, in ms."""
    steps = SIZES[row.size][2] + WARM_UP
    words = [a.trireme, "train", "job.yaml", "--quiet", "--overwrite", "--train.out=out", "--train.save_every=0"]
    shutil.rmtree("kineto", ignore_errors=True)
    host.run(words + flags_of(a, row, steps, more), LIMIT_S + 10 * steps * SIZES[row.size][3])
    host.plan([a.trireme, "trace", "out", "--steps", str(steps - WARM_UP), "--format", "kineto", "--out", "kineto"], 60)
    return [read_rank(os.path.join("kineto", name)) for name in sorted(os.listdir("kineto"))]


def name_of(event):
    """Of an instruction, as FORWARD; or of a call, as all_reduce over dp."""
    call = event["args"].get("Collective name")
    words = re.sub(r"^Memcpy \w+ \((.*)\)$", r"\1", event["name"])
    return "%s over %s" % (call, event["args"].get("Process Group Name")) if call else words.split()[0].rstrip(":")


def read_rank(path):
    with open(path, encoding="utf-8") as f:
        events = [e for e in json.load(f)["traceEvents"] if e.get("ph") == "X"]
    frames = [e for e in events if e["name"].startswith("ProfilerStep#")]
    spans = sorted((Span(name_of(e), 1e-3 * e["ts"], 1e-3 * (e["ts"] + e["dur"]), 1e-6 * e["args"].get("waited_ns", 0))
                    for e in events if e["cat"] in ("kernel", "gpu_memcpy")), key=lambda x: x.begin)
    return [Step(1e-3 * f["ts"], 1e-3 * (f["ts"] + f["dur"]),
                 [x for x in spans if f["ts"] <= 1e3 * x.begin < f["ts"] + f["dur"]]) for f in frames]


def parts_of(step):
    """Number, ms and ms of waits of each part of a step. Calls within a pass count there, too; gaps are outside of all."""
    parts = collections.defaultdict(lambda: [0, 0, 0])
    until = step.begin

    def add(name, ms, waited=0):
        parts[name] = [x + y for x, y in zip(parts[name], (1, ms, waited))]
    for x in step.spans:
        add(x.name, x.end - x.begin, x.waited)
        if x.begin > until:
            add("gap before " + x.name, x.begin - until)
        until = max(until, x.end)
    add("gap at the end", max(0, step.end - until))
    return parts


def breakdown(a, hosts):
    for row in rows_of(a):
        ranks = traced_steps(a, hosts[row.hosts], row)
        steps = sorted((s for steps in ranks for s in steps), key=lambda s: s.end - s.begin)
        steps = steps[:max(1, len(steps) * a.fastest // 100)]
        whole = statistics.mean(s.end - s.begin for s in steps)
        sums = collections.defaultdict(lambda: [0, 0, 0])
        for s in steps:
            for name, part in parts_of(s).items():
                sums[name] = [x + y / len(steps) for x, y in zip(sums[name], part)]
        between = [b.begin - e.end for steps_of in ranks for e, b in zip(steps_of, steps_of[1:])]
        print("\n%s %s %s %s: %.3f ms a step, mean of the fastest %d steps; between two steps %.3f ms (median)\n"
              % (*row[:4], whole, len(steps), statistics.median(between)))
        print("| part | number | ms | % | waits ms |\n| --- | ---: | ---: | ---: | ---: |")
        for name, (number, ms, waited) in sorted(sums.items(), key=lambda item: -item[1][1]):
            print("| %s | %.1f | %.4f | %.2f | %.4f |" % (name, number, ms, 100 * ms / whole, waited), flush=True)
        gaps = sum(ms for name, (_, ms, _) in sums.items() if name.startswith("gap"))
        print("| all gaps | | %.4f | %.2f | |" % (gaps, 100 * gaps / whole), flush=True)


# ---- Overlap

def stretch(spans):
    """From the begin of the first backward pass until the last one and the last reduction have ended, in ms."""
    mine = [x for x in spans if x.name == "BACKWARD" or x.name.startswith("REDUCE_GRAD") or
            (x.name.startswith("all_reduce") and not x.name.endswith("over world"))]
    first = min(x.begin for x in mine if x.name == "BACKWARD")
    return max(x.end for x in mine) - first


def backward_of(step):
    return sum(x.end - x.begin for x in step.spans if x.name == "BACKWARD")


def told_stretch(j):
    return stretch([Span(words.split()[0].rstrip(":"), t["begin_ms"], t["begin_ms"] + t["ms"], 0)
                    for words, t in zip(j["schedule"], j["times"])])


def overlap(a, hosts):
    if "two" not in hosts:
        sys.exit("overlap: valid with --hosts two")
    found, missing, alone = [], collections.Counter(), HOSTS["one"]()
    print("| size | precision | bucket | predicted ms | measured ms | spread % | error % | backward alone ms | beside ms |")
    print("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for size in a.sizes:
        for precision in a.precision:
            for bucket in BUCKETS:
                row = Row(size, precision, "two", "ddp", bucket, 2, 1, (("bucket_bytes", bucket),))
                one = traced_steps(a, alone, row._replace(hosts="one"),
                                   {"launch.ranks": 1, "train.global_batch": BATCH // 2})
                rounds = [traced_steps(a, hosts["two"], row) for _ in range(a.rounds)]
                real = [statistics.median(max(stretch(s.spans) for s in pair) for pair in zip(*ranks)) for ranks in rounds]
                j, why = predict(a, hosts["two"], row, SIZES[size][2] + WARM_UP)
                told = told_stretch(j) if j else None
                error = 100 * (told / statistics.median(real) - 1) if told else None
                print("| %s | %s | %s | %s | %.2f | %s | %s | %.2f | %.2f |" % (
                    size, precision, bucket, cell(told), statistics.median(real), cell(spread(real)),
                    cell(error, "%+.2f"), statistics.median(backward_of(s) for s in one[0]),
                    statistics.median(backward_of(s) for ranks in rounds for steps in ranks for s in steps)), flush=True)
                missing.update([why] if why else [])
                if error is not None:
                    found.append((row, error, spread(real)))
    for why, count in missing.items():
        print("%d rows are not predicted: %s" % (count, why))
    show_summary(found)


MODES = {"calibrate": calibrate, "errors": errors, "overlap": overlap, "breakdown": breakdown}


def main():
    a = arguments()
    here = tempfile.TemporaryDirectory(prefix="plan-errors-", dir=".")
    os.chdir(here.name)
    hosts = {}
    print("%d cores, load average %.1f at the start" % (os.cpu_count(), os.getloadavg()[0]), flush=True)
    try:
        with open("job.yaml", "w", encoding="utf-8") as f:
            f.write("train: {out: out}\n")
        for name in a.hosts:
            hosts[name] = HOSTS[name]().__enter__()
        MODES[a.mode](a, hosts)
    except Failed as why:
        sys.exit(str(why))
    finally:
        for host in hosts.values():
            host.__exit__()
        os.chdir("..")
        here.cleanup()


if __name__ == "__main__":
    main()
