#!/usr/bin/env python3
"""Golden values of GGUF files: tests/golden/gguf/.

blocks.gguf           tensors of every kind of elements that Trireme reads, of random blocks
blocks.safetensors    <name> F32: what gguf.dequantize makes of them; quantize.in F32 and quantize.Q8_0, .BF16, .F16 U8:
                      what gguf.quantize makes of it
NAME.txt              what llama.cpp's converter makes of tests/golden/models/NAME with --outtype f32: a line for each
                      key (name, type, items, hash) and tensor (name, kind, dimensions, hash), without the tokenizer, the
                      name and the size label
vocab/                a small folder with a tokenizer; vocab.txt: the keys of its tokenizer
adapter/               a small adapter of lora/llama; adapter.txt: all keys and tensors of its file
unigram/               a small folder whose tokenizer is Unigram; unigram.txt: the keys of its tokenizer
and tests/fuzz/corpus/gguf/good-model, the GGUF file of vocab/

llama.cpp's converter is read from a checkout, such as vendor/llama.cpp in the source package of llama-cpp-python:
  make_gguf.py --llama-cpp DIR
"""
import argparse
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
OUT = HERE / "gguf"
FAMILIES = ["llama_biases", "llama_gqa", "llama_llama3", "llama_yarn", "mistral", "ministral3", "qwen2", "qwen3", "granite",
            "phi3", "phi3_longrope", "gpt2_new", "smollm3", "olmo2", "olmo3", "starcoder2", "seed_oss", "arcee", "cohere",
            "exaone4", "gemma2", "gemma3_text", "apertus", "cohere2", "ernie4_5", "glm", "glm4", "granite_swa",
            "hunyuan_v1_dense", "lfm2_numbers", "stablelm", "stablelm_parallel", "qwen3_5"]


def fnv(data):
    h = 0xcbf29ce484222325
    for b in data:
        h = (h ^ b) * 0x100000001b3 & 0xffffffffffffffff
    return h


def payload(value, kind, gguf):
    V = gguf.GGUFValueType
    if kind == V.STRING:
        b = value.encode()
        return struct.pack("<Q", len(b)) + b
    code = {V.UINT8: "B", V.INT8: "b", V.UINT16: "H", V.INT16: "h", V.UINT32: "I", V.INT32: "i", V.FLOAT32: "f",
            V.BOOL: "?", V.UINT64: "Q", V.INT64: "q", V.FLOAT64: "d"}[kind]
    return struct.pack("<" + code, value)


def describe(path, gguf, wants):
    reader = gguf.GGUFReader(path)
    lines = []
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or not wants(key):
            continue
        value = field.contents()
        items = value if field.types[0] == gguf.GGUFValueType.ARRAY else [value]
        data = b"".join(payload(x, field.types[-1], gguf) for x in items)
        lines.append(f"key {key} {int(field.types[-1])} {len(items)} {fnv(data):016x}")
    return reader, lines


def describe_tensors(reader):
    return [f"tensor {t.name} {int(t.tensor_type)} {' '.join(str(int(d)) for d in t.shape)} {fnv(t.data.tobytes()):016x}"
            for t in reader.tensors]


def convert(folder, out, base, gguf, patch):
    hparams = base.ModelBase.load_hparams(folder, False)
    cls = base.ModelBase.from_model_architecture(base.get_model_architecture(hparams, base.ModelType.TEXT))
    cls.no_mtp = True
    from conversion.llama import LlamaModel  # Mistral3Model hands its work to a class below it
    old = [(c, k, getattr(c, k)) for c in (cls, LlamaModel) for k in patch]
    for c, k, _ in old:
        setattr(c, k, patch[k])
    cls(folder, gguf.LlamaFileType.ALL_F32, out).write()
    for c, k, f in old:
        setattr(c, k, f)


def fields_of_converter(config):
    """Numbers of the model under the names of older files, which the converter reads and transformers 5 does not write."""
    kind, rope = config["model_type"], config.get("rope_parameters")
    if kind == "gpt2":
        return {"n_ctx": config["n_positions"]}
    if kind == "cohere2":
        return {"rotary_pct": 1.0}
    if kind == "glm":
        return {"seq_length": config["max_position_embeddings"], "layernorm_epsilon": config["rms_norm_eps"],
                "attention_dim": config["head_dim"], "rope_ratio": rope["rope_theta"] / 10000}
    if kind == "granite_swa":
        return {"no_rope_layers": [int(theta > 0) for theta in config["layer_rope_theta"]]}
    if kind == "hunyuan_v1_dense":  # for "dynamic" it takes 10000 and 32k for granted
        return {"rope_parameters": {**rope, "rope_type": "xdrope"}}
    return {}


