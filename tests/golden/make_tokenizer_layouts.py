"""Writes tokenizers of many model families into a folder, for compare_tokenizers.py: the steps and patterns of published
tokenizer.json files, with vocabularies trained here, because the published ones cannot be had. The folder is not kept.

    python tests/golden/make_tokenizer_layouts.py FOLDER      (tokenizers 0.23, sentencepiece 0.2)

Files with published vocabularies come from packages: see docs/results/2026-11-28-tokenizers.md.
"""
import base64
import collections
import json
import pathlib
import random
import sys

import sentencepiece
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from make_tokenizer_golden import CL100K, DEEPSEEK_V3, GPT4O, LLAMA3, MARK, QWEN2, TEKKEN
from tokenizer_corpus import make_documents, prose

MERGES = 24000
BLOOM = " ?[^(\\s|[.,!?…。，、।۔،])]+"


def level(prefix=False, regex=True):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}


def split(pattern, behavior="Isolated", invert=False):
    kind = "String" if len(pattern) == 1 else "Regex"
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def sequence(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


def normalizers(*steps):
    return {"type": "Sequence", "normalizers": list(steps)}


def replace(old, new):
    return {"type": "Replace", "pattern": {"String": old}, "content": new}


def replace_regex(old, new):
    return {"type": "Replace", "pattern": {"Regex": old}, "content": new}


def metaspace(scheme, splits=True):
    return {"type": "Metaspace", "replacement": MARK, "prepend_scheme": scheme, "split": splits}


def decoders(*more):
    return {"type": "Sequence", "decoders": [replace(MARK, " "), {"type": "ByteFallback"}, {"type": "Fuse"}, *more]}


STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}


def added(vocab, *tokens):
    """Tokens with letters for flags: single word, left and right strip, normalized, special."""
    out, fresh = [], len(vocab)
    for content, flags in tokens:
        number = vocab.get(content, fresh)
        fresh += number == fresh
        out.append({"id": number, "content": content, "single_word": "w" in flags, "lstrip": "l" in flags,
                    "rstrip": "r" in flags, "normalized": "n" in flags, "special": "s" in flags})
    return out


def tokenizer(model, **fields):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": None, "post_processor": None, "decoder": None, "model": model, **fields}


def train_bytes(documents, pre_tokenizer, specials):
    """Merges of bytes, with the pieces of this pre-tokenizer."""
    blank = tokenizer({"type": "BPE", "vocab": {}, "merges": []}, pre_tokenizer=pre_tokenizer)
    trained = Tokenizer.from_str(json.dumps(blank))
    trained.train_from_iterator(documents, trainers.BpeTrainer(
        vocab_size=MERGES, special_tokens=specials, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return json.loads(trained.to_str())["model"]


def byte_layouts(documents):
    end, chat = ("<|endoftext|>", "s"), (("<|im_start|>", "s"), ("<|im_end|>", "s"), ("<tool_call>", ""))
    last, digits = level(regex=False), {"type": "Digits", "individual_digits": True}
    spaces = tuple((" " * n, "n") for n in range(31, 1, -1)) + tuple(("\t" * n, "n") for n in range(9, 1, -1))
    falcon = sequence({"type": "Punctuation", "behavior": "Contiguous"}, level(),
                      {"type": "Digits", "individual_digits": False}, split("[0-9][0-9][0-9]"))
    deepseek = sequence(*(split(p) for p in DEEPSEEK_V3), last)
    layouts = [
        ("gpt2", level(), {}, [end]),
        ("phi2", level(), {}, [end, *spaces]),
        ("llama3", sequence(split(LLAMA3), last), {"ignore_merges": True}, [("<|begin_of_text|>", "s"), ("<|eot_id|>", "s")]),
        ("qwen2", sequence(split(QWEN2), last), {}, [end, *chat]),
        ("granite", sequence(digits, level()), {}, [end, *(("<fim_prefix>", "s"), ("<reponame>", "s"))]),
        ("deepseek", deepseek, {}, [("<｜begin▁of▁sentence｜>", "s"), ("<think>", "n"), ("<｜User｜>", "n")]),
        ("phi4", sequence(split(CL100K, "Removed", True), last), {}, [("<|im_start|>", "srl"), ("<|im_end|>", "srl")]),
        ("tekken", sequence(split(TEKKEN), last), {"ignore_merges": True}, [("<s>", "s"), ("[INST]", "s")]),
        ("gpt-oss", sequence(split(GPT4O), last), {}, [("<|start|>", "s"), ("<|message|>", "s")]),
        ("falcon", falcon, {}, [end, (">>TITLE<<", "s")]),
        ("bloom", sequence(split(BLOOM), last), {}, [("<s>", "s"), ("</s>", "s"), ("<unk>", "s")]),
        ("roberta", level(True), {}, [("<s>", "ns"), ("<mask>", "sl"), ("hello", "w")]),
    ]
    for name, pre, model, tokens in layouts:
        trained = train_bytes(documents, pre, [t[0] for t in tokens[:1]])
        norm = {"type": "NFC"} if name == "qwen2" else None
        yield name, tokenizer({**trained, **model}, normalizer=norm, pre_tokenizer=pre, decoder=level(),
                              added_tokens=added(trained["vocab"], *tokens))


def train_pieces(folder, name, documents, **options):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(line for d in documents for line in d.split("\n") if line.strip("\0")), minloglevel=2,
        model_prefix=str(folder / name), character_coverage=1.0, num_threads=2, max_sentence_length=20000, **options)
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{name}.model"))


def charsmap_of(folder, name):
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString((folder / f"{name}.model").read_bytes())
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()}


