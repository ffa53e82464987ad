#!/usr/bin/env python3
"""LoRA in PEFT: tests/golden/lora/MODEL/, which unit/api/test_lora.c reads.

Each folder is a small model of transformers (config.json, model.safetensors with the fp32 weights of the base), a job
file job.yaml, two adapters that PEFT saved, start/ (as PEFT draws them) and trained/ (after the steps), and
golden.safetensors:

  tokens [STEPS, B, T+1] I32   one global batch for each step; labels [STEPS, B, T] I32, -100 where there is none
  losses [STEPS]               mean over the valid labels of the global batch, before the update
  norms [STEPS]                gradient norm over the trainable parameters, before clipping
  final.<name>                 the trainable weights after the steps, with the names of adapter_model.safetensors
  logits [T, V]                of the first T tokens, with the adapter of trained/
  merged.<name>                the weights of the base that the merged adapter of trained/ changes

Usage: make_lora.py [--out DIR]
       make_lora.py --check ADAPTER MODEL   loads an adapter that Trireme wrote in PEFT, and prints the largest difference
                                            of its logits to those of trained/ of the same MODEL folder
"""
import argparse
import json
import os
import shutil
import sys

import torch
import torch.nn.functional as F
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict
from safetensors.torch import load_file, save_file
from transformers import (AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen2Config,
                          Qwen2ForCausalLM)

STEPS, BATCH, MICRO, SEQ, VOCAB = 10, 8, 4, 16, 64
LR, BETAS, EPS, DECAY, CLIP = 1e-2, (0.9, 0.95), 1e-6, 0.1, 0.5
HERE = os.path.dirname(os.path.abspath(__file__))

ADAPTERS = {
    "llama": dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "up_proj", "down_proj"],
                  rank_pattern={"down_proj": 2}, alpha_pattern={"layers.1.self_attn.q_proj": 5},
                  modules_to_save=["lm_head"]),
    "qwen2": dict(r=3, lora_alpha=6, target_modules="all-linear", use_rslora=True),
    "gpt2": dict(r=4, lora_alpha=4, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True),
}


def make_model(name):
    quiet = dict(vocab_size=VOCAB, bos_token_id=None, eos_token_id=None, pad_token_id=None)
    shared = dict(max_position_embeddings=SEQ, num_hidden_layers=2, hidden_size=16, num_attention_heads=4,
                  num_key_value_heads=2, intermediate_size=24, **quiet)
    torch.manual_seed(31)
    if name == "gpt2":
        model = GPT2LMHeadModel(GPT2Config(n_positions=SEQ, n_layer=2, n_embd=16, n_head=4, n_inner=24, resid_pdrop=0.0,
                                           embd_pdrop=0.0, attn_pdrop=0.0, **quiet))
    elif name == "qwen2":
        model = Qwen2ForCausalLM(Qwen2Config(tie_word_embeddings=True, **shared))
    else:
        model = LlamaForCausalLM(LlamaConfig(tie_word_embeddings=False, **shared))
    model.config._attn_implementation = "eager"
    with torch.no_grad():
        for i, (key, p) in enumerate(sorted(model.named_parameters())):
            g = torch.Generator().manual_seed(1000 + i)
            is_gain = "norm" in key or ".ln_" in key
            p.copy_(torch.randn(p.shape, generator=g) * (0.1 if is_gain else 0.2) + (1 if is_gain and p.dim() == 1 and
                                                                                    key.endswith("weight") else 0))
    return model.eval()


def make_data():
    g = torch.Generator().manual_seed(32)
    tokens = torch.randint(0, VOCAB, (STEPS, BATCH, SEQ + 1), generator=g)
    labels = tokens[:, :, 1:].clone()
    labels[torch.rand(labels.shape, generator=g) < 0.2] = -100
    return tokens, labels


