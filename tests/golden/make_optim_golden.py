#!/usr/bin/env python3
"""Writes tests/golden/lr.txt, which unit/optim reads.

Learning-rate schedules transcribed from their formulas (the comment of src/optim/lr.h for
Trireme's own; DeepSpeed's documented formulas for the others), in exact fractions where there is
no transcendental function, so that it shares no arithmetic with the C code.

Lines of lr.txt:   case NAME BASE_LR key value key value …
                   FINISHED_STEPS LR BETA1
"""
import math
import os
from fractions import Fraction as F

HERE = os.path.dirname(os.path.abspath(__file__))
BETA1 = 0.85  # handed to lr_momentum_at by the test


def clamp(p):
    return min(F(1), max(F(0), p))


def ramp(it, w, total):
    return clamp(F(it - w, max(1, total - w - 1)))


def own(name, c, lr, it):
    w, total, r = c.get("warmup_steps", 0), c["total_steps"], F(str(c.get("min_ratio", 0)))
    if it < w:
        return float(lr * F(it + 1, w))
    if name == "constant":
        return float(lr)
    if name == "linear":
        return float(lr * (1 + (r - 1) * ramp(it, w, total)))
    if name == "cosine":
        return float(lr) * (float(r) + (1 - float(r)) * math.cos(math.pi * float(ramp(it, w, total)) / 2) ** 2)
    d = c.get("decay_steps", 0) or total // 10
    d = max(1, min(d, total - w))
    return float(lr * (1 + (r - 1) * clamp(F(it - total + d + 1, d))))


def range_test(c, lr, it):
    i = F(it + 1, c["lr_range_test_step_size"])
    if c.get("lr_range_test_staircase"):
        i = F(math.floor(i))
    return float(F(str(c["lr_range_test_min_lr"])) * (1 + F(str(c["lr_range_test_step_rate"])) * i))


def one_cycle(c, it):
    first = c["cycle_first_step_size"]
    second = c.get("cycle_second_step_size") or first
    low, high = F(str(c["cycle_min_lr"])), F(str(c["cycle_max_lr"]))
    mom_low, mom_high = F(str(c["cycle_min_mom"])), F(str(c["cycle_max_mom"]))
    momentum = c.get("cycle_momentum", 1)
    if it < first + second:
        x = F(it + 1, first + second) % 1
        top = F(first, first + second)
        rising = x <= top
        height = x / top if rising else (1 - x) / (1 - top)
        stairs = c.get("cycle_first_stair_count", 0)
        if not rising and c.get("cycle_second_stair_count", -1) >= 0:
            stairs = c["cycle_second_stair_count"]
        if stairs:
            height = F(math.floor(height * stairs), stairs)
        lr, mom = low + (high - low) * height, mom_high - (mom_high - mom_low) * height
    else:
        size = c.get("decay_step_size", 0)
        k = F(it - first - second + 1, size) if size else F(0)
        lr = low / (1 + F(str(c.get("decay_lr_rate", 0))) * k)
        mom = mom_high * (1 + F(str(c.get("decay_mom_rate", 0))) * k)
    return float(lr), float(mom) if momentum else BETA1


def gamma(c, it, w):
    if c.get("warmup_linear"):
        return it / w
    return math.log2(it + 1) / math.log2(w)


def warmup(name, c, lr, it):
    w = max(2, c.get("warmup_num_steps", 1000))
    low = c.get("warmup_min_lr", 0.0)
    high = c.get("warmup_max_lr", -1.0)
    high = float(lr) if high < 0 else high
    total = c.get("total_num_steps", 0) or c.get("total_steps", 0)
    if it < w:
        g = gamma(c, it, w)
    elif name == "WarmupDecayLR":
        g = max(0.0, (total - it) / max(1, total - w))
    else:
        g = 1.0
    return low + (high - low) * g


def warmup_cosine(c, lr, it):
    w, total = max(2, c.get("warmup_num_steps", 1000)), c["total_num_steps"]
    if it < w:
        r0 = c.get("warmup_min_ratio", 0.0)
        return float(lr) * (r0 + (1 - r0) * gamma(c, it, w))
    p = min(1.0, (it - w + 1) / max(1, total - w))
    low = c.get("cos_min_ratio", 1e-4)
    return float(lr) * (low + (1 - low) * (1 + math.cos(math.pi * p)) / 2)