def pieces_of(model):
    return [[model.id_to_piece(i), model.get_score(i)] for i in range(model.get_piece_size())]


def merges_of(pieces):
    """The merges of a BPE model of SentencePiece, as HuggingFace's converters make them: each way to divide a piece into two,
    the best score first."""
    number, found = {name: i for i, (name, _) in enumerate(pieces)}, []
    for name, score in pieces:
        here = [(name[:k], name[k:], score) for k in range(1, len(name)) if name[:k] in number and name[k:] in number]
        found += sorted(here, key=lambda m: (number[m[0]], number[m[1]]))
    return [[left, right] for left, right, _ in sorted(found, key=lambda m: -m[2])]


def character_layouts(folder, documents):
    names = dict(unk_id=0, bos_id=1, eos_id=2, pad_id=-1)
    model = train_pieces(folder, "bpe", documents, model_type="bpe", vocab_size=12000, byte_fallback=True, split_digits=True,
                         normalization_rule_name="identity", remove_extra_whitespaces=False, allow_whitespace_only_pieces=True,
                         user_defined_symbols=["\n"], **names)
    pieces = pieces_of(model)
    vocab = {name: i for i, (name, _) in enumerate(pieces)}
    bpe = {"type": "BPE", "dropout": None, "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "vocab": vocab,
           "merges": merges_of(pieces)}
    prepend = normalizers({"type": "Prepend", "prepend": MARK}, replace(" ", MARK))
    plain = [("<unk>", "s"), ("<s>", "s"), ("</s>", "s")]
    yield "llama2", tokenizer(bpe, normalizer=prepend, decoder=decoders(STRIP), added_tokens=added(vocab, *plain))
    yield "phi3", tokenizer(bpe, normalizer=prepend, decoder=decoders(STRIP), added_tokens=added(
        vocab, ("<unk>", "s"), ("<s>", "s"), ("</s>", "r"), ("<|user|>", "sr"), ("<|end|>", "sr")))
    yield "mistral", tokenizer(bpe, pre_tokenizer=metaspace("first", False), decoder=decoders(STRIP), added_tokens=added(
        vocab, *plain, ("[INST]", "s")))
    lines = tuple(("\n" * n, "") for n in range(2, 8)) + tuple((MARK * n, "") for n in range(2, 8))
    yield "gemma", tokenizer(bpe, normalizer=replace(" ", MARK), pre_tokenizer=split(" ", "MergedWithPrevious"),
                             decoder=decoders(), added_tokens=added(vocab, *plain, ("<start_of_turn>", "s"), *lines))


