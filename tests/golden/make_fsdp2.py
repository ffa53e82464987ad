#!/usr/bin/env python3
"""Shards of PyTorch FSDP2 (fully_shard on every layer and on the root, over gloo): tests/golden/fsdp2/NAME/.

Each folder is a small model of transformers (config.json, model.safetensors with the initial fp32 weights) and
golden.safetensors:

  tokens [STEPS, B, T+1] I32   one global batch for each step; labels [STEPS, B, T] I32, -100 where there is none
  losses [STEPS], norms [STEPS]   mean over the valid labels of the global batch; gradient norm before clipping
  N.R.weight.<name>, N.R.m.<name>, N.R.v.<name>   the local shard of rank R of N (2, 3, 4) after the steps: weights
                               and AdamW's exp_avg and exp_avg_sq, as FSDP2 sharded them along dim 0. Some have no
                               rows.

No dimension is divisible by all of 2, 3 and 4. GPT-2's Conv1D modules are replaced by nn.Linear ([out, in], as Trireme
keeps them in memory) before sharding; model.safetensors is in transformers' own layout. The optimizer is that of
make_model_golden.py. Nothing here needs the network.

Usage: make_fsdp2.py [--out DIR] [NAME ...]
"""
import argparse
import importlib.util
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from safetensors.torch import save_file
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
from transformers.pytorch_utils import Conv1D

STEPS, BATCH, SEQ, VOCAB, RANKS = 3, 12, 11, 53, (2, 3, 4)
HERE = os.path.dirname(os.path.abspath(__file__))


def sibling(name):
    spec = importlib.util.spec_from_file_location(name, os.path.join(HERE, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


common = sibling("make_model_golden")


def make(name):
    quiet = dict(vocab_size=VOCAB, bos_token_id=None, eos_token_id=None)
    if name == "gpt2":
        config = GPT2Config(n_positions=13, n_layer=2, n_embd=9, n_head=3, n_inner=13, resid_pdrop=0.0, embd_pdrop=0.0,
                            attn_pdrop=0.0, **quiet)
        cls = GPT2LMHeadModel
    else:
        config = LlamaConfig(max_position_embeddings=13, num_hidden_layers=2, hidden_size=9, num_attention_heads=3,
                             num_key_value_heads=1, head_dim=2, intermediate_size=13, tie_word_embeddings=False,
                             **quiet)
        cls = LlamaForCausalLM
    config._attn_implementation = "eager"
    torch.manual_seed(7)
    model = cls(config).train()
    common.initialise(model, 7)
    return model


def linear_layers(model):
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if not isinstance(child, Conv1D):
                continue
            inputs, outputs = child.weight.shape
            linear = torch.nn.Linear(inputs, outputs)
            with torch.no_grad():
                linear.weight.copy_(child.weight.T)
                linear.bias.copy_(child.bias)
            setattr(module, name, linear)
    return model


def data():
    g = torch.Generator().manual_seed(8)
    tokens = torch.randint(0, VOCAB, (STEPS, BATCH, SEQ + 1), generator=g)
    labels = tokens[:, :, 1:].clone()
    labels[torch.rand(labels.shape, generator=g) < 0.2] = -100
    return tokens, labels


def train(rank, ranks, name, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet-{ranks}", rank=rank, world_size=ranks)
    mesh = dist.device_mesh.init_device_mesh("cpu", (ranks,))
    model = linear_layers(make(name))
    for layer in (model.transformer.h if name == "gpt2" else model.model.layers):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    opt = common.optimizer("adamw", model)
    tokens, labels = data()
    share, out, losses, norms = BATCH // ranks, {}, [], []
    for step in range(STEPS):
        mine = slice(rank * share, (rank + 1) * share)
        opt.zero_grad(set_to_none=True)
        logits = model(input_ids=tokens[step, mine, :-1], use_cache=False).logits.float()
        total = F.cross_entropy(logits.reshape(-1, VOCAB), labels[step, mine].reshape(-1), ignore_index=-100,
                                reduction="sum")
        # FSDP2 divides the summed gradients by the number of ranks.
        (total * ranks / (labels[step] != -100).sum()).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), common.CLIP)
        norms.append(norm.full_tensor() if isinstance(norm, DTensor) else norm)
        opt.step()
        total = total.detach()
        dist.all_reduce(total)
        losses.append(total / (labels[step] != -100).sum())
    out["losses"], out["norms"] = torch.stack(losses), torch.stack(norms).float()
    for key, p in model.named_parameters():
        state = opt.state[p]
        for word, t in (("weight", p), ("m", state["exp_avg"]), ("v", state["exp_avg_sq"])):
            out[f"{ranks}.{rank}.{word}.{key}"] = t.detach().to_local().clone()
    torch.save(out, os.path.join(folder, f"{ranks}.{rank}"))
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=os.path.join(HERE, "fsdp2"))
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    torch.use_deterministic_algorithms(True)
    for name in args.names or ("gpt2", "llama"):
        folder = os.path.join(args.out, name)
        os.makedirs(folder, exist_ok=True)
        make(name).save_pretrained(folder)
        os.remove(os.path.join(folder, "generation_config.json"))
        tokens, labels = data()
        out = {"tokens": tokens.int(), "labels": labels.int()}
        with tempfile.TemporaryDirectory() as scratch:
            for ranks in RANKS:
                mp.spawn(train, (ranks, name, scratch), nprocs=ranks)
                for rank in range(ranks):
                    out.update(torch.load(os.path.join(scratch, f"{ranks}.{rank}")))
        empty = sum(t.numel() == 0 for t in out.values())
        save_file({k: v.contiguous() for k, v in out.items()}, os.path.join(folder, "golden.safetensors"))
        for file in os.listdir(folder):
            os.chmod(os.path.join(folder, file), 0o644)
        sizes = {f: os.path.getsize(os.path.join(folder, f)) for f in sorted(os.listdir(folder))}
        print(name, sizes, f"{empty} empty shards of {len(out) - 4}", file=sys.stderr)


if __name__ == "__main__":
    main()
