#!/usr/bin/env python3
"""Golden values of small models of many families, from PyTorch and transformers: tests/golden/models/NAME/.

Each folder is as those of make_model_golden.py, but smaller: config.json and model.safetensors as transformers
writes them, and golden.safetensors with

    tokens [10, B, T+1] I32, labels [10, B, T] I32
    loss [1] F32, grad.<name>    mean cross-entropy over the valid labels of batch 0 and its gradient
    bf16.loss [1] F32            the loss for the weights rounded to bf16, in fp32 arithmetic
    losses [10], norms [10]      ten steps of AdamW
    prompt [T] I32, logits [T, V]

<name> is the tensor's name in model.safetensors. A tensor there without a gradient is not trained. The sizes are the
smallest at which every feature of a family matters: windows are shorter than a sequence, scores and logits are large
enough for their caps, gains are not 1, biases are not 0, the scaled forms of rope change their tables.

Usage: make_family_golden.py [--out DIR] [NAME ...]
"""
import argparse
import os

import torch
from safetensors import safe_open
from transformers import AutoConfig, Gemma3ForConditionalGeneration
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

from make_model_golden import (VOCAB, be_deterministic, draw_batches, finish_folder, gradients, initialise,
                               loss_function, prompt_and_logits, round_to_bf16, save_model, train, write_golden)

BASE = dict(vocab_size=VOCAB, max_position_embeddings=24, num_hidden_layers=2, hidden_size=24, num_attention_heads=4,
            num_key_value_heads=2, intermediate_size=28, bos_token_id=None, eos_token_id=None, pad_token_id=None)
WINDOW = 5


def rope(theta=200.0, kind="default", **rest):
    return dict(rope_theta=theta, rope_type=kind, **rest)


YARN = rope(50.0, "yarn", factor=3.0, original_max_position_embeddings=18, beta_fast=0.8, beta_slow=0.2)
LONG = dict(short_factor=[1.0, 1.3, 1.9], long_factor=[1.2, 2.5, 4.0])  # of six rotated channels
LLAMA3 = rope(14.0, "llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=2.0,
              original_max_position_embeddings=20)


def gemma(**rest):
    return dict(head_dim=8, query_pre_attn_scalar=5, sliding_window=WINDOW, tie_word_embeddings=True, **rest)


GEMMA3 = gemma(num_hidden_layers=3, final_logit_softcapping=2.0, rope_parameters=dict(
    full_attention=rope(1000.0, "linear", factor=3.0), sliding_attention=rope(20.0)),
    layer_types=["sliding_attention", "full_attention", "sliding_attention"])

