#!/usr/bin/env python3
"""Writes the seed corpora of the fuzz targets into tests/fuzz/corpus/TARGET/: small files of every kind that a
target reads. Those whose names begin with "good" must be accepted.

    tests/fuzz/make_corpus.py
"""
import copy
import gzip
import json
import os
import struct

HERE = os.path.dirname(os.path.abspath(__file__))


def put(target, name, data):
    folder = os.path.join(HERE, "corpus", target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as f:
        f.write(data.encode() if isinstance(data, str) else data)


def text(data):
    return json.dumps(data, indent=1) + "\n"


# ---- Jobs
put("job", "good-gpt2.yaml", """model: {family: gpt2, layers: 4, hidden: 32, heads: 4, vocab: 128, max_seq: 32}
data: {train: mock, seq_len: 32}
train: {steps: 8, global_batch: 16, micro_batch: 1, save_every: 0, eval_every: 0}
optimizer: {lr: 3e-3}
parallel: {tp: 2, pp: 2, dp_shard: 2, dp: zero1}
launch: {ranks: 8}
""")
put("job", "good-llama.yaml", """model:
  init: auto
  family: llama
  hidden: 64
  num_hidden_layers: 2
  heads: 4
  kv_heads: 2
  ffn: 96
  vocab: 1k
  max_seq: 1024
  rope_theta: 5e5
data:
  train: [{path: a/b, weight: 2}, /c]
  valid: v
  seq_len: 1024
  order: torch
train:
  steps: 1000
  global_batch: 64
  micro_batch: 4
  seed: 7
  precision: bf16
  reduce_dtype: fp32
  clip_grad_norm: 0.5
  eval_every: 0
  save_every: 1k
  keep: 0
  out: runs/x
optimizer: {name: adamw, lr: 3e-4, betas: [0.9, 0.99], eps: 1e-7, weight_decay: 0.2,
            lr_scaling: sqrt, decay: all}
lr_schedule: {name: wsd, warmup_steps: 10, min_ratio: 0.2, decay_steps: 50}
parallel:
  dp: NO_SHARD
  pp: 1
  split: auto
  reshard_after_forward: true
  recompute: selective
  offload: {weights: device, gradients: device, optimizer: device, path: /off}
  bucket_bytes: 1Mi
  hook: none
  unused_parameters: zero
memory: {budget: 2Gi, fit: false}
launch: {ranks: 4, threads_per_rank: 2, as: threads, device: cpu}
checks: {replicas_every: 10, nonfinite: skip, watchdog: 500ms, desync: off}
""")
put("job", "good-groups.yaml", """model: {family: gpt2, layers: 2, hidden: 32, heads: 4, vocab: 128, max_seq: 32}
data: {train: mock, seq_len: 32}
train: {precision: bf16}
optimizer: {name: adamw, weight_decay: 0.1}
groups:
  - {match: '*.bias', weight_decay: 0, lr_scale: 2, betas: [0.8, 0.99], eps: 1e-6}
  - match: transformer.wte.*
    trainable: false
    dp: [zero1, zero3]
    offload: {weights: host, optimizer: device}
  - {match: "*", optimizer: sgd, momentum: 0.5, decay: all, dtype: fp32, offload.gradients: host}
parallel: {cp: 2, dp_replicate: 2}
launch: {ranks: 8}
""")
put("job", "good-strategies.yaml", """# A comment.
model: {family: gpt2, layers: 6, hidden: 32, heads: 4, vocab: 128, max_seq: 32, activation: gelu_new}
data: {train: mock, seq_len: 32}
train: {steps: 8, global_batch: 32, micro_batch: 1, precision: fp16, fp16: {initial_scale_power: 12}}
lr_schedule: {name: WarmupDecayLR, warmup_num_steps: 2, warmup_type: linear, total_num_steps: 8}
parallel: {dp: [zero1, zero3], dp_replicate: 2, dp_shard: 2, pp: 2, virtual_stages: 2, pp_schedule: interleaved,
  split: [2, 2, 1, 1], reshard_after_forward: 2, no_sync: false,
  hook: {name: powersgd, rank: 2, start_step: 4}}
launch: {ranks: 8}
""")
put("job", "good-mlp.yaml", "model: {family: mlp, layers: 2, hidden: 8, features: 4, classes: 3}\ndata: {train: \"x.safetensors\"}\ntrain: {epochs: 2, global_batch: 4}\n")
put("job", "anchors.yaml", "model: &m {family: gpt2}\ndata: *m\n<<: *m\ntrain: !!map {steps: 0x10}\n? complex\n: |\n  block\n  text\n")
put("job", "empty.yaml", "")

put("options", "good-plain", "--model.family\ngpt2\n--model.layers=2\n--model.hidden=32\n--model.heads=4\n--model.vocab=128\n--data.train=mock\n--train.steps=1e1\n--parallel.dp\nzero3\n--launch.ranks=2\n--quiet")
put("options", "good-sections", "--model={family: llama, layers: 2, hidden: 32, heads: 4, kv_heads: 2, ffn: 64, vocab: 100, max_seq: 64}\n--data={train: mock, seq_len: 8}\n--optimizer\n{name: lion, lr: 1e-4, betas: [0.9, 0.99]}\n--memory.budget=64Mi\n--checks.watchdog=1.5s\n--resume\nnever\n--parallel.split\n1,1\n--parallel.pp=2\n--launch.ranks=2")
put("options", "wrong", "--model.layer=2\n--train.steps\n-5\nstray\n--\n---x\n--=\n--train.epochs=1e400")

# ---- Models
MODELS = os.path.join(HERE, "..", "golden", "models")
for model in sorted(os.listdir(MODELS)):
    with open(os.path.join(MODELS, model, "config.json")) as f:
        put("config", "good-%s.json" % model, f.read())
put("config", "bert.json", text({"model_type": "bert", "hidden_size": 3}))


def safetensors(tensors, metadata=None):
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + size]}
        data += bytes(i % 7 for i in range(size))
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    return struct.pack("<Q", len(head)) + head + data