def train(model, tokens, labels):
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=LR, betas=BETAS, eps=EPS, weight_decay=DECAY)
    losses, norms = [], []
    for step in range(STEPS):
        valid, total = (labels[step] != -100).sum(), 0.0
        optimizer.zero_grad(set_to_none=True)
        for first in range(0, BATCH, MICRO):
            rows = slice(first, first + MICRO)
            logits = model(input_ids=tokens[step, rows, :-1], use_cache=False).logits.float()
            loss = F.cross_entropy(logits.reshape(-1, VOCAB), labels[step, rows].reshape(-1), ignore_index=-100,
                                   reduction="sum") / valid
            loss.backward()
            total += loss.detach()
        norms.append(torch.nn.utils.clip_grad_norm_(trainable, CLIP).detach())
        losses.append(total)
        optimizer.step()
    return {"losses": torch.stack(losses), "norms": torch.stack(norms)}


def save_adapter(model, folder):
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    os.remove(os.path.join(folder, "README.md"))
    path = os.path.join(folder, "adapter_config.json")
    with open(path) as f:
        config = json.load(f)
    config["base_model_name_or_path"] = "BASE"
    config["target_modules"] = sorted(config["target_modules"])  # a set in PEFT
    with open(path, "w") as f:
        json.dump(config, f, indent=2)
        f.write("\n")


def write_job(path):
    with open(path, "w") as f:
        f.write(f"""\
# Written by make_lora.py. The test sets model.path, lora.start, the data, the mesh and the policy.
data: {{seq_len: {SEQ}, order: sequential}}
train: {{steps: {STEPS}, global_batch: {BATCH}, precision: fp32, clip_grad_norm: {CLIP}}}
optimizer: {{name: adamw, lr: {LR}, betas: {list(BETAS)}, eps: {EPS:.0e}, weight_decay: {DECAY}, decay: all}}
lr_schedule: {{name: constant, warmup_steps: 0}}
""")


def logits_of(model, tokens):
    with torch.no_grad():
        return model.eval()(input_ids=tokens[0, :1, :-1], use_cache=False).logits[0].float()


def make(name, out):
    folder = os.path.join(out, name)
    os.makedirs(folder, exist_ok=True)
    tokens, labels = make_data()
    base = make_model(name)
    base.save_pretrained(folder)
    os.remove(os.path.join(folder, "generation_config.json"))
    before = load_file(os.path.join(folder, "model.safetensors"))
    base = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
    torch.manual_seed(33)
    model = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", lora_dropout=0.0, **ADAPTERS[name])).eval()
    save_adapter(model, os.path.join(folder, "start"))
    result = train(model, tokens, labels)
    save_adapter(model, os.path.join(folder, "trained"))
    result["logits"] = logits_of(model, tokens)
    for key, value in get_peft_model_state_dict(model).items():
        result["final." + key] = value.detach()
    merged = os.path.join(folder, "merged")
    model.merge_and_unload().save_pretrained(merged)
    after = load_file(os.path.join(merged, "model.safetensors"))
    shutil.rmtree(merged)
    result.update({"merged." + key: after[key] for key in before if not torch.equal(after[key], before[key])})
    print(name, "losses", result["losses"].tolist(), "norms", result["norms"].tolist(), file=sys.stderr)
    out = {"tokens": tokens.int(), "labels": labels.int(), **result}
    save_file({k: v.contiguous() for k, v in out.items()}, os.path.join(folder, "golden.safetensors"))
    write_job(os.path.join(folder, "job.yaml"))
    for where, _, files in os.walk(folder):
        for file in files:
            os.chmod(os.path.join(where, file), 0o644)


def check(adapter, folder):
    golden = load_file(os.path.join(folder, "golden.safetensors"))
    base = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
    model = PeftModel.from_pretrained(base, adapter)
    difference = (logits_of(model, golden["tokens"].long()) - golden["logits"]).abs().max().item()
    print(f"{adapter}: largest difference of the logits {difference:.3g}")
    return difference


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=os.path.join(HERE, "lora"))
    parser.add_argument("--check", nargs=2)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    if args.check:
        sys.exit(check(*args.check) > 1e-5)
    for name in ADAPTERS:
        make(name, args.out)


if __name__ == "__main__":
    main()