def unigram_layouts(folder, documents):
    options = dict(model_type="unigram", vocab_size=12000)
    t5 = train_pieces(folder, "t5", documents, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, **options)
    map_step = charsmap_of(folder, "t5")
    pieces = pieces_of(t5)
    vocab = {name: i for i, (name, _) in enumerate(pieces)}
    model = {"type": "Unigram", "unk_id": 2, "vocab": pieces}
    words = sequence({"type": "WhitespaceSplit"}, metaspace("always"))
    extra = [(f"<extra_id_{i}>", "s") for i in range(9, -1, -1)]
    meta = metaspace("always")
    yield "t5", tokenizer(model, normalizer=map_step, pre_tokenizer=words, decoder=meta,
                          added_tokens=added(vocab, ("<pad>", "s"), ("</s>", "s"), ("<unk>", "s"), *extra))
    yield "xlm-r", tokenizer(model, normalizer=map_step, pre_tokenizer=meta, decoder=meta, added_tokens=added(
        vocab, ("<pad>", "s"), ("</s>", "s"), ("<unk>", "s"), ("<mask>", "sl")))
    clean = normalizers(map_step, {"type": "Strip", "strip_left": False, "strip_right": True}, replace_regex(" {2,}", MARK))
    yield "pegasus", tokenizer(model, normalizer=clean, pre_tokenizer=meta, decoder=meta, added_tokens=added(vocab, ("</s>", "s")))
    yield "nmt", tokenizer(model, normalizer=normalizers({"type": "Nmt"}, {"type": "NFKC"}, replace_regex(" {2,}", " ")),
                           pre_tokenizer=meta, decoder=meta)
    albert = train_pieces(folder, "albert", [d.lower() for d in documents], pad_id=0, unk_id=1, bos_id=-1, eos_id=2, **options)
    map_step = charsmap_of(folder, "albert")
    pieces = pieces_of(albert)
    vocab = {name: i for i, (name, _) in enumerate(pieces)}
    steps = normalizers(replace("``", '"'), replace("''", '"'), {"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"},
                        map_step, replace_regex(" {2,}", " "))
    yield "albert", tokenizer({"type": "Unigram", "unk_id": 1, "vocab": pieces}, normalizer=steps, pre_tokenizer=meta, decoder=meta,
                              added_tokens=added(vocab, ("<pad>", "s"), ("[CLS]", "s"), ("[MASK]", "sl")))
    fallback = train_pieces(folder, "unigram_bytes", documents, byte_fallback=True, unk_id=0, bos_id=1, eos_id=2,
                            normalization_rule_name="identity", remove_extra_whitespaces=False, **options)
    pieces = pieces_of(fallback)
    vocab = {name: i for i, (name, _) in enumerate(pieces)}
    bytes_model = {"type": "Unigram", "unk_id": 0, "vocab": pieces, "byte_fallback": True}
    yield "unigram-bytes", tokenizer(bytes_model, pre_tokenizer=metaspace("first", False), decoder=decoders(STRIP),
                                     added_tokens=added(vocab, ("<unk>", "s"), ("<s>", "s"), ("</s>", "s")))
    yield "unigram-punctuation", tokenizer({**bytes_model, "byte_fallback": False}, decoder=meta, pre_tokenizer=sequence(
        {"type": "Whitespace"}, {"type": "Punctuation", "behavior": "MergedWithPrevious"}, {"type": "Digits", "individual_digits": True},
        meta))


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    documents = make_documents(3_000_000, seed=5)
    # SentencePiece wants each character in the vocabulary, so it gets a text without the rare ones.
    text = prose(random.Random(6), 3_000_000) + "\n\n".join(documents[:100])
    rare = {ord(c): None for c, _ in collections.Counter(text).most_common()[3500:]}
    clean = text.translate(rare).split("\n\n")
    for layouts in (character_layouts(folder, clean), unigram_layouts(folder, clean)):
        for name, root in layouts:
            (folder / f"{name}.json").write_text(json.dumps(root, ensure_ascii=False), encoding="utf-8")
            print(name, flush=True)


if __name__ == "__main__":
    main()