put("safetensors", "good-weights", safetensors(
    {"w": ("F32", [2, 3], 24), "b": ("BF16", [3], 6), "s": ("F16", [], 2), "e": ("F32", [0, 4], 0)}, {"format": "pt"}))
put("safetensors", "good-vectors", safetensors({"x": ("F32", [3, 2], 24), "y": ("I64", [3], 24)}))
put("safetensors", "good-targets", safetensors({"x": ("F64", [2, 2], 32), "y": ("F32", [2], 8)}))
put("safetensors", "hole", safetensors({"w": ("F32", [2], 12)}))

SHARD = "model-0000%d-of-00002.safetensors"
put("folder", "good-index.json", text({"metadata": {"total_size": 56}, "weight_map": {
    "a.weight": SHARD % 1, "a.bias": SHARD % 1, "b.weight": SHARD % 2, "b.bias": SHARD % 2}}))
put("folder", "wrong.json", text({"weight_map": {"a.weight": SHARD % 2, "c": "../x", "d": "/dev/zero", "e": 5}}))


# ---- Tokens
def shards(code, size, lengths, borders, ids):
    index = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, len(lengths), len(borders))
    index += struct.pack("<%di" % len(lengths), *lengths)
    offsets = [size * sum(lengths[:i]) for i in range(len(lengths))]
    index += struct.pack("<%dq" % len(lengths), *offsets) + struct.pack("<%dq" % len(borders), *borders)
    letter = {2: "H", 4: "i", 8: "q"}[size]
    return struct.pack("<I", len(index)) + index + struct.pack("<%d%s" % (len(ids), letter), *ids)


put("shards", "good-i32", shards(4, 4, [2, 3, 1], [0, 2, 3], [1, 2, 3, 4, 5, 6]))
put("shards", "good-u16", shards(8, 2, [5, 0, 7], [0, 1, 2, 3], list(range(12))))
put("shards", "good-i64", shards(5, 8, [9], [0, 1], list(range(9))))
put("shards", "large-ids", shards(4, 4, [4], [0, 1], [1, 2000000000, -5, 999]))

put("sidecar", "good-plain.json", text({"tokens": 5, "documents": 1, "text_bytes": 41, "vocab": 10, "append_eod": True,
                                        "tokenizer": "t.tokenizer.json"}))
