#!/usr/bin/env python3
"""Slows one rank down in a known way and looks whether the run names it: the right rank, the right cause, how soon.

    python3 bench/stragglers.py build/trireme [--causes stop,core,quota] [--percent 5,10,30] [--dp ddp,zero3,tp,pp]
                                [--repeat N] [--steps N] [--out FILE.jsonl]
    python3 bench/stragglers.py build/trireme --quiet-steps 100000     # no fault at all: counts what is named

Two ranks on two cores, each bound to one. After 60 steps one of them, by turns, is slowed down until the end:
    stop    SIGSTOP for that share of each 20 ms
    core    another program computes on its core for part of the time
    quota   its control group limits its share of a core (cgroup v1 or v2; needs root)
A run counts as right where the verdict in report.json has the class COMPUTE STRAGGLER and the rank. Prints a line a
run, then shares by cause, percent and strategy, and the steps until log.jsonl first names the rank."""
import argparse, json, os, signal, struct, subprocess, sys, tempfile, time

STRATEGIES = {"ddp": [], "zero3": ["--parallel.dp", "zero3"], "tp": ["--parallel.tp", "2"], "pp": ["--parallel.pp", "2"]}
PID_AT = 88  # of spans_head in src/base/spans.h
FAULT_STEP = 60


def last_step(out):
    try:
        lines = open(f"{out}/log.jsonl").read().split("\n")
    except OSError:
        return 0
    steps = [json.loads(x)["step"] for x in lines[:-1] if '"event":"step"' in x]
    return steps[-1] if steps else 0


def pid_of(out, rank):
    with open(f"{out}/spans/rank-{rank:05d}.spans", "rb") as f:
        f.seek(PID_AT)
        return struct.unpack("<q", f.read(8))[0]


def stop_pulses(pid, share, run):
    try:
        while run.poll() is None:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.02 * share)
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.02 * (1 - share))
    except ProcessLookupError:  # the rank has ended
        pass


def spin(core, share):
    """A program that wants `share` of a core, and gets half of what it wants."""
    code = f"""
import os, time
os.sched_setaffinity(0, {{{core}}})
while os.getppid() != 1:
    end = time.perf_counter() + 0.02 * {share}
    while time.perf_counter() < end: pass
    time.sleep(0.02 * (1 - {share}))
"""
    return subprocess.Popen([sys.executable, "-c", code])


def quota_group(pid, share):
    period = 20000
    if os.path.isdir("/sys/fs/cgroup/cpu"):
        group = f"/sys/fs/cgroup/cpu/trireme-stragglers-{os.getpid()}"
        os.makedirs(group, exist_ok=True)
        files = {"cpu.cfs_period_us": period, "cpu.cfs_quota_us": int(period * (1 - share))}
    else:
        group = f"/sys/fs/cgroup/trireme-stragglers-{os.getpid()}"
        os.makedirs(group, exist_ok=True)
        files = {"cpu.max": f"{int(period * (1 - share))} {period}"}
    for name, value in files.items():
        open(f"{group}/{name}", "w").write(str(value))
    open(f"{group}/cgroup.procs", "w").write(str(pid))  # with all its threads
    return group


def one_run(trireme, work, strategy, cause, percent, rank, steps):
    out = f"{work}/run"
    subprocess.run(["rm", "-rf", out])
    command = [trireme, "train", "--quiet", "--model.family", "gpt2", "--model.layers", "4", "--model.hidden", "192", "--model.heads", "4",
               "--model.vocab", "512", "--data.train", "mock", "--data.seq_len", "128", "--train.micro_batch", "2", "--train.global_batch",
               "8", "--launch.ranks", "2", "--launch.threads_per_rank", "1", "--train.save_every", "0", "--train.steps", str(steps),
               "--train.out", out, *STRATEGIES[strategy]]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    other = group = None
    while run.poll() is None and last_step(out) < 2:
        time.sleep(0.05)
    pids = [pid_of(out, r) for r in (0, 1)]
    for r, pid in enumerate(pids):
        for task in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(task), {r})
    while run.poll() is None and last_step(out) < FAULT_STEP:
        time.sleep(0.05)
    began, share = last_step(out), percent / (100 + percent)
    if cause == "stop":
        stop_pulses(pids[rank], share, run)
    elif cause == "core":
        other = spin(rank, min(1, 2 * share))
    elif cause == "quota":
        group = quota_group(pids[rank], share)
    error = run.communicate()[1]
    if other:
        other.kill()
        other.wait()
    if group:
        os.rmdir(group)
    if run.returncode:
        sys.exit(f"{' '.join(command)}: exit {run.returncode}: {error}")
    report = json.load(open(f"{out}/report.json"))
    named = [json.loads(x) for x in open(f"{out}/log.jsonl") if '"event":"straggler"' in x]
    first = next((x["step"] - began for x in named if x["rank"] == rank and x["step"] > began), None)
    return {"strategy": strategy, "cause": cause, "percent": percent, "rank": rank, "verdict": report["verdict"], "named": report.get("rank"),
            "first": first, "others": sum(x["rank"] != rank for x in named), "right": report["verdict"] == "COMPUTE STRAGGLER" and report.get("rank") == rank}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("trireme")
    for name, default in (("causes", "stop,core,quota"), ("percent", "5,10,30"), ("dp", "ddp,zero3,tp,pp")):
        p.add_argument(f"--{name}", default=default)
    p.add_argument("--repeat", type=int, default=2)
    p.add_argument("--steps", type=int, default=200)
    p.add_argument("--quiet-steps", type=int, default=0)
    p.add_argument("--out")
    a = p.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as work:
        if a.quiet_steps:
            print(json.dumps(one_run(os.path.abspath(a.trireme), work, "ddp", "none", 0, 0, a.quiet_steps)))
            return
        for repeat in range(a.repeat):
            for strategy in a.dp.split(","):
                for cause in a.causes.split(","):
                    for percent in map(int, a.percent.split(",")):
                        rows.append(one_run(os.path.abspath(a.trireme), work, strategy, cause, percent, len(rows) % 2, a.steps))
                        print(json.dumps(rows[-1]), flush=True)
                        if a.out:
                            open(a.out, "a").write(json.dumps(rows[-1]) + "\n")
    for key in ("strategy", "cause", "percent"):
        for value in dict.fromkeys(r[key] for r in rows):
            mine = [r for r in rows if r[key] == value]
            first = sorted(r["first"] for r in mine if r["first"] is not None)
            print(f"{key} {value}: {sum(r['right'] for r in mine)} of {len(mine)} right; named in {len(first)}"
                  + (f", first after {first[len(first) // 2]} steps (median), {first[-1]} (most)" if first else ""))


main()
