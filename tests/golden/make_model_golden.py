#!/usr/bin/env python3
"""Golden values of small models, from PyTorch and transformers: tests/golden/models/NAME/.

Each folder is a model (config.json, model.safetensors with the initial fp32 weights) and
golden.safetensors:

  language models
    tokens [10, B, T+1] I32      one batch for each of ten steps; the input of step s is tokens[s, :, :T]
    labels [10, B, T] I32        the target of every position, -100 where there is none
    loss [1] F32, grad.<name>    mean cross-entropy over the valid labels of batch 0 and its gradient
    bf16.loss, bf16.grad.<name>  the same for the weights rounded to bf16, in fp32 arithmetic
                                 (gradients stored as BF16)
    losses [10], norms [10]      ten steps of AdamW: loss before the update, gradient norm before clipping
    final.<name>                 the weights after them
    prompt [T] I32, logits [T, V]  (gpt2_new, llama_llama3) with the initial weights
  vectors (family mlp)
    x [10, B, features] F32, y [10, B] I32 (classes) or F32 (values)
    loss, grad.<name>            mean over the samples of batch 0
    RULE.losses, RULE.norms, RULE.final.<name>   ten steps of adamw, sgd and lion

The settings of the optimizers are in OPTIMIZERS below and in the file's metadata. Gradients are clipped to norm 1.
Weight decay is on tensors of two or more dimensions only. Nothing here needs the network.

Usage: make_model_golden.py [--out DIR] [NAME ...]
"""
import argparse
import json
import os
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

STEPS, BATCH, SEQ, VOCAB = 10, 3, 16, 96
OPTIMIZERS = {
    "adamw": dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1),
    "sgd": dict(lr=0.05, momentum=0.9, weight_decay=0.01),
    "lion": dict(lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1),
}
CLIP = 1.0


class Lion(torch.optim.Optimizer):
    """Chen et al. 2023: sign(b1 m + (1-b1) g), then m = b2 m + (1-b2) g, decay apart."""

    def __init__(self, groups, lr, betas, weight_decay):
        super().__init__(groups, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(group["lr"] * torch.sign(b1 * m + (1 - b1) * p.grad))
                m.mul_(b2).add_(p.grad, alpha=1 - b2)


RULES = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD, "lion": Lion}


def language_models():
    gpt2 = dict(vocab_size=VOCAB, n_positions=24, n_layer=2, n_embd=32, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0,
                attn_pdrop=0.0, bos_token_id=None, eos_token_id=None)
    llama = dict(vocab_size=VOCAB, max_position_embeddings=24, num_hidden_layers=2, hidden_size=32,
                 num_attention_heads=4, num_key_value_heads=2, intermediate_size=40, bos_token_id=None,
                 eos_token_id=None)
    return {
        "gpt2_new": (GPT2LMHeadModel, GPT2Config(**gpt2)),
        "gpt2_variants": (GPT2LMHeadModel, GPT2Config(**{
            **gpt2, "n_layer": 3, "n_embd": 24, "n_head": 3, "n_inner": 40, "activation_function": "gelu",
            "scale_attn_by_inverse_layer_idx": True, "tie_word_embeddings": False, "layer_norm_epsilon": 1e-3})),
        "llama_gqa": (LlamaForCausalLM, LlamaConfig(**{**llama, "head_dim": 12})),
        "llama_llama3": (LlamaForCausalLM, LlamaConfig(**{
            **llama, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True, "rms_norm_eps": 1e-3,
            "rope_parameters": {"rope_type": "llama3", "rope_theta": 50.0, "factor": 4.0, "low_freq_factor": 1.0,
                                "high_freq_factor": 2.0, "original_max_position_embeddings": 20}})),
        "llama_linear": (LlamaForCausalLM, LlamaConfig(**{
            **llama, "num_hidden_layers": 3, "hidden_size": 24, "num_attention_heads": 3, "num_key_value_heads": 1,
            "hidden_act": "gelu_new",
            "rope_parameters": {"rope_type": "linear", "rope_theta": 1000.0, "factor": 2.5}})),
    }


class Mlp(torch.nn.Module):
    """Our own family: layers.N.weight [out, in], layers.N.bias, an activation between."""

    def __init__(self, features, hidden, layers, outputs):
        super().__init__()
        widths = [features] + [hidden] * (layers - 1) + [outputs]
        self.layers = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in zip(widths, widths[1:]))

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return self.layers[-1](x)