STYLES = ["linear", "constant", "cosine", "inverse-square-root", "WSD"]
WSD_STYLES = ["exponential", "linear", "cosine", "minus_sqrt"]


def megatron(c, lr, it):
    """Megatron-LM's OptimizerParamScheduler, which counts samples."""
    batch = c["global_batch"]
    n, w, d, x = (
        round(v * batch)
        for v in (it, c.get("lr_warmup_steps", 0), c.get("lr_decay_steps", c.get("total_steps")), c.get("wsd_decay_steps", 0))
    )
    first, low, high = c.get("init_lr", 0.0), c.get("min_lr", 0.0), float(lr)
    style, wsd = STYLES[c["lr_decay_style"]], WSD_STYLES[c.get("lr_wsd_decay_style", 0)]
    if w > 0 and n <= w:
        return first + (high - first) * n / w
    if style == "constant":
        return high
    if n > d:
        return low
    if style == "inverse-square-root":
        return max(low, high * math.sqrt(max(w, 1) / max(n, 1)))
    p = (n - w) / (d - w)
    if style == "WSD":
        q = max(0, n - (d - x)) / x
        left = {"exponential": 2 * 0.5**q - 1, "linear": 1 - q, "cosine": math.cos(math.pi * q / 2) ** 2, "minus_sqrt": 1 - q**0.5}[wsd]
    else:
        left = 1 - p if style == "linear" else math.cos(math.pi * p / 2) ** 2
    return low + left * (high - low)


CONSTRUCTED = {"LRRangeTest": "lr_range_test_min_lr", "OneCycle": "cycle_min_lr", "WarmupLR": "warmup_min_lr",
               "WarmupDecayLR": "warmup_min_lr", "WarmupCosineLR": None}


def value(name, c, lr, it):
    if name in CONSTRUCTED:  # its engine moves the schedule behind an update
        if it == 0:
            mom = c.get("cycle_min_mom", 0.8) if name == "OneCycle" and c.get("cycle_momentum", 1) else BETA1
            return float(c.get(CONSTRUCTED[name], 0.0)), mom
        it -= 1
    if name == "OptimizerParamScheduler":
        return megatron(c, lr, it), BETA1
    if name == "LRRangeTest":
        return range_test(c, lr, it), BETA1
    if name == "OneCycle":
        return one_cycle(c, it)
    if name in ("WarmupLR", "WarmupDecayLR"):
        return warmup(name, c, lr, it), BETA1
    if name == "WarmupCosineLR":
        return warmup_cosine(c, lr, it), BETA1
    return own(name, c, lr, it), BETA1