# NAME: (model_type, what differs from BASE)
FAMILIES = {
    "llama_yarn": ("llama", dict(head_dim=16, rope_parameters=YARN)),
    "llama_yarn_mscale": ("llama", dict(head_dim=16, rope_parameters={
        **YARN, "mscale": 1.5, "mscale_all_dim": 0.7, "truncate": False})),
    "llama_longrope": ("llama", dict(rope_parameters=rope(
        kind="longrope", factor=3.0, original_max_position_embeddings=18, **LONG))),
    "llama_dynamic": ("llama", dict(rope_parameters=rope(kind="dynamic", factor=3.0))),
    "llama_dynamic_long": ("llama", dict(max_position_embeddings=12, rope_parameters=rope(kind="dynamic", factor=3.0))),
    "qwen2": ("qwen2", dict(rope_parameters=rope(), tie_word_embeddings=True)),
    "qwen2_window": ("qwen2", dict(num_hidden_layers=3, use_sliding_window=True, sliding_window=WINDOW,
                                   max_window_layers=1, rope_parameters=rope())),
    "qwen3": ("qwen3", dict(head_dim=10, rope_parameters=rope(), attention_bias=True)),
    "mistral": ("mistral", dict(head_dim=10, sliding_window=WINDOW, rope_parameters=rope())),
    "ministral3": ("ministral3", dict(head_dim=16, rope_parameters={
        **YARN, "original_max_position_embeddings": 6, "beta_fast": 0.5, "beta_slow": 0.06,
        "llama_4_scaling_beta": 0.4, "mscale": 1.0, "mscale_all_dim": 1.0})),
    "gemma2": ("gemma2", gemma(num_hidden_layers=3, attn_logit_softcapping=1.0, final_logit_softcapping=2.0,
                               rope_parameters=rope())),
    "gemma3_text": ("gemma3_text", GEMMA3),
    "gemma3": ("gemma3", GEMMA3),
    "gemma4_text": ("gemma4_text", dict(
        num_hidden_layers=3, head_dim=8, global_head_dim=12, sliding_window=WINDOW, hidden_size_per_layer_input=0,
        num_global_key_value_heads=1, attention_k_eq_v=True, final_logit_softcapping=2.0, tie_word_embeddings=True,
        layer_types=["sliding_attention", "full_attention", "full_attention"],
        rope_parameters=dict(sliding_attention=rope(20.0), full_attention=rope(
            1000.0, "proportional", partial_rotary_factor=0.5)))),
    "gemma4_text_shared": ("gemma4_text", dict(
        num_hidden_layers=4, head_dim=8, global_head_dim=8, sliding_window=WINDOW, hidden_size_per_layer_input=6,
        vocab_size_per_layer_input=VOCAB, num_kv_shared_layers=2, use_double_wide_mlp=True, tie_word_embeddings=True,
        layer_types=["sliding_attention", "full_attention"] * 2,
        rope_parameters=dict(sliding_attention=rope(20.0), full_attention=rope(
            1000.0, "proportional", partial_rotary_factor=0.5)))),
    "phi3": ("phi3", dict(rope_parameters=rope(), sliding_window=WINDOW)),
    "phi3_longrope": ("phi3", dict(
        hidden_size=32, original_max_position_embeddings=8, tie_word_embeddings=True, rope_parameters=rope(
            kind="longrope", partial_rotary_factor=0.75, **LONG))),
    "smollm3": ("smollm3", dict(num_hidden_layers=4, no_rope_layer_interval=2, rope_parameters=rope(),
                                tie_word_embeddings=True)),
    "granite": ("granite", dict(rope_parameters=rope(), attention_bias=True, mlp_bias=True, embedding_multiplier=3.0,
                                logits_scaling=0.7, residual_multiplier=0.6, attention_multiplier=0.9,
                                tie_word_embeddings=True)),
    "granite_swa": ("granite_swa", dict(num_hidden_layers=3, sliding_window=WINDOW, rope_parameters=rope(20.0),
                                        layer_types=["full_attention", "sliding_attention", "sliding_attention"],
                                        layer_rope_theta=[0, 20.0, 500.0], embedding_multiplier=3.0,
                                        logits_scaling=0.7, residual_multiplier=0.6, attention_multiplier=0.9,
                                        tie_word_embeddings=True)),
    "olmo2": ("olmo2", dict(rope_parameters=rope())),
    "olmo3": ("olmo3", dict(hidden_size=32, num_hidden_layers=4, sliding_window=WINDOW, rope_parameters=dict(
        full_attention=YARN, sliding_attention=rope(20.0)))),
    "exaone4": ("exaone4", dict(num_hidden_layers=3, sliding_window=WINDOW, sliding_window_pattern=2,
                                rope_parameters=LLAMA3)),
    "glm": ("glm", dict(head_dim=8, rope_parameters=rope(partial_rotary_factor=0.5))),
    "glm4": ("glm4", dict(head_dim=8, rope_parameters=rope(partial_rotary_factor=0.5))),
    "cohere": ("cohere", dict(rope_parameters=rope(), use_qk_norm=True, logit_scale=1.7, tie_word_embeddings=True)),
    "cohere2": ("cohere2", dict(num_hidden_layers=3, sliding_window=WINDOW, logit_scale=1.7, rope_parameters=rope(),
                                layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                                tie_word_embeddings=True)),
    "ernie4_5": ("ernie4_5", dict(head_dim=10, use_bias=True, rope_parameters=rope(), tie_word_embeddings=True)),
    "hunyuan_v1_dense": ("hunyuan_v1_dense", dict(head_dim=8, rope_parameters=rope(
        kind="dynamic", alpha=5.0, factor=1.0))),
    "seed_oss": ("seed_oss", dict(head_dim=10, attention_out_bias=True, rope_parameters=rope(), attention_dropout=0.0,
                                  residual_dropout=0.0)),
    "starcoder2": ("starcoder2", dict(sliding_window=WINDOW, rope_parameters=rope(), tie_word_embeddings=True)),
    "stablelm": ("stablelm", dict(hidden_size=32, use_qkv_bias=True, rope_parameters=rope(partial_rotary_factor=0.5))),
    "stablelm_parallel": ("stablelm", dict(hidden_size=32, use_parallel_residual=True, qk_layernorm=True,
                                           rope_parameters=rope(partial_rotary_factor=0.25))),
    "apertus": ("apertus", dict(rope_parameters=LLAMA3)),
    "arcee": ("arcee", dict(head_dim=10, mlp_bias=True, attention_bias=True, rope_parameters=rope())),
    "llama_biases": ("llama", dict(head_dim=10, mlp_bias=True, attention_bias=True, rope_parameters=rope(
        kind="linear", factor=2.5))),
    "lfm2": ("lfm2", dict(num_hidden_layers=3, layer_types=["conv", "full_attention", "conv"], conv_bias=True,
                          conv_L_cache=4, intermediate_size=45, block_multiple_of=4, block_ffn_dim_multiplier=1.2,
                          rope_parameters=rope(), tie_word_embeddings=True)),
    "lfm2_numbers": ("lfm2", dict(num_hidden_layers=3, full_attn_idxs=[2], block_auto_adjust_ff_dim=False,
                                  rope_parameters=rope(), tie_word_embeddings=True)),
    "qwen3_5": ("qwen3_5_text", dict(num_hidden_layers=3, head_dim=12, attention_bias=True, linear_num_key_heads=2,
                                     linear_num_value_heads=4, linear_key_head_dim=4, linear_value_head_dim=6,
                                     layer_types=["linear_attention", "full_attention", "linear_attention"],
                                     rope_parameters=rope(partial_rotary_factor=0.5))),
    "qwen3_next": ("qwen3_next", dict(num_hidden_layers=3, head_dim=8, linear_num_key_heads=2,
                                      linear_num_value_heads=4, linear_key_head_dim=12, linear_value_head_dim=8,
                                      layer_types=["linear_attention", "full_attention", "linear_attention"],
                                      num_experts=4, decoder_sparse_step=2, mlp_only_layers=[1],
                                      rope_parameters=rope(partial_rotary_factor=0.5))),
}
UNIT_OFFSET = ("gemma2", "gemma3_text", "gemma3", "qwen3_5_text", "qwen3_next")  # their norms multiply by 1 + weight


