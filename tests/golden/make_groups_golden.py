#!/usr/bin/env python3
"""Parameter groups in PyTorch: tests/golden/groups/MODEL/, which unit/api/test_groups.c reads.

Each folder is a small model of transformers (config.json, model.safetensors with the initial fp32 weights), a job
file VARIANT.yaml for each variant below, and golden.safetensors:

  tokens [STEPS, B, T+1] I32   one global batch for each step; labels [STEPS, B, T] I32, -100 where there is none
  VARIANT.losses [STEPS]       mean over the valid labels of the global batch, before the update
  VARIANT.norms [STEPS]        gradient norm over the trainable parameters, before clipping
  VARIANT.final.<name>         the trainable weights after the steps; the other weights are those of model.safetensors

The groups of a variant are one list (VARIANTS). Here they become param_groups and requires_grad; in the job file they
are `groups`. The first pattern that matches a name decides. A step adds the gradients of two micro-batches, clips
them and takes the learning rate of a cosine schedule with a warm-up. Weight decay is on all tensors, so that a
group without decay differs. eps is larger than AdamW's default, so that rounding errors of tiny gradients do not become
full steps. Nothing here needs the network.

Usage: make_groups_golden.py [--out DIR]
"""
import argparse
import importlib.util
import math
import os
import re
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

STEPS, BATCH, MICRO, SEQ, VOCAB = 10, 8, 4, 16, 64
LR, BETAS, EPS, DECAY, CLIP = 3e-3, (0.9, 0.95), 1e-6, 0.1, 0.3
WARMUP, MIN_RATIO = 3, 0.1
HERE = os.path.dirname(os.path.abspath(__file__))

NO_DECAY = [{"match": "*.bias", "weight_decay": 0}]
VARIANTS = {
    "llama": {
        # Frozen, no decay, twice the learning rate, other betas. The gradient passes through the frozen matrices.
        "scattered": [
            {"match": "model.layers.0.self_attn.*", "trainable": False},
            *NO_DECAY,
            {"match": "*norm.weight", "weight_decay": 0},
            {"match": "model.layers.1.mlp.*", "lr_scale": 2},
            {"match": "lm_head.*", "betas": [0.8, 0.99]},
        ],
        # Nothing below the MLP of layer 1 is trainable, so the backward pass ends there.
        "below": [
            {"match": "model.embed_tokens.*", "trainable": False},
            {"match": "model.layers.0.*", "trainable": False},
            {"match": "model.layers.1.self_attn.*", "trainable": False},
            {"match": "model.layers.1.input_layernorm.*", "trainable": False},
            *NO_DECAY,
            {"match": "model.layers.2.mlp.*", "lr_scale": 2},
            {"match": "model.layers.3.*", "betas": [0.8, 0.99], "eps": 1e-4},
        ],
        # Three optimizers: AdamW has two numbers of state for each weight, sgd with momentum one, plain sgd none.
        "sgd": [
            {"match": "model.embed_tokens.*", "trainable": False},
            {"match": "model.layers.2.*", "optimizer": "sgd", "momentum": 0.9, "weight_decay": 0.01, "lr_scale": 20},
            {"match": "*norm.weight", "optimizer": "sgd", "momentum": 0, "weight_decay": 0, "lr_scale": 50},
        ],
    },
    "gpt2": {
        "scattered": [
            {"match": "transformer.h.0.attn.*", "trainable": False},
            {"match": "transformer.h.1.mlp.c_proj.*", "trainable": False},
            *NO_DECAY,
            {"match": "*.ln_*.weight", "weight_decay": 0},
            {"match": "transformer.h.1.mlp.*", "lr_scale": 2},
            {"match": "transformer.h.3.*", "betas": [0.8, 0.99]},
        ],
        # The head is tied to the frozen embedding. On two pipeline stages the first stage has no backward pass.
        "below": [
            {"match": "transformer.w*", "trainable": False},
            {"match": "transformer.h.0.*", "trainable": False},
            {"match": "transformer.h.1.*", "trainable": False},
            *NO_DECAY,
            {"match": "transformer.h.2.mlp.*", "lr_scale": 2},
            {"match": "transformer.h.3.*", "betas": [0.8, 0.99]},
        ],
    },
}