def stack_norms(path):
    """StableLM's norms of single heads as matrices: the converter means to do it, and loses the result."""
    from safetensors.numpy import load_file, save_file
    weights, stacks = load_file(path), {}
    for key in sorted(k for k in weights if "_layernorm.norms." in k):
        stacks.setdefault(key.split(".norms.")[0] + ".weight", []).append(weights.pop(key))
    save_file({**weights, **{key: np.stack(rows) for key, rows in stacks.items()}}, path, {"format": "pt"})


def make_families(base, gguf):
    import torch
    exp = torch.exp
    torch.exp = lambda x: exp(x.double()).to(x.dtype)  # rounded correctly; torch's is off by a bit for some
    with tempfile.TemporaryDirectory() as scratch:
        for name in FAMILIES:
            folder = Path(scratch) / name
            shutil.copytree(HERE / "models" / name, folder)
            (folder / "golden.safetensors").unlink()
            config = json.load(open(folder / "config.json"))
            config.update(fields_of_converter(config))
            json.dump(config, open(folder / "config.json", "w"))
            if config.get("qk_layernorm"):
                stack_norms(folder / "model.safetensors")
            if config["model_type"].startswith("gemma3"):  # the converter leaves out rows behind the vocabulary
                rows = {f"t{i}": i for i in range(config["vocab_size"])}
                json.dump({"model": {"vocab": rows}, "added_tokens": []}, open(folder / "tokenizer.json", "w"))
            out = Path(scratch) / "out.gguf"
            convert(folder, out, base, gguf, {"set_vocab": lambda self: None})
            reader, lines = describe(out, gguf, lambda key: not key.startswith(("tokenizer.", "general.name", "general.size_label")))
            if name == "glm":  # the converter leaves the width of a head out, and llama.cpp takes hidden / heads
                width = fnv(struct.pack("<I", config["head_dim"]))
                lines += [f"key chatglm.attention.{of}_length 4 1 {width:016x}" for of in ("key", "value")]
            (OUT / f"{name}.txt").write_text("\n".join(lines + describe_tensors(reader)) + "\n")
    torch.exp = exp


def make_adapter(llama_cpp, gguf):
    from safetensors.torch import load_file, save_file
    made, lora = OUT / "adapter", HERE / "lora" / "llama"
    made.mkdir(exist_ok=True)
    config = json.load(open(lora / "trained" / "adapter_config.json"))
    config.update(alpha_pattern={}, modules_to_save=None)  # which the converter ignores, and refuses
    json.dump(config, open(made / "adapter_config.json", "w"), indent=1)
    weights = load_file(lora / "trained" / "adapter_model.safetensors")
    save_file({k: w for k, w in weights.items() if ".lora_" in k}, made / "adapter_model.safetensors")
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "out.gguf"
        subprocess.run([sys.executable, os.path.join(llama_cpp, "convert_lora_to_gguf.py"), "--base", lora, "--outfile", out,
                        made], check=True)
        reader, lines = describe(out, gguf, lambda key: True)
        (OUT / "adapter.txt").write_text("\n".join(lines + describe_tensors(reader)) + "\n")


def make_unigram(base, gguf):
    from conversion.t5 import T5Model
    from transformers import LlamaConfig, LlamaForCausalLM
    import torch
    folder = OUT / "unigram"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    model = HERE / "tokenizer" / "unigram.model"
    (folder / "tokenizer.json").write_text(json.dumps(unigram_file(model), ensure_ascii=False))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    torch.manual_seed(6)
    LlamaForCausalLM(LlamaConfig(vocab_size=402, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                                 num_attention_heads=2, max_position_embeddings=32, eos_token_id=1, bos_token_id=None,
                                 pad_token_id=0, tie_word_embeddings=True)).to(torch.bfloat16).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        copy, out = Path(scratch) / "unigram", Path(scratch) / "out.gguf"
        shutil.copytree(folder, copy)
        shutil.copy(model, copy / "tokenizer.model")
        convert(copy, out, base, gguf, {"set_vocab": T5Model.set_vocab})
        _, lines = describe(out, gguf, lambda key: key.startswith(("tokenizer.", "general.")))
        (OUT / "unigram.txt").write_text("\n".join(lines) + "\n")