def make_model(model_type, options):
    options = {**BASE, **options}
    if model_type == "gemma3":
        vision = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2, image_size=8,
                      patch_size=4)
        config = AutoConfig.for_model("gemma3", text_config={**options, "model_type": "gemma3_text"},
                                      vision_config={**vision, "model_type": "siglip_vision_model"},
                                      mm_tokens_per_image=4, image_token_index=VOCAB - 1, boi_token_index=VOCAB - 2,
                                      eoi_token_index=VOCAB - 3)
        config._attn_implementation = "eager"
        return Gemma3ForConditionalGeneration(config)
    config = AutoConfig.for_model(model_type, **options)
    config._attn_implementation = "eager"
    return MODEL_FOR_CAUSAL_LM_MAPPING[type(config)](config)


def name_in_file(name):
    """A multimodal folder has the language model under another prefix than transformers' module."""
    if name.startswith("model.language_model."):
        return "language_model.model." + name.removeprefix("model.language_model.")
    return name


def check_names(folder, names):
    with safe_open(os.path.join(folder, "model.safetensors"), "pt") as file:
        missing = set(names) - set(file.keys())
    assert not missing, missing


def make_family(folder, seed, model_type, options):
    torch.manual_seed(seed)
    model = make_model(model_type, options).float().train()
    initialise(model, seed, std=0.2, gain=0.0 if model_type in UNIT_OFFSET else 1.0)
    with torch.no_grad():
        for i, b in enumerate(b for name, b in model.named_buffers() if name.endswith("layer_scalar")):
            b.fill_(0.9 - 0.1 * i)
    save_model(folder, model)
    tokens, labels = draw_batches(seed)
    if model_type == "gemma3":
        for p in list(model.model.vision_tower.parameters()) + list(model.model.multi_modal_projector.parameters()):
            p.requires_grad_(False)
        tokens[tokens >= VOCAB - 3] = 0  # no images
        labels[labels >= VOCAB - 3] = 0
    loss_of = loss_function(model, tokens, labels)
    out = {"tokens": tokens.int(), "labels": labels.int(), **prompt_and_logits(model, tokens)}
    out["loss"], grads = gradients(model, loss_of)
    grads = {name_in_file(n): t for n, t in grads.items()}
    check_names(folder, grads)
    out.update({"grad." + n: t for n, t in grads.items()})
    out.update(train(model, "adamw", loss_of, "", with_final=False))
    round_to_bf16(model)
    with torch.no_grad():
        out["bf16.loss"] = loss_of(0).reshape(1)
    write_golden(folder, out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--out", default=os.path.join(here, "models"))
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    be_deterministic()
    for seed, (name, (model_type, options)) in enumerate(FAMILIES.items(), start=200):
        if args.names and name not in args.names:
            continue
        folder = os.path.join(args.out, name)
        os.makedirs(folder, exist_ok=True)
        make_family(folder, seed, model_type, options)
        finish_folder(name, folder)


if __name__ == "__main__":
    main()