def initialise(model, seed, std=0.1, gain=1.0):
    """Large weights, random biases and gains, so that every term matters. `gain` is the mean of all gains."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim >= 2:
                p.copy_(torch.randn(p.shape, generator=g) * std)
            elif name.endswith("bias"):
                p.copy_(torch.randn(p.shape, generator=g) * 0.1)
            else:
                p.copy_(gain + torch.randn(p.shape, generator=g) * 0.2)


def optimizer(rule, model):
    options = dict(OPTIMIZERS[rule])
    decay = options.pop("weight_decay")
    wide = [p for p in model.parameters() if p.ndim >= 2]
    narrow = [p for p in model.parameters() if p.ndim < 2]
    return RULES[rule]([dict(params=wide, weight_decay=decay), dict(params=narrow, weight_decay=0.0)],
                       weight_decay=decay, **options)


def gradients(model, loss_of):
    model.zero_grad(set_to_none=True)
    loss = loss_of(0)
    loss.backward()
    return loss.detach().reshape(1).float(), {
        n: p.grad.clone() for n, p in model.named_parameters() if p.requires_grad}


def train(model, rule, loss_of, prefix, with_final=True):
    start = {n: p.detach().clone() for n, p in model.named_parameters()}
    opt, losses, norms = optimizer(rule, model), [], []
    for step in range(STEPS):
        opt.zero_grad(set_to_none=True)
        loss = loss_of(step)
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP).detach())
        losses.append(loss.detach())
        opt.step()
    out = {prefix + "losses": torch.stack(losses), prefix + "norms": torch.stack(norms)}
    if with_final:
        out.update({prefix + "final." + n: p.detach().clone() for n, p in model.named_parameters()})
    with torch.no_grad():
        for n, p in model.named_parameters():
            p.copy_(start[n])
    return out


def round_to_bf16(model):
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.bfloat16().float())


def write_golden(folder, tensors):
    settings = json.dumps({"clip": CLIP, **OPTIMIZERS})  # one key: their order in the file is random
    save_file({k: v.contiguous() for k, v in tensors.items()}, os.path.join(folder, "golden.safetensors"),
              metadata={"settings": settings})


def save_model(folder, model):
    model.save_pretrained(folder)
    os.remove(os.path.join(folder, "generation_config.json"))


def draw_batches(seed):
    g = torch.Generator().manual_seed(seed + 1)
    tokens = torch.randint(0, VOCAB, (STEPS, BATCH, SEQ + 1), generator=g)
    labels = tokens[:, :, 1:].clone()
    labels[torch.rand(labels.shape, generator=g) < 0.2] = -100
    return tokens, labels


def loss_function(model, tokens, labels):
    """The model's own logits under the mean cross-entropy of the labels of one step."""
    def loss_of(step):
        logits = model(input_ids=tokens[step, :, :-1], use_cache=False).logits.float()
        return F.cross_entropy(logits.reshape(-1, VOCAB), labels[step].reshape(-1), ignore_index=-100)
    return loss_of


def prompt_and_logits(model, tokens):
    prompt = tokens[0, 0, :SEQ]
    with torch.no_grad():
        logits = model.eval()(input_ids=prompt[None], use_cache=False).logits[0].float()
    model.train()
    return {"prompt": prompt.int(), "logits": logits}


def make_language_model(folder, seed, cls, config, with_logits):
    torch.manual_seed(seed)
    config._attn_implementation = "eager"
    model = cls(config).train()
    initialise(model, seed)
    save_model(folder, model)
    tokens, labels = draw_batches(seed)
    loss_of = loss_function(model, tokens, labels)
    out = {"tokens": tokens.int(), "labels": labels.int()}
    if with_logits:
        out.update(prompt_and_logits(model, tokens))
    out["loss"], grads = gradients(model, loss_of)
    out.update({"grad." + n: t for n, t in grads.items()})
    out.update(train(model, "adamw", loss_of, ""))
    round_to_bf16(model)
    out["bf16.loss"], grads = gradients(model, loss_of)
    out.update({"bf16.grad." + n: t.bfloat16() for n, t in grads.items()})
    write_golden(folder, out)


def make_mlp(folder, seed, loss_word, outputs, layers):
    features, hidden, batch = 7, 12, 16
    model = Mlp(features, hidden, layers, outputs)
    initialise(model, seed, std=0.4)
    config = {"model_type": "trireme_mlp", "features": features, "hidden": hidden, "layers": layers,
              "classes": outputs, "activation": "relu", "loss": loss_word}
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f, indent=2)
        f.write("\n")
    save_file({n: p.detach().clone() for n, p in model.named_parameters()},
              os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    g = torch.Generator().manual_seed(seed + 1)
    x = torch.randn(STEPS, batch, features, generator=g)
    if loss_word == "mse":
        y = x.pow(2).sum(-1) / features + 0.1 * torch.randn(STEPS, batch, generator=g)
    else:
        y = torch.randint(0, outputs, (STEPS, batch), generator=g)

    def loss_of(step):
        out = model(x[step])
        return F.mse_loss(out[:, 0], y[step]) if loss_word == "mse" else F.cross_entropy(out, y[step])

    out = {"x": x, "y": y if loss_word == "mse" else y.int()}
    out["loss"], grads = gradients(model, loss_of)
    out.update({"grad." + n: t for n, t in grads.items()})
    for rule in RULES:
        out.update(train(model, rule, loss_of, rule + "."))
    write_golden(folder, out)


def be_deterministic():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)


def finish_folder(name, folder):
    for file in os.listdir(folder):
        os.chmod(os.path.join(folder, file), 0o644)
    sizes = {f: os.path.getsize(os.path.join(folder, f)) for f in sorted(os.listdir(folder))}
    print(name, sizes, file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--out", default=os.path.join(here, "models"))
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    be_deterministic()
    models = language_models()
    mlps = {"mlp_classes": ("cross_entropy", 5, 3), "mlp_values": ("mse", 1, 2)}
    for seed, name in enumerate(list(models) + list(mlps), start=100):
        if args.names and name not in args.names:
            continue
        folder = os.path.join(args.out, name)
        os.makedirs(folder, exist_ok=True)
        if name in models:
            make_language_model(folder, seed, *models[name], name in ("gpt2_new", "llama_llama3"))
        else:
            make_mlp(folder, seed, *mlps[name])
        finish_folder(name, folder)


if __name__ == "__main__":
    main()