def unigram_file(path):
    """The tokenizer.json that transformers' converter makes of a Unigram model."""
    import base64
    from sentencepiece import sentencepiece_model_pb2
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(path.read_bytes())
    special = [(i, p) for i, p in enumerate(proto.pieces) if p.type in (2, 3, 4)]
    space = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    charsmap = base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{"id": i, "content": p.piece, "single_word": False, "lstrip": False, "rstrip": False,
                              "normalized": False, "special": p.type != 4} for i, p in special],
            "normalizer": {"type": "Sequence", "normalizers": [
                {"type": "Precompiled", "precompiled_charsmap": charsmap}, {"type": "Strip", "strip_left": False,
                                                                           "strip_right": True},
                {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "\u2581"}]},
            "pre_tokenizer": space, "decoder": space,
            "post_processor": {"type": "TemplateProcessing", "pair": [], "single": [
                {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
                "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}}},
            "model": {"type": "Unigram", "unk_id": proto.trainer_spec.unk_id, "vocab": [[p.piece, p.score] for p in proto.pieces],
                      "byte_fallback": False}}


def make_vocab(base, gguf):
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
    import torch
    folder = OUT / "vocab"
    shutil.rmtree(folder, ignore_errors=True)
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    bpe.decoder = decoders.ByteLevel()
    bpe.train_from_iterator(["the small text that the words are made of, and the other words"],
                            trainers.BpeTrainer(vocab_size=280, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                                special_tokens=["<end>", "<|turn|>"]))
    bpe.add_tokens([AddedToken("<tool>", special=False, normalized=False)])
    bpe.post_processor = processors.TemplateProcessing(single="<|turn|> $A", pair="<|turn|> $A <|turn|> $B",
                                                       special_tokens=[("<|turn|>", bpe.token_to_id("<|turn|>"))])
    made = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<end>", bos_token="<|turn|>")
    made.chat_template = "{% for m in messages %}<|turn|>{{ m.content }}<end>{% endfor %}"
    made.save_pretrained(folder)
    torch.manual_seed(5)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=290, hidden_size=32, intermediate_size=32, num_hidden_layers=1,
                                         num_attention_heads=2, max_position_embeddings=32, eos_token_id=0, bos_token_id=1,
                                         tie_word_embeddings=True)).to(torch.bfloat16)
    model.save_pretrained(folder)
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "out.gguf"
        convert(folder, out, base, gguf, {"get_vocab_base_pre": lambda self, tokenizer: "gpt-2"})
        _, lines = describe(out, gguf, lambda key: key.startswith(("tokenizer.", "general.")))
        (OUT / "vocab.txt").write_text("\n".join(lines) + "\n")
        corpus = HERE.parent / "fuzz" / "corpus" / "gguf"
        corpus.mkdir(exist_ok=True)
        shutil.copy(out, corpus / "good-model")


def make_blocks(gguf):
    from safetensors.numpy import save_file
    T = gguf.GGMLQuantizationType
    draw = np.random.default_rng(7)
    writer = gguf.GGUFWriter(OUT / "blocks.gguf", "llama")
    golden = {}
    for kind in (T.F32, T.F16, T.BF16, T.Q8_0, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q2_K, T.Q3_K, T.Q4_K, T.Q5_K, T.Q6_K,
                 T.IQ4_NL, T.IQ4_XS, T.MXFP4):
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = 6
        data = draw.integers(0, 256, (2, blocks * size), dtype=np.uint8)
        for row in data:  # scales are finite
            view = row.reshape(blocks, size)
            for at in {T.Q8_0: (0,), T.Q4_0: (0,), T.Q5_0: (0,), T.Q4_1: (0, 2), T.Q5_1: (0, 2), T.Q2_K: (80, 82),
                       T.Q3_K: (108,), T.Q4_K: (0, 2), T.Q5_K: (0, 2), T.Q6_K: (208,), T.IQ4_NL: (0,),
                       T.IQ4_XS: (0,)}.get(kind, ()):
                view[:, at:at + 2] = draw.normal(size=blocks).astype(np.float16).view(np.uint8).reshape(blocks, 2)
            if kind == T.MXFP4:
                view[:, 0] = [0, 1, 2, 120, 127, 140]
            if kind == T.F32:
                row[:] = draw.normal(size=blocks).astype(np.float32).view(np.uint8)
            if kind in (T.F16, T.BF16):
                row[:] = draw.integers(0, 0x7000, blocks, dtype=np.uint16).view(np.uint8)
        writer.add_tensor(kind.name, data, raw_shape=data.shape, raw_dtype=kind)
        golden[kind.name] = gguf.dequantize(data.view(np.float32) if kind == T.F32 else data.view(np.float16) if kind == T.F16
                                            else data, kind).astype(np.float32).reshape(2, blocks * elements)
    x = (draw.normal(size=(8, 64)) * np.exp(draw.normal(size=(8, 1)) * 4)).astype(np.float32)
    x[3] = 0
    golden["quantize.in"] = x
    for kind in (T.Q8_0, T.BF16, T.F16):
        golden["quantize." + kind.name] = np.ascontiguousarray(gguf.quantize(x, kind)).view(np.uint8)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    save_file(golden, OUT / "blocks.safetensors")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--llama-cpp", required=True)
    where = parser.parse_args().llama_cpp
    sys.path[:0] = [where, os.path.join(where, "gguf-py")]
    import gguf
    from conversion import base, load_all_models
    load_all_models()
    OUT.mkdir(exist_ok=True)
    make_blocks(gguf)
    make_families(base, gguf)
    make_vocab(base, gguf)
    make_adapter(where, gguf)
    make_unigram(base, gguf)


main()