def sibling(name):
    spec = importlib.util.spec_from_file_location(name, os.path.join(HERE, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


common = sibling("make_model_golden")


def make_model(name):
    quiet = dict(vocab_size=VOCAB, bos_token_id=None, eos_token_id=None)
    if name == "gpt2":
        config = GPT2Config(n_positions=SEQ, n_layer=4, n_embd=16, n_head=4, n_inner=24, resid_pdrop=0.0,
                            embd_pdrop=0.0, attn_pdrop=0.0, **quiet)
        cls = GPT2LMHeadModel
    else:
        config = LlamaConfig(max_position_embeddings=SEQ, num_hidden_layers=4, hidden_size=16, num_attention_heads=4,
                             num_key_value_heads=2, intermediate_size=24, mlp_bias=True, tie_word_embeddings=False,
                             **quiet)
        cls = LlamaForCausalLM
    config._attn_implementation = "eager"
    torch.manual_seed(21)
    model = cls(config).train()
    common.initialise(model, 21)
    return model


def make_data():
    g = torch.Generator().manual_seed(22)
    tokens = torch.randint(0, VOCAB, (STEPS, BATCH, SEQ + 1), generator=g)
    labels = tokens[:, :, 1:].clone()
    labels[torch.rand(labels.shape, generator=g) < 0.2] = -100
    return tokens, labels


def matches(pattern, name):
    return re.fullmatch(".*".join(re.escape(part) for part in pattern.split("*")), name)


def make_optimizers(model, groups):
    """One torch optimizer for each rule, with a param_group for each group; frozen parameters are in none."""
    adamw, sgd = [], []
    groups = groups + [{"match": "*"}]
    for group in groups:
        params = [p for name, p in model.named_parameters()
                  if next(g for g in groups if matches(g["match"], name)) is group]
        assert params, group["match"]
        if not group.get("trainable", True):
            for p in params:
                p.requires_grad_(False)
            continue
        own = dict(params=params, lr=LR * group.get("lr_scale", 1), weight_decay=group.get("weight_decay", DECAY))
        if group.get("optimizer") == "sgd":
            sgd.append(dict(own, momentum=group["momentum"]))
        else:
            adamw.append(dict(own, betas=tuple(group.get("betas", BETAS)), eps=group.get("eps", EPS)))
    optimizers = [torch.optim.AdamW(adamw)] if adamw else []
    return optimizers + ([torch.optim.SGD(sgd)] if sgd else [])


def rate(done):
    """The factor of the learning rate after `done` finished steps."""
    if done < WARMUP:
        return (done + 1) / WARMUP
    return MIN_RATIO + (1 - MIN_RATIO) * (1 + math.cos(math.pi * (done - WARMUP) / (STEPS - WARMUP - 1))) / 2


def train(name, groups, tokens, labels):
    model = make_model(name)
    optimizers = make_optimizers(model, groups)
    schedules = [torch.optim.lr_scheduler.LambdaLR(o, rate) for o in optimizers]
    trainable = {n: p for n, p in model.named_parameters() if p.requires_grad}
    losses, norms = [], []
    for step in range(STEPS):
        valid, total = (labels[step] != -100).sum(), 0.0
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        for first in range(0, BATCH, MICRO):
            rows = slice(first, first + MICRO)
            logits = model(input_ids=tokens[step, rows, :-1], use_cache=False).logits.float()
            loss = F.cross_entropy(logits.reshape(-1, VOCAB), labels[step, rows].reshape(-1), ignore_index=-100,
                                   reduction="sum") / valid
            loss.backward()
            total += loss.detach()
        norms.append(torch.nn.utils.clip_grad_norm_(trainable.values(), CLIP).detach())
        losses.append(total)
        for optimizer, schedule in zip(optimizers, schedules):
            optimizer.step()
            schedule.step()
    out = {"losses": torch.stack(losses), "norms": torch.stack(norms)}
    out.update({"final." + n: p.detach().clone() for n, p in trainable.items()})
    return out


def yaml(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(yaml, value)) + "]"
    return repr(value)


def write_job(path, groups):
    with open(path, "w") as f:
        f.write(f"""\
# Written by make_groups_golden.py. The test sets model.path, the data, the mesh and the policy.
data: {{seq_len: {SEQ}, order: sequential}}
train: {{steps: {STEPS}, global_batch: {BATCH}, precision: fp32, clip_grad_norm: {CLIP}}}
optimizer: {{name: adamw, lr: {LR}, betas: {yaml(BETAS)}, eps: {EPS:.0e}, weight_decay: {DECAY}, decay: all}}
lr_schedule: {{name: cosine, warmup_steps: {WARMUP}, min_ratio: {MIN_RATIO}}}
groups:
""")
        for group in groups:
            f.write("  - {" + ", ".join(f"{key}: {yaml(value)}" for key, value in group.items()) + "}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=os.path.join(HERE, "groups"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    tokens, labels = make_data()
    for name, variants in VARIANTS.items():
        folder = os.path.join(args.out, name)
        os.makedirs(folder, exist_ok=True)
        make_model(name).save_pretrained(folder)
        os.remove(os.path.join(folder, "generation_config.json"))
        out = {"tokens": tokens.int(), "labels": labels.int()}
        for variant, groups in variants.items():
            write_job(os.path.join(folder, variant + ".yaml"), groups)
            result = train(name, groups, tokens, labels)
            print(name, variant, "losses", result["losses"].tolist(), "norms", result["norms"].tolist(), file=sys.stderr)
            out.update({f"{variant}.{key}": t for key, t in result.items()})
        save_file({k: v.contiguous() for k, v in out.items()}, os.path.join(folder, "golden.safetensors"))
        for file in os.listdir(folder):
            os.chmod(os.path.join(folder, file), 0o644)


if __name__ == "__main__":
    main()
