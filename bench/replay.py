#!/usr/bin/env python3
"""Figures of `trireme trace report`, in a folder of its own:
  replay.py BUILD errors     every strategy: the replay of each step with its own durations, against the step
  replay.py BUILD delay      in every other step rank 1 sleeps longer; the step that the report foretells without it,
                             against the steps without it (replay_delay.c, compiled with cc)
  replay.py BUILD schedules  a pipeline's steps under another schedule, foretold and measured
BUILD is the folder of a build. Prints rows of a table, in ms.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SMALL = """model: {family: gpt2, layers: %d, hidden: %d, heads: 4, vocab: 256, max_seq: 64}
data: {seq_len: 64, train: mock}
train: {steps: %d, micro_batch: 1, global_batch: %d, out: out}
launch: {ranks: %d, threads_per_rank: 1, comm: %s}
parallel: {%s}
"""
LOCAL = ["dp: ddp", "dp: zero1", "dp: zero2", "dp: zero3", "tp: 2", "cp: 2"]
PIPES = ["gpipe", "1f1b", "zb", "interleaved"]


def pipe(schedule):
    chunks = ", virtual_stages: 2" if schedule == "interleaved" else ""
    return "pp: 2, pp_schedule: %s%s" % (schedule, chunks)


def call(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit("%s: %s" % (" ".join(words), done.stderr.strip()))
    return done.stdout


def write_job(layers, hidden, steps, batch, ranks, comm, parallel):
    with open("job.yaml", "w") as f:
        f.write(SMALL % (layers, hidden, steps, batch, ranks, comm, parallel))


def reports(trireme, out, steps, *more):
    return [json.loads(call(trireme, "trace", "report", out, "--step", str(s), "--json", *more))
            for s in range(2, steps + 1)]


def errors(trireme):
    print("| strategy | ranks | steps | measured | replayed | error % | largest % |")
    rows = [(p, "local") for p in LOCAL + [pipe(s) for s in PIPES]]
    rows += [(p, "tls") for p in ("dp: ddp", "dp: zero3", pipe("1f1b"))]
    for ranks in (2, 4):
        for parallel, comm in rows:
            write_job(4, 64, 24, 16, ranks, comm, parallel)
            call(trireme, "train", "job.yaml", "--quiet", "--overwrite")
            found = reports(trireme, "out", 24)
            off = [abs(j["error_percent"]) for j in found]
            name = parallel + (" over tls" if comm == "tls" else "")
            print("| %s | %d | %d | %.2f | %.2f | %.3f | %.3f |" % (
                name, ranks, len(found), statistics.median(1e3 * j["measured"] for j in found),
                statistics.median(1e3 * j["replayed"] for j in found), statistics.median(off), max(off)), flush=True)


def delay(trireme):
    build = os.path.dirname(trireme)
    call("cc", "-O1", "-I", os.path.join(HERE, "../include"), os.path.join(HERE, "replay_delay.c"),
         "-L", build, "-ltrireme", "-Wl,-rpath," + build, "-o", "replay_delay")
    print("| strategy | delay | with it | foretold | without it | error % | quartiles without it |")
    rows = [(p, "local") for p in LOCAL] + [(p, "tls") for p in ("dp: ddp", "dp: zero3")]
    for parallel, comm in rows:
        for ms in (20, 100):
            write_job(2, 32, 40, 8, 4, comm, parallel)
            call("rm", "-rf", "out")
            call("./replay_delay", "job.yaml", "50", "1", str(ms))
            call("cp", "job.yaml", "out/")
            found = reports(trireme, "out", 40, "--what-if", "rank=1")
            slow = [j for j in found if j["step"] % 2 == 1]
            without = [1e3 * j["measured"] for j in found if j["step"] % 2 == 0]
            told = statistics.median(1e3 * j["what_if"][-1]["seconds"] for j in slow)
            real = statistics.median(without)
            low, _, high = statistics.quantiles(without, n=4)
            print("| %s%s | %d | %.1f | %.1f | %.1f | %+.2f | %.1f to %.1f |" % (
                parallel, " over tls" if comm == "tls" else "", ms,
                statistics.median(1e3 * j["measured"] for j in slow), told, real,
                100 * (told - real) / real, low, high), flush=True)


def schedules(trireme):
    print("| recorded | other | recorded step | foretold | measured | error % |")
    steps = 24
    measured, told = {}, {}
    for _ in range(2):
        for s in PIPES:
            write_job(6, 128, steps, 8, 2, "local", pipe(s))
            call(trireme, "train", "job.yaml", "--quiet", "--overwrite")
            found = reports(trireme, "out", steps, "--what-if", *["schedule=" + o for o in PIPES])
            measured.setdefault(s, []).extend(1e3 * j["measured"] for j in found)
            for k, o in enumerate(PIPES):
                told.setdefault((s, o), []).extend(1e3 * j["what_if"][k - len(PIPES)]["seconds"] for j in found)
    for s in PIPES:
        for o in PIPES:
            real, foretold = statistics.median(measured[o]), statistics.median(told[s, o])
            print("| %s | %s | %.1f | %.1f | %.1f | %+.1f |" % (
                s, o, statistics.median(measured[s]), foretold, real, 100 * (foretold - real) / real))


def main():
    modes = {"errors": errors, "delay": delay, "schedules": schedules}
    if len(sys.argv) != 3 or sys.argv[2] not in modes:
        sys.exit(__doc__)
    trireme = os.path.abspath(os.path.join(sys.argv[1], "trireme"))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        modes[sys.argv[2]](trireme)
        os.chdir("/")


main()