put("sidecar", "others.json", text({"tokens": 6, "documents": 2, "text_bytes": -1, "vocab": 1e99, "append_eod": "x"}))

METASPACE = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True}
for name in ("gpt2", "llama3", "characters"):
    with open(os.path.join(HERE, "..", "golden", "tokenizer", name + ".json")) as f:
        full = json.load(f)
    full["decoder"] = full["decoder"] or METASPACE
    small = copy.deepcopy(full)
    merges = full["model"]["merges"][:24]
    pieces = [m if isinstance(m, list) else m.split(" ") for m in merges]
    words = [t["content"] for t in full["added_tokens"]]
    words += [w for w in full["model"]["vocab"] if len(w) == 1 or w == "<unk>" or w.startswith("<0x")] + ["".join(p) for p in pieces]
    small["model"]["vocab"] = {w: i for i, w in enumerate(dict.fromkeys(words))}
    small["model"]["merges"] = merges
    for t in small["added_tokens"]:
        t["id"] = small["model"]["vocab"][t["content"]]
    put("tokenizer", "good-%s.json" % name, json.dumps(small, ensure_ascii=name == "gpt2"))
    small["model"]["merges"] = [" ".join(p) for p in pieces]
    small["normalizer"] = {"type": "NFC"}
    small["post_processor"] = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|pad|>", "type_id": 0}},
                               {"Sequence": {"id": "A", "type_id": 0}}], "pair": [], "special_tokens": {
                                   "<|pad|>": {"id": "<|pad|>", "ids": [1], "tokens": ["<|pad|>"]}}}
    put("tokenizer", "more-%s.json" % name, json.dumps(small, ensure_ascii=False))

with open(os.path.join(HERE, "..", "golden", "tokenizer", "unigram.json")) as f:
    charsmap = next(v for v in json.load(f) if v["name"] == "t5")["set"]["normalizer"]
