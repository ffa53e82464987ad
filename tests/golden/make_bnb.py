#!/usr/bin/env python3
"""Writes tests/golden/bnb/: folders of small llamas that transformers has quantised with bitsandbytes on the CPU.

  double/, single/        NF4 with double quantisation, and without it; config.json and model.safetensors as saved
  odd/                    NF4 with blocks of 128 elements and double quantisation
  KIND/golden.safetensors for each tensor, by its name, a digest I64 of the weights that bitsandbytes gives, in bf16
                          logits [T, V] of tokens [T] I32, by transformers in fp32 with these weights

Run with a Python that has PyTorch, transformers, accelerate and bitsandbytes.
"""
import os
import shutil

import bitsandbytes.functional as bnb
import numpy as np
import torch
from bitsandbytes.nn import Linear4bit
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, LlamaConfig, LlamaForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "bnb")
VOCAB, SEQ = 32, 16


def make_model(hidden):
    config = LlamaConfig(vocab_size=VOCAB, hidden_size=hidden, num_hidden_layers=1, num_attention_heads=2,
                         num_key_value_heads=1, intermediate_size=128, max_position_embeddings=SEQ,
                         tie_word_embeddings=False, bos_token_id=None, eos_token_id=None, pad_token_id=None)
    torch.manual_seed(51)
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for i, (key, p) in enumerate(sorted(model.named_parameters())):
            g = torch.Generator().manual_seed(2000 + i)
            p.copy_(torch.randn(p.shape, generator=g) * 0.2 + (1 if p.dim() == 1 else 0))
    return model


def weights_of(model):
    """The weights of a quantised model, by name."""
    out = {}
    for name, module in model.named_modules():
        if isinstance(module, Linear4bit):
            out[name + ".weight"] = bnb.dequantize_4bit(module.weight.data, module.weight.quant_state)
    for name, p in model.named_parameters():
        out.setdefault(name, p.detach())
    return {k: v.contiguous() for k, v in out.items()}


def digest_of(x):
    """The sum of words of 2 bytes, each times an odd number of its place, modulo 2^64."""
    word = x.view(torch.int16).numpy().view("<u2").reshape(-1).astype(np.uint64)
    place = np.arange(len(word), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C16) + np.uint64(1)
    total = ((word + np.uint64(1)) * place).sum(dtype=np.uint64)
    return torch.from_numpy(np.array([total]).view(np.int64))


def logits_of(hidden, weights, tokens):
    model = make_model(hidden)
    model.load_state_dict({k: v.float() for k, v in weights.items()})
    model.config._attn_implementation = "eager"
    with torch.no_grad():
        return model.eval()(input_ids=tokens[None].long(), use_cache=False).logits[0].float()


def make(kind, hidden, blocksize, **options):
    folder, plain = os.path.join(OUT, kind), os.path.join(OUT, "plain")
    shutil.rmtree(folder, ignore_errors=True)
    make_model(hidden).to(torch.bfloat16).save_pretrained(plain)
    config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4",
                                bnb_4bit_compute_dtype=torch.bfloat16, **options)
    model = AutoModelForCausalLM.from_pretrained(plain, quantization_config=config, dtype=torch.bfloat16,
                                                 device_map="cpu")
    if blocksize != 64:  # transformers has no option for it
        for module in model.modules():
            if isinstance(module, Linear4bit):
                full = bnb.dequantize_4bit(module.weight.data, module.weight.quant_state)
                data, state = bnb.quantize_4bit(full, blocksize=blocksize, quant_type="nf4",
                                                compress_statistics=True)
                module.weight.data, module.weight.quant_state = data, state
                module.quant_state = state
    model.save_pretrained(folder)
    for name in os.listdir(folder):
        if name not in ("config.json", "model.safetensors"):
            os.remove(os.path.join(folder, name))
    weights = weights_of(model)
    tokens = torch.randint(0, VOCAB, (SEQ,), generator=torch.Generator().manual_seed(52), dtype=torch.int32)
    save_file({**{name: digest_of(x) for name, x in weights.items()}, "tokens": tokens,
               "logits": logits_of(hidden, weights, tokens)}, os.path.join(folder, "golden.safetensors"))
    shutil.rmtree(plain)
    for name in os.listdir(folder):
        os.chmod(os.path.join(folder, name), 0o644)


def main():
    torch.set_num_threads(1)
    make("double", 128, 64, bnb_4bit_use_double_quant=True)
    make("single", 64, 64, bnb_4bit_use_double_quant=False)
    # The rows are whole blocks: bitsandbytes 0.50 unpacks others wrongly on the CPU.
    make("odd", 128, 128, bnb_4bit_use_double_quant=True)


if __name__ == "__main__":
    main()