CYCLE = {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-3, "cycle_min_mom": 0.8, "cycle_max_mom": 0.9}
CASES = [
    ("constant", {"warmup_steps": 4, "total_steps": 12, "min_ratio": 0.1}, range(14)),
    ("constant", {"warmup_steps": 0, "total_steps": 1}, range(2)),
    ("linear", {"warmup_steps": 4, "total_steps": 12, "min_ratio": 0.1}, range(14)),
    ("linear", {"warmup_steps": 0, "total_steps": 1, "min_ratio": 0.1}, range(3)),
    ("linear", {"warmup_steps": 0, "total_steps": 2, "min_ratio": 0.0}, range(3)),
    ("linear", {"warmup_steps": 5, "total_steps": 6, "min_ratio": 0.5}, range(7)),
    ("linear", {"warmup_steps": 20, "total_steps": 12, "min_ratio": 0.1}, range(13)),
    ("cosine", {"warmup_steps": 100, "total_steps": 1000, "min_ratio": 0.1}, [0, 1, 50, 99, 100, 101, 500, 998, 999, 1000, 2000]),
    ("cosine", {"warmup_steps": 0, "total_steps": 1, "min_ratio": 0.1}, range(3)),
    ("cosine", {"warmup_steps": 12, "total_steps": 12, "min_ratio": 0.1}, range(14)),
    ("wsd", {"warmup_steps": 3, "total_steps": 40, "min_ratio": 0.1, "decay_steps": 8}, range(42)),
    ("wsd", {"warmup_steps": 3, "total_steps": 40, "min_ratio": 0.0}, range(42)),
    ("wsd", {"warmup_steps": 3, "total_steps": 9, "min_ratio": 0.2, "decay_steps": 50}, range(11)),
    ("wsd", {"warmup_steps": 0, "total_steps": 1, "min_ratio": 0.1}, range(2)),
    ("wsd", {"warmup_steps": 20, "total_steps": 5, "min_ratio": 0.1}, range(5)),
    ("LRRangeTest", {"lr_range_test_min_lr": 1e-3, "lr_range_test_step_size": 5, "lr_range_test_step_rate": 1.0}, range(22)),
    ("LRRangeTest", {"lr_range_test_min_lr": 1e-5, "lr_range_test_step_size": 5, "lr_range_test_step_rate": 2.5,
                     "lr_range_test_staircase": 1}, range(22)),
    ("OneCycle", dict(CYCLE, cycle_first_step_size=10), range(30)),
    ("OneCycle", dict(CYCLE, cycle_first_step_size=7, cycle_second_step_size=13, decay_step_size=4, decay_lr_rate=0.5,
                      decay_mom_rate=0.01), range(40)),
    ("OneCycle", dict(CYCLE, cycle_first_step_size=10, cycle_first_stair_count=5), range(22)),
    ("OneCycle", dict(CYCLE, cycle_first_step_size=7, cycle_second_step_size=5, cycle_first_stair_count=3,
                      cycle_second_stair_count=2, decay_step_size=1, decay_lr_rate=1.0), range(20)),
    ("OneCycle", dict(CYCLE, cycle_first_step_size=6, cycle_first_stair_count=3, cycle_second_stair_count=0,
                      cycle_momentum=0), range(14)),
    ("OneCycle", dict(CYCLE, cycle_first_step_size=1), range(5)),
    ("WarmupLR", {"warmup_num_steps": 10}, range(13)),
    ("WarmupLR", {"warmup_num_steps": 10, "warmup_linear": 1, "warmup_min_lr": 1e-5, "warmup_max_lr": 2e-3}, range(13)),
    ("WarmupLR", {"warmup_num_steps": 1}, range(4)),
    ("WarmupLR", {}, [0, 1, 2, 500, 999, 1000, 5000]),
    ("WarmupDecayLR", {"warmup_num_steps": 10, "total_num_steps": 50, "warmup_max_lr": 1e-3}, range(54)),
    ("WarmupDecayLR", {"warmup_num_steps": 10, "total_steps": 50, "warmup_linear": 1, "warmup_min_lr": 1e-5}, range(54)),
    ("WarmupDecayLR", {"warmup_num_steps": 10, "total_num_steps": 5}, range(14)),
    ("WarmupCosineLR", {"warmup_num_steps": 10, "total_num_steps": 50}, range(54)),
    ("WarmupCosineLR", {"warmup_num_steps": 10, "total_num_steps": 50, "warmup_linear": 1, "warmup_min_ratio": 0.1,
                        "cos_min_ratio": 0.05}, range(54)),
    ("WarmupCosineLR", {"warmup_num_steps": 1, "total_num_steps": 1}, range(5)),
    ("WarmupCosineLR", {"warmup_num_steps": 10, "total_num_steps": 5}, range(14)),
    *(
        ("OptimizerParamScheduler", dict(c, lr_decay_style=style, global_batch=8), range(45))
        for style in range(4)
        for c in ({"total_steps": 40}, {"lr_warmup_steps": 5.125, "lr_decay_steps": 40.5, "min_lr": 3e-5, "init_lr": 1e-6})
    ),
    *(
        ("OptimizerParamScheduler", {"lr_decay_style": 4, "lr_wsd_decay_style": style, "global_batch": 8, "total_steps": 40,
                                     "lr_warmup_steps": 4, "wsd_decay_steps": 12.5, "min_lr": 3e-5}, range(45))
        for style in range(4)
    ),
]


def write_lr(path):
    lr = F("0.0003")
    with open(path, "w") as out:
        for name, c, steps in CASES:
            out.write("case %s %.17g" % (name, float(lr)))
            out.write("".join(" %s %.17g" % kv for kv in c.items()) + "\n")
            for it in steps:
                out.write("%d %.17g %.17g\n" % ((it,) + value(name, c, lr, it)))


if __name__ == "__main__":
    write_lr(os.path.join(HERE, "lr.txt"))
