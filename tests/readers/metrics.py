#!/usr/bin/env python3
"""Reads the metrics of a run with the programs that they are written for, and compares them with its log.jsonl.

    pip install tensorboard 'trackio[tensorboard]'; apt install prometheus
    tests/readers/metrics.py RUN [FILE.prom]

RUN is a folder of a run with observe.tensorboard and observe.csv, FILE.prom what observe.textfile has written. It is no
part of ./test, because these packages are large.
"""
import csv
import json
import os
import struct
import subprocess
import sys
import tempfile

SCALARS = {
    "train/loss": "loss",
    "train/grad_norm": "grad_norm",
    "train/lr": "lr",
    "speed/step_seconds": "seconds",
    "speed/tokens_per_second": "tokens_per_s",
}
# promtool wants seconds; the unit is part of NCCL Inspector's names.
ALLOWED = 'use base unit "seconds" instead of "microseconds"'


def fp32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def read_log(run):
    steps, evals = {}, {}
    with open(os.path.join(run, "log.jsonl")) as lines:
        for line in map(json.loads, lines):
            if line["event"] == "step":
                steps[line["step"]] = line
            if line["event"] == "eval":
                evals[line["step"]] = line["loss"]
    return steps, evals


def check_tensorboard(run, steps, evals):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(os.path.join(run, "tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    for tag, key in SCALARS.items():
        found = {e.step: e.value for e in events.Scalars(tag)}
        assert found == {s: fp32(line[key]) for s, line in steps.items()}, tag
    if evals:
        found = {e.step: e.value for e in events.Scalars("eval/loss")}
        assert found == {s: fp32(loss) for s, loss in evals.items()}, "eval/loss"
    print(f"tensorboard: {len(steps)} steps, {len(evals)} evaluations, tags {events.Tags()['scalars']}")


def check_csv(run, steps, evals):
    with open(os.path.join(run, "metrics.csv")) as lines:
        rows = list(csv.DictReader(lines))
    assert [int(r["step"]) for r in rows] == sorted(steps)
    for row in rows:
        step = int(row["step"])
        assert float(row["loss"]) == steps[step]["loss"], step
        assert row["eval_loss"] == "" if step not in evals else float(row["eval_loss"]) == evals[step], step
    print(f"metrics.csv: {len(rows)} steps")


def check_trackio(run):
    os.environ["HOME"] = os.environ["HF_HOME"] = os.environ["TRACKIO_DIR"] = tempfile.mkdtemp()
    import trackio

    trackio.import_csv(csv_path=os.path.join(run, "metrics.csv"), project="metrics", name="csv")
    trackio.import_tf_events(log_dir=os.path.join(run, "tensorboard"), project="events", name="events")


def check_prometheus(path):
    with open(path) as text:
        done = subprocess.run(["promtool", "check", "metrics"], stdin=text, capture_output=True, text=True)
    complaints = [l for l in (done.stdout + done.stderr).splitlines() if l and ALLOWED not in l]
    assert done.returncode in (0, 3) and not complaints, complaints
    print(f"promtool: {path}")


def check_dashboards(folder):
    """Prometheus parses every query of the dashboards, as rules that it checks."""
    rules = []
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name)) as text:
            panels = json.load(text)["panels"]
        for query in (t["expr"] for p in panels for t in p["targets"]):
            query = query.replace("$__rate_interval", "1m")
            rules.append({"record": f"query_{len(rules)}", "expr": query})
    with tempfile.NamedTemporaryFile("w", suffix=".json") as out:  # JSON is YAML
        json.dump({"groups": [{"name": "dashboards", "rules": rules}]}, out)
        out.flush()
        subprocess.run(["promtool", "check", "rules", out.name], check=True, stdout=subprocess.DEVNULL)
    print(f"promtool: {len(rules)} queries of {folder}")


def main():
    run = sys.argv[1]
    steps, evals = read_log(run)
    check_tensorboard(run, steps, evals)
    check_csv(run, steps, evals)
    check_trackio(run)
    for path in sys.argv[2:]:
        check_prometheus(path)
    check_dashboards(os.path.join(os.path.dirname(__file__), "..", "..", "examples", "grafana"))


main()
