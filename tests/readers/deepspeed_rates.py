#!/usr/bin/env python3
"""Compares the learning rate of each update under DeepSpeed's engine with that of Trireme, for DeepSpeed's own schedulers.

    tests/readers/deepspeed_rates.py build/trireme DEEPSPEED/deepspeed/runtime/lr_schedules.py

The file of DeepSpeed is run as it is, without torch: a stand-in has the optimizer's parameter groups. As its engine does
(_take_model_step), an update uses the rate that stands in the optimizer, and moves the scheduler behind it. Ours are the
rates of log.jsonl of a small run with the same configuration. It is no part of ./test.
"""
import json
import logging
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import types

STEPS = 24
JOB = """model: {family: gpt2, layers: 1, hidden: 16, heads: 2, vocab: 64, max_seq: 16}
data: {train: mock, seq_len: 16}
"""
CASES = [
    ("WarmupLR", {"warmup_min_lr": 0, "warmup_max_lr": 0.001, "warmup_num_steps": 8}),
    ("WarmupLR", {"warmup_min_lr": 1e-5, "warmup_max_lr": 0.003, "warmup_num_steps": 10, "warmup_type": "linear"}),
    ("WarmupLR", {"warmup_max_lr": 0.01, "warmup_num_steps": 1}),
    ("WarmupLR", {"warmup_max_lr": 0.01, "warmup_num_steps": 100}),
    ("WarmupDecayLR", {"total_num_steps": 20, "warmup_max_lr": 0.002, "warmup_num_steps": 5}),
    ("WarmupDecayLR", {"total_num_steps": 24, "warmup_max_lr": 0.002, "warmup_num_steps": 4, "warmup_type": "linear"}),
    ("WarmupCosineLR", {"total_num_steps": 20, "warmup_num_steps": 5}),
    ("WarmupCosineLR", {"total_num_steps": 24, "warmup_num_steps": 6, "warmup_min_ratio": 0.1, "cos_min_ratio": 0.05}),
    ("WarmupCosineLR", {"total_num_steps": 24, "warmup_num_steps": 6, "warmup_type": "linear"}),
    ("LRRangeTest", {"lr_range_test_min_lr": 1e-4, "lr_range_test_step_size": 5, "lr_range_test_step_rate": 2.0}),
    ("LRRangeTest", {"lr_range_test_min_lr": 1e-4, "lr_range_test_step_size": 4, "lr_range_test_staircase": True}),
    ("OneCycle", {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-3, "cycle_first_step_size": 6, "cycle_momentum": False}),
    ("OneCycle", {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-3, "cycle_first_step_size": 6, "cycle_second_step_size": 8,
                  "decay_step_size": 2, "decay_lr_rate": 0.5, "cycle_momentum": False}),
    ("OneCycle", {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-3, "cycle_first_step_size": 8, "cycle_first_stair_count": 4,
                  "cycle_momentum": False}),
]


def load(path):
    class Optimizer:
        def __init__(self, lr):
            self.param_groups = [{"lr": lr, "betas": (0.9, 0.999)}]
            self.defaults = {"betas": (0.9, 0.999)}

    def module(name, **members):
        made = sys.modules[name] = types.ModuleType(name)
        made.__dict__.update(members)

    logger = logging.getLogger("deepspeed")
    logger.setLevel(logging.ERROR)
    module("torch", is_tensor=lambda _: False)
    module("torch.optim", Optimizer=Optimizer)
    module("torch.optim.lr_scheduler", _LRScheduler=object)
    module("deepspeed")
    module("deepspeed.utils", logger=logger)
    schedules = types.ModuleType("lr_schedules")
    exec(compile(pathlib.Path(path).read_text(), path, "exec"), schedules.__dict__)
    return schedules, Optimizer


def theirs(schedules, Optimizer, name, params):
    optimizer = Optimizer(0.001)
    scheduler = getattr(schedules, name)(optimizer, **params)
    rates = []
    for _ in range(STEPS):
        rates.append(optimizer.param_groups[0]["lr"])
        scheduler.step()
    return rates


def ours(trireme, name, params):
    with tempfile.TemporaryDirectory() as scratch:
        config = {"train_batch_size": 2, "optimizer": {"type": "Adam", "params": {"lr": 0.001}},
                  "scheduler": {"type": name, "params": params}}
        pathlib.Path(scratch, "ds.json").write_text(json.dumps(config))
        pathlib.Path(scratch, "job.yaml").write_text(JOB)
        done = subprocess.run([trireme, "train", "job.yaml", "--deepspeed", "ds.json", "--quiet", "--train.steps", str(STEPS),
                               "--train.save_every", "0", "--train.out", "out"], cwd=scratch, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        lines = map(json.loads, pathlib.Path(scratch, "out", "log.jsonl").read_text().splitlines())
        return [line["lr"] for line in lines if line["event"] == "step"]


def main():
    schedules, Optimizer = load(sys.argv[2])
    trireme = os.path.abspath(sys.argv[1])
    equal = 0
    for name, params in CASES:
        a, b = theirs(schedules, Optimizer, name, params), ours(trireme, name, params)
        same = [math.isclose(x, y, rel_tol=1e-6, abs_tol=1e-12) for x, y in zip(a, b)]
        later = [math.isclose(x, y, rel_tol=1e-6, abs_tol=1e-12) for x, y in zip(a[1:], b)]
        equal += all(same)
        print(f"{name} {params}: {sum(same)} of {STEPS} rates equal; one update later {sum(later)} of {STEPS - 1}")
        if not all(same):
            print("   DeepSpeed", [f"{x:.4g}" for x in a[:6]], "Trireme", [f"{x:.4g}" for x in b[:6]])
    print(f"{equal} of {len(CASES)} schedules have DeepSpeed's rate in each of {STEPS} updates")


if __name__ == "__main__":
    main()