PIECES = [["<unk>", 0.0], ["</s>", 0.0], ["\u2581", -2.5], ["\u2581th", -4.25], ["e", -3.0], ["sh", -5.125], ["\u00e9", -7.5], ["<0xE2>", -20.0]]
put("tokenizer", "good-unigram.json", json.dumps({
    "version": "1.0", "added_tokens": [{"id": 1, "content": "</s>", "special": True}, {"id": 8, "content": "<m>", "lstrip": True,
                                                                                       "single_word": True, "normalized": True}],
    "normalizer": {"type": "Sequence", "normalizers": [charsmap, {"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"},
                                                       {"type": "Nmt"}, {"type": "Strip", "strip_left": True, "strip_right": True},
                                                       {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, METASPACE]}, "decoder": METASPACE,
    "model": {"type": "Unigram", "unk_id": 0, "vocab": PIECES, "byte_fallback": False}}))
put("tokenizer", "good-spelled.json", json.dumps({
    "added_tokens": [], "normalizer": {"type": "NFKC"}, "decoder": {"type": "ByteLevel"}, "pre_tokenizer": {
        "type": "Sequence", "pretokenizers": [{"type": "Punctuation", "behavior": "Contiguous"}, {"type": "ByteLevel"}, {"type": "Digits"},
                                              {"type": "Whitespace"}, {"type": "CharDelimiterSplit", "delimiter": "a"}]},
    "model": {"type": "BPE", "unk_token": "a", "vocab": {"a": 0, "\u0120": 1, "s": 2, "\u0120s": 3}, "merges": [["\u0120", "s"]]}}))
for name in ("bpe", "unigram"):
    with open(os.path.join(HERE, "..", "golden", "tokenizer", name + ".model"), "rb") as f:
        put("sentencepiece", "good-" + name, f.read())

# ---- Checkpoints: the name of the file, then what stands in it
put("checkpoint", "good-state", "trireme/state.json\n" + text({"tokens": 12345678901, "lr": 0.1, "job": "x", "step": 7}))
put("checkpoint", "good-config", "config.json\n" + text({"model_type": "gpt2", "n_layer": 2}))
put("checkpoint", "manifest", "trireme/manifest.json\n" + text({"version": 1, "step": 7, "files": {
    "config.json": {"bytes": 23, "xxh3_64": "0123456789abcdef"},
    "../x": {"bytes": 0, "xxh3_64": "99"}, "model.safetensors": {"bytes": 5}}}))
put("checkpoint", "good-weights", b"model.safetensors\n" + safetensors({"w": ("F32", [4], 16)}))
put("checkpoint", "good-tensors", b"trireme/state.safetensors\n" + safetensors({"m.w": ("F32", [4], 16)}))

# ---- Text: the name of the file, then what stands in it
PROSE = "It was a truth that Elizabeth\nowned a ship.\n\nDon't sail, 1825! \u00e9\u2014\U0001f6a2\n"
put("text", "good-prose", "t.txt\n" + PROSE)
put("text", "good-lines", "t.jsonl\n" + "".join(json.dumps({"text": p, "id": i}) + "\n" for i, p in enumerate(PROSE.split("\n"))))
put("text", "good-escapes", 't.json\n{"id": 1, "text": "a\\u0041\\ud83d\\udea2 \\n\\t"}\n\n{"text": ""}\n{"text": "b", "x": [1, {"text": 2}]}\n')
put("text", "good-packed", b"t.txt.gz\n" + gzip.compress(PROSE.encode() * 3, mtime=0))
put("text", "wrong", 't.jsonl\n{"text": 5}\n{"texts": "a"}\n{"text": "\\ud800"}\n{"text": "a"')

# ---- Requests to the TCP store (rendezvous/store_wire.h): op, key_bytes, value_bytes, expected_bytes, zero, number
def request(op, key, value=b"", expected=b"", number=0):
    head = struct.pack("<BBHHHq", op, len(key), len(value), len(expected), 0, number)
    return head + key + value + expected


# The first byte of tests/fuzz/target_store.c: whether the client is greeted
GREETED, STRANGER = b"\0", b"\2"
SET, GET, WAIT, ADD, REMOVE, COMPARE, WILL = range(7)
put("store", "good-add", GREETED + request(ADD, b"n", number=5))
put("store", "good-will", GREETED + request(WILL, b"w", b"lost", number=1000))
put("store", "good-compare", GREETED + request(COMPARE, b"c", b"two", b"one"))
answer = b"TRIREME2" + bytes(range(32)) + bytes(32)
put("store", "good-stranger", STRANGER + answer + request(SET, b"a", b"value"))
put("store", "good-set", GREETED + request(SET, b"a", b"value") + request(GET, b"a") + request(WAIT, b"a"))
put("store", "good-wait", GREETED + request(GET, b"never", number=60000) + request(SET, b"b", b"later"))
put("store", "good-remove", GREETED + request(ADD, b"calls", number=-1) + request(REMOVE, b"n"))
put("store", "good-wills", GREETED + request(WILL, b"w", b"x", number=1) + request(WILL, b"w") + request(WILL, b"a", b"x"))
put("store", "long", GREETED + request(SET, b"k" * 63, b"v" * 1024) + request(SET, b"k", b"v" * 1025))
put("store", "unknown", GREETED + request(7, b"k") + request(SET, b""))

# ---- Chat templates
put("jinja", "good-chatml", """{%- for message in messages %}
    {%- if loop.first and message['role'] != 'system' %}{{ bos_token }}{% endif -%}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- generation %}{{ message.content | string | trim }}<|im_end|>{% endgeneration %}
{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
""")
put("jinja", "good-tools", """{# tools, macros and namespaces #}
{%- set ns = namespace(last=-1, text='', seen=[]) -%}
{%- macro write(value, indent=2, name=none) -%}
    {%- if value is mapping -%}{% for k, v in value | dictsort %}{{ k }}={{ write(v, indent + 2) }};{% endfor %}
    {%- elif value is string or value is number -%}{{ value | tojson }}
    {%- elif value is iterable -%}[{% for v in value %}{{ write(v) }}{{ ', ' if not loop.last }}{% endfor %}]
    {%- else -%}{{ value | default('none', true) | string | upper }}{%- endif -%}
{%- endmacro -%}
{%- for tool in tools or [] %}{{ tool | tojson(indent=4) | indent(2) }}{{ write(value=tool.function.parameters) }}{% endfor %}
{%- for message in messages[::-1] if message.role in ('user', "assistant") and not message.tool_calls %}
    {%- set index = (messages | length - 1) - loop.index0 %}
    {%- if ns.last < 0 and message.content is string %}{% set ns.last = index %}{% endif %}
    {%- set ns.text = ns.text ~ index ~ loop.revindex ~ '{}|{}'.format(index, message.role[:2]) %}
{%- else %}nobody{%- endfor %}
{%- for message in messages -%}
    {%- if message.tool_calls %}{%- for call in message.tool_calls -%}
        {{ call.function.name }}({{ call['function']['arguments'].items() | map('join', '=') | join(', ') }})
    {%- endfor %}{%- endif %}
    {%- if loop.previtem is defined and loop.previtem.role == message.role %}{% continue %}{% endif %}
    {%- set content = message.content.split('</think>')[-1].lstrip('\\n') if message.content is string else 'x' %}
    {%- if loop.index > 100 %}{% break %}{% endif %}{{ content.replace('a', 'bb', 1)[1:-1].title() }}
{%- endfor -%}
{{ ns.text }}
""")
put("jinja", "good-values", """{% set a, b = (1, 2.5) %}{{ a + b * 2 ** 3 // 2 - 7 % 3 }}{{ -a }}{{ 10 / 4 }}{{ 7 // -2 }}{{ -7 % 3 }}
{{ [1, 'two', none, true, {'k': (1,)}] }}{{ range(2, 9, 3) | list }}{{ "a" 'b' "\\u00e9\\x41\\n" | length }}
{% set text | trim | upper %}  block {{ a }} {% endset %}{{ text }}{% filter lower %}LOUD{% endfilter %}
{% macro wrap(tag) %}<{{ tag }}{{ kwargs }}{{ varargs }}>{{ caller(1) if caller else '' }}{% endmacro %}{% call(x) wrap('p', class='c') %}{{ x }}{% endcall %}
{% raw %}{{ not }}{% endraw %}{{ wrap('b', 2) }}{% with q = 3, r = 4 %}{{ q < r <= 4 }}{% endwith %}
{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | list }}{{ messages | rejectattr('tool_calls') | first }}
{{ [3, 1, 2] | sort(reverse=true) | join('-') }}{{ ['b', 'A', 'b'] | unique | list }}{{ 'x' in 'xyz' and 'q' not in {'q': 1}.values() }}
{{ '{} and {name}'.format(1, name='n') }}{{ 'a,b,,c'.split(',', 2) }}{{ 'abc'[::-1] }}{{ -3.5 | abs }}{{ '12' | int + '1e3' | float }}
{% set j = joiner() %}{{ j() }}{{ j() }}{{ dict(a=1, b=2) | items | list }}
{{ strftime_now('%Y-%m-%d') }}{{ undefined_name }}{{ undefined_name is defined }}{{ [1, 2] | sum }}
{{ "quoted 'both' \\"ways\\"" | tojson }}{{ ("<" ~ 'x' | e) }}{{ 'a' | safe + '<' }}{{ [[1, 2], [3]] | tojson(indent=1, sort_keys=true) }}
""")
put("jinja", "good-deep", "{{ " + "(" * 40 + "1" + ")" * 40 + " }}" + "{% if a %}" * 40 + "x" + "{% endif %}" * 40 +
    "{% for a in range(9) %}{% for b in range(9) %}{{ a * b ~ 'x' * b }}{% endfor %}{% endfor %}\n")
put("jinja", "wrong-filter", "{{ messages | tojsn }}\n")
put("jinja", "wrong-recursion", "{% macro f(x) %}{{ f(x + 1) }}{% endmacro %}{{ f(0) }}\n")
put("jinja", "wrong-memory", "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}\n")
put("jinja", "wrong-steps", "{% for a in range(9999) %}{% for b in range(9999) %}{{ loop.index }}{% endfor %}{% endfor %}\n")
put("jinja", "wrong-refused", "{{ raise_exception('roles must alternate') }}{% include 'x' %}\n")
