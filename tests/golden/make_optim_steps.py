#!/usr/bin/env python3
"""Writes tests/golden/optim_torch.txt, which unit/optim reads: weights after each step of PyTorch's
optimizers on fixed gradients. Needs torch.

Lines:   case RULE LR BETA1 BETA2 EPS WEIGHT_DECAY
         w0 … w7                    before the first step
         g0 … g7 / w0 … w7          gradient and weights of each of the STEPS steps
beta1 is SGD's momentum. Lion is not in PyTorch: its formula (Chen et al. 2023) in double stands for it.
"""
import os

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
COUNT, STEPS = 8, 12


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr, betas, weight_decay):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                b1, b2 = group["betas"]
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(group["lr"] * torch.sign(b1 * m + (1 - b1) * p.grad))
                m.mul_(b2).add_(p.grad, alpha=1 - b2)


def make(rule, w, lr, b1, b2, eps, decay):
    if rule == "adamw":
        return torch.optim.AdamW([w], lr=lr, betas=(b1, b2), eps=eps, weight_decay=decay)
    if rule == "adam":
        return torch.optim.Adam([w], lr=lr, betas=(b1, b2), eps=eps, weight_decay=decay)
    if rule == "sgd":
        return torch.optim.SGD([w], lr=lr, momentum=b1, weight_decay=decay)
    return Lion([w], lr, (b1, b2), decay)


CASES = [
    ("adamw", 1e-2, 0.9, 0.999, 1e-8, 0.1),
    ("adamw", 3e-2, 0.8, 0.95, 1e-6, 0.0),
    ("adam", 1e-2, 0.9, 0.999, 1e-8, 0.0),
    ("adam", 1e-2, 0.9, 0.999, 1e-8, 0.1),
    ("adam", 3e-2, 0.8, 0.95, 1e-3, 0.5),
    ("sgd", 1e-1, 0.0, 0.0, 0.0, 0.0),
    ("sgd", 1e-1, 0.0, 0.0, 0.0, 0.1),
    ("sgd", 5e-2, 0.9, 0.0, 0.0, 0.0),
    ("sgd", 5e-2, 0.9, 0.0, 0.0, 0.1),
    ("lion", 1e-2, 0.9, 0.99, 0.0, 0.0),
    ("lion", 1e-2, 0.95, 0.98, 0.0, 0.1),
]


def line(x):
    return " ".join("%.17g" % v for v in x.tolist()) + "\n"


def write(path):
    torch.manual_seed(1)
    with open(path, "w") as out:
        for rule, lr, b1, b2, eps, decay in CASES:
            # Numbers that fp32 holds exactly, so that both sides start from the same.
            w = torch.nn.Parameter(torch.randn(COUNT).double())
            optimizer = make(rule, w, lr, b1, b2, eps, decay)
            out.write("case %s %.17g %.17g %.17g %.17g %.17g\n" % (rule, lr, b1, b2, eps, decay))
            out.write(line(w.detach()))
            for step in range(STEPS):
                size = 10.0 ** (step % 5 - 3)
                w.grad = (size * torch.randn(COUNT)).float().double()
                if step == 7:
                    w.grad.zero_()
                optimizer.step()
                out.write(line(w.grad))
                out.write(line(w.detach()))


if __name__ == "__main__":
    write(os.path.join(HERE, "optim_torch.txt"))
