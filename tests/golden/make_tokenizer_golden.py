"""Writes tests/golden/tokenizer/: tokenizers that HuggingFace's tokenizers trained on a text made
here, and the ids that it gives hard texts under many settings.

    python tests/golden/make_tokenizer_golden.py                  (tokenizers 0.23)
    python tests/golden/make_tokenizer_golden.py --check FOLDER   opens a folder that
        tokenizer_save_folder wrote for the first trained tokenizer, in tokenizers and in
        transformers, and compares the ids
"""
import copy
import json
import pathlib
import random
import sys

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

OUT = pathlib.Path(__file__).parent / "tokenizer"
SPECIAL = ["<|endoftext|>", "<|pad|>"]
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
GPT4O = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve"
    r"|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPACES = [9, 10, 11, 12, 13, 28, 31, 32, 0x85, 0xA0, 0x1680, 0x180E, 0x2000, 0x200A, 0x200B, 0x2028,
          0x2029, 0x202F, 0x205F, 0x2060, 0x3000, 0xFEFF]
FRAGMENTS = [
    "'s", "'S", "'\u017f", "'T", "'ll", "'Ll", "'re", "'VE", "don't", "''s", "1", "123", "12345",
    "\u0663\u0664\u0665", "\u00bd\u00b2", "\u2177", "\U0001d7d8\U0001d7d9", "\r\n", "\n\n\n", "   ",
    "\t\t", "  \n  ", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f3f3\ufe0f\u200d\U0001f308",
    "e\u0301\u0327", "नमस्ते", "สวัสดี", "العربية", "עברית", "한국어", "汉字漢字", "ひらがな", "ß", "ﬁ",
    "İ", "\u212a", "<|endoftext|>", "<|endoftext", "|>", "<|pad|>", "<w>", "<left>", "<right>",
    "  <both>  ", "<n> x", "word", "_", "__init__", "\0", "\x01\x1f\x7f", "\ufeff", "\ufffe",
    "\U0010ffff", "\u1c89\u1c8a", "\U0002ebf0", "\U00016d40", "\U00010d40", "\U00011de0\U00011de1",
    "a" * 60, "ab" * 100, "-" * 70, "\u200d", "\u180e", " \u180e ", "\x85", "\xa0", "über", "naïve",
]


def make_documents():
    """Sentences of invented words whose frequencies fall like those of a language."""
    rng = random.Random(7)
    syllables = [c + v + e for c in "b br d f g k l m n p r s sh st t th v w".split() for v in "aeiou"
                 for e in ("", "n", "r", "st")]
    words = ["".join(rng.choice(syllables) for _ in range(rng.choice((1, 2, 2, 3, 4)))) for _ in range(900)]
    weights = [1 / (n + 3) for n in range(len(words))]
    extra = ["don't", "it's", "we'll", "1987", "42", "3.14", "naïve", "Größe", "мир", "слово", "日本",
             "(so)", "aaaa", "aaaaaaa", "hahaha", "--", "...", "x_y", "😀"]
    documents = []
    for _ in range(60):
        lines = []
        for _ in range(rng.randint(2, 9)):
            picked = rng.choices(words, weights, k=rng.randint(4, 14))
            picked = [rng.choice(extra) if rng.random() < 0.08 else w for w in picked]
            lines.append(" ".join(picked).capitalize() + rng.choice(". . . ? ! ,".split()))
        documents.append(rng.choice(("\n", "\n\n", "  ", " ")).join(lines) + "\n")
    return documents


def train(documents, pre_tokenizer):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=1258, special_tokens=SPECIAL, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(documents, trainer)
    return json.loads(tokenizer.to_str())


def level(prefix, regex):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}


def split(pattern):
    return {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}


def sequence(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


def added(vocab, *tokens):
    out, fresh = [], len(vocab)
    for content, flags in tokens:
        number = vocab.get(content, fresh)
        fresh += number == fresh
        out.append({"id": number, "content": content, "single_word": "w" in flags, "lstrip": "l" in flags,
                    "rstrip": "r" in flags, "normalized": "n" in flags, "special": "s" in flags})
    return out


def template(*pieces):
    """TemplateProcessing whose single form has these pieces; "$A" is the text."""
    single = [{"Sequence": {"id": "A", "type_id": 0}} if p == "$A" else {"SpecialToken": {"id": p, "type_id": 0}}
              for p in pieces]
    known = {"<|endoftext|>": [0], "<|pad|>": [1], "<both>": [1, 0, 2]}
    tokens = {p: {"id": p, "ids": known[p], "tokens": [p] * len(known[p])} for p in pieces if p != "$A"}
    return {"type": "TemplateProcessing", "single": single, "pair": single + [
        {"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": tokens}


def post_processors():
    """name, the field post_processor."""
    offsets = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
    both = lambda kind: {"type": kind, "sep": ["<|pad|>", 1], "cls": ["<|endoftext|>", 0]}
    yield "none", None
    yield "ByteLevel", offsets
    yield "begin", template("<|endoftext|>", "$A")
    yield "begin and end", template("<|endoftext|>", "$A", "<|pad|>", "<|pad|>")
    yield "end of several ids", template("$A", "<both>")
    yield "as Llama 3", {"type": "Sequence", "processors": [offsets, template("<|endoftext|>", "$A")]}
    yield "offsets last, nested", {"type": "Sequence", "processors": [
        {"type": "Sequence", "processors": [template("<both>", "$A", "<|pad|>")]}, offsets]}
    yield "BertProcessing", both("BertProcessing")
    yield "RobertaProcessing", {**both("RobertaProcessing"), "trim_offsets": True, "add_prefix_space": False}


def post_processor_cases(base):
    texts = ["", "a", "The sea, don't", "<|endoftext|>x", "  \n"]
    out = []
    for name, post in post_processors():
        tokenizer = Tokenizer.from_str(json.dumps({**base, "post_processor": post}))
        pairs = [[t, tokenizer.encode(t).ids, tokenizer.encode(t, add_special_tokens=False).ids] for t in texts]
        out.append({"name": name, "post_processor": post, "cases": pairs})
    return out


def variants(vocab):
    """name, base, top-level fields to set, fields of the model to set, tokens to drop, merges kept."""
    specials = [(s, "s") for s in SPECIAL]
    many = specials + [("<w>", "wn"), ("<left>", "ls"), ("<right>", "r"), ("<both>", "lrn"), ("<n>", "n"),
                       ("word", "wn"), ("<", ""), ("<|endoftext|>x", "s"), ("  ", "n"), (" \n", "lr")]
    digits = {"type": "Digits", "individual_digits": True}
    runs = {"type": "Digits", "individual_digits": False}
    no_regex = level(False, False)
    drop = ["Ā", "Ł", "w", "é", "ð", "Ċ"]
    yield "gpt2", 0, {}, {}, [], 1000
    yield "llama3", 1, {}, {}, [], 1000
    yield "llama3 with whole words", 1, {}, {"ignore_merges": True}, [], 300
    yield "granite", 0, {"pre_tokenizer": sequence(digits, level(False, True))}, {}, [], 1000
    yield "runs of digits, blank before", 0, {"pre_tokenizer": sequence(runs, level(True, True))}, {}, [], 1000
    yield "added tokens", 0, {"pre_tokenizer": level(True, True), "added_tokens": added(vocab, *many)}, {}, [], 1000
    odd = sequence(split({"String": "ab"}), split({"Regex": r"\s*|\d|[^\S\n]x"}), level(True, False))
    yield "patterns that match nothing", 0, {"pre_tokenizer": odd}, {}, [], 1000
    yield "letter case", 1, {"pre_tokenizer": sequence(split({"Regex": GPT4O}), no_regex)}, {}, [], 1000
    lines = sequence(split({"Regex": r"\s++$|^x|.+|\P{N}\D|(?<=a)\S"}), no_regex)
    yield "lines", 0, {"pre_tokenizer": lines}, {}, [], 1000
    yield "bytes missing", 0, {}, {}, drop, 1000
    yield "bytes missing, unknown", 0, {}, {"unk_token": "<|pad|>"}, drop, 1000
    yield "bytes missing, one unknown", 0, {}, {"unk_token": "<|pad|>", "fuse_unk": True}, drop, 1000


def apply(base, top, model, drop, merges):
    root = copy.deepcopy(base)
    root.update(top)
    root["model"].update(model)
    for token in drop:
        root["model"]["vocab"].pop(token)
    vocab = root["model"]["vocab"]
    known = [m for m in root["model"]["merges"][:merges] if all(x in vocab for x in m)]
    root["model"]["merges"] = known
    return root


def hard_texts(documents, rng, count):
    points = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    blocks = [0x300, 0x370, 0x400, 0x590, 0x600, 0x900, 0xE00, 0x1100, 0x2000, 0x3040, 0x4E00, 0xAC00, 0x1F300]
    makers = [
        lambda: rng.choice(FRAGMENTS),
        lambda: rng.choice(FRAGMENTS),
        lambda: chr(rng.choice(SPACES)) * rng.randint(1, 4),
        lambda: "".join(chr(rng.choice(points)) for _ in range(rng.randint(1, 3))),
        lambda: "".join(rng.choice("abcdefghijXYZ' 0189._-\n") for _ in range(rng.randint(1, 12))),
        lambda: "".join(chr(rng.choice(blocks) + rng.randint(0, 127)) for _ in range(rng.randint(1, 5))),
        lambda: (lambda d, i: d[i:i + rng.randint(1, 40)])(rng.choice(documents), rng.randint(0, 60)),
    ]
    return ["".join(rng.choice(makers)() for _ in range(rng.randint(1, 10))) for _ in range(count)]


# ---- The tokenizers of model families: normalizers, BPE of characters with byte fallback, Metaspace, and the patterns
# of published tokenizer.json files

CASE = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
REST = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = CASE + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + REST
QWEN3_5 = CASE + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + REST
TEKKEN = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|\p{{N}}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n/]*" + REST)
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
          r"|\s+(?!\S)|\s+")
DEEPSEEK_V3 = [
    r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]
DEEPSEEK_LLM = [r"[\r\n]", r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-Ֆ]+",
                "\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+", r"\s+$", "[一-龥ࠀ-一가-\ud7ff]+"]
MARK = "\u2581"  # that stands for a space
NAMES = ["<unk>", "<s>", "</s>"]
MORE_TEXTS = [
    " ", "  ", "   a", " a", "a ", "a  b", "\ta\t\tb", "\r\n", "a\r\nb\rc\n\n\nd", MARK, MARK + "a", "a" + MARK, " " + MARK,
    "e\u0301 é a\u0323\u0307 a\u0307\u0323 \u0301x", "\u1100\u1161\u11a8 각 \u1112\u1161\u11ab", "\u212b \u2126 \u1e9b\u0323 \uf900",
    "\u0e48\u0d3b a\u0327\u1ac1\u0301\u0323 \U00011935\U00011930", "q\u0307\u0323 \u0344 \u0958 \u2adc \U0001d15e \U000110ab", "ﬁ ² ① ｶﾞ Ａ", "日本語のテキスト、123。", "中文与English混排456",
    "한국어 텍스트", "😀😃 👍🏽 👨‍👩‍👧", "x\U0001f600y", "<s>", "<s>a", "<s> a", "a<s>b", "a <s> b </s>", "</s><s>", "<unk>x<unk>",
    "<turn>user\nhi<turn>\n", "  <both>  x", "[PAD]", "a [PAD] b", "<0x41>", "<0xE4><0xB8>", "1234567 1,000.50", "it's IT'S don’t",
    "for (i = 0; i < n; i++) {\n    x[i] += 1;\n\t}\n", "\0\x01", "a" * 70 + " " * 70 + "b" * 70, "naïve Größe мир", "\u00a0\u2003 x\u200b",
]


def train_characters(documents):
    """BPE of characters; bytes have tokens, and runs of spaces and line ends merge."""
    raw = NAMES + [f"<0x{b:02X}>" for b in range(256)]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(documents, trainers.BpeTrainer(
        vocab_size=900, special_tokens=raw, show_progress=False, limit_alphabet=70))
    root = json.loads(tokenizer.to_str())
    root["added_tokens"] = []
    vocab, merges = root["model"]["vocab"], root["model"]["merges"]
    for left, right in ((MARK, MARK), (MARK * 2, MARK * 2), ("\n", "\n"), (MARK * 2, "a")):
        for name in (left, right, left + right):
            vocab.setdefault(name, len(vocab))
        merges.append([left, right])
    return root


def replace(old, new):
    return {"type": "Replace", "pattern": {"String": old}, "content": new}


def metaspace(scheme, splits):
    return {"type": "Metaspace", "replacement": MARK, "prepend_scheme": scheme, "split": splits}


def decoder(*more):
    return {"type": "Sequence", "decoders": [replace(MARK, " "), {"type": "ByteFallback"}, {"type": "Fuse"}, *more]}


def behaves(pattern, behavior, invert=False):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def character_variants(vocab):
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    prepend = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": MARK}, replace(" ", MARK)]}
    plain = added(vocab, *((n, "s") for n in NAMES))
    more = added(vocab, *((n, "s") for n in NAMES), ("<turn>", "s"), ("\n\n", ""), ("<both>", "lrs"))
    phi = added(vocab, *((n, "sr") for n in NAMES), ("<turn>", "r"), ("<both>", "lrs"))
    tuned = added(vocab, *((n, "s") for n in NAMES), ("[PAD]", "n"), ("<turn>", "n"))
    meta = {**metaspace("always", True), "prepend_scheme": "always"}
    fields = lambda **f: {"normalizer": None, "pre_tokenizer": None, "decoder": decoder(), "added_tokens": plain, **f}
    none = {"byte_fallback": False}
    yield "llama2", fields(normalizer=prepend, decoder=decoder(strip)), {}
    yield "phi3", fields(normalizer=prepend, decoder=decoder(strip), added_tokens=phi), {}
    yield "llama2 fine-tuned", fields(normalizer=prepend, decoder=decoder(strip), added_tokens=tuned), {}
    yield "mistral", fields(pre_tokenizer=metaspace("first", False), decoder=decoder(strip), added_tokens=more), {}
    yield "gemma", fields(normalizer=replace(" ", MARK), added_tokens=more,
                          pre_tokenizer=behaves({"String": " "}, "MergedWithPrevious")), {}
    yield "gemma, whole words", fields(normalizer=replace(" ", MARK), pre_tokenizer=behaves(
        {"String": MARK}, "MergedWithNext")), {"ignore_merges": True}
    yield "metaspace", fields(pre_tokenizer=meta, decoder=meta), {}
    yield "metaspace, first", fields(pre_tokenizer=metaspace("first", True), decoder=metaspace("first", True), added_tokens=more), {}
    yield "metaspace, never", fields(pre_tokenizer=metaspace("never", True), decoder=metaspace("never", True)), {}
    yield "unknown, fused", fields(pre_tokenizer=metaspace("first", False)), none
    yield "unknown, each", fields(pre_tokenizer=metaspace("first", False)), {**none, "fuse_unk": False}
    yield "unknown, dropped", fields(pre_tokenizer=metaspace("first", False)), {**none, "unk_token": None}
    yield "pattern", fields(normalizer={"type": "Sequence", "normalizers": [
        {"type": "NFC"}, {"type": "Replace", "pattern": {"Regex": r"\s{2,}"}, "content": MARK * 2}, replace(" ", MARK)]}), {}


def byte_variants():
    nfc, last = {"type": "NFC"}, level(False, False)
    steps = lambda *patterns: sequence(*(split({"Regex": p}) for p in patterns), last)
    yield "qwen2", {"normalizer": nfc, "pre_tokenizer": steps(QWEN2)}
    yield "qwen3.5", {"normalizer": nfc, "pre_tokenizer": steps(QWEN3_5)}
    yield "olmo", {"normalizer": nfc, "pre_tokenizer": level(False, True)}
    yield "o200k", {"pre_tokenizer": steps(GPT4O)}
    yield "tekken", {"pre_tokenizer": steps(TEKKEN)}
    yield "cl100k", {"pre_tokenizer": steps(CL100K)}
    yield "deepseek v3", {"pre_tokenizer": steps(*DEEPSEEK_V3)}
    yield "deepseek llm", {"normalizer": {"type": "Sequence", "normalizers": []}, "pre_tokenizer": sequence(
        *(split({"Regex": p}) for p in DEEPSEEK_LLM), {"type": "Digits", "individual_digits": True}, last)}
    for behavior in ("Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"):
        for invert in (False, True):
            yield f"{behavior}, {invert}", {"pre_tokenizer": sequence(behaves({"Regex": r"\d|\s"}, behavior, invert), last)}


def family_cases(documents, bases):
    rng = random.Random(11)
    everything = [(2, *v) for v in character_variants(bases[2]["model"]["vocab"])]
    everything += [(1, name, top, {}) for name, top in byte_variants()]
    out = []
    for base, name, top, model in everything:
        tokenizer = Tokenizer.from_str(json.dumps(apply(bases[base], top, model, [], 10000)))
        cases = []
        for t in MORE_TEXTS + hard_texts(documents, rng, 12):
            ids = tokenizer.encode(t, add_special_tokens=False).ids
            cases.append([t, ids, tokenizer.decode(ids, skip_special_tokens=False)])
        out.append({"name": name, "base": base, "set": top, "model": model, "drop": [], "merges": 10000, "cases": cases})
    return out


# ---- Unigram, every normalizer and pre-tokenizer, ByteLevel before others, literal text, and where tokens end

RULES = ["65 301\tE9", "FB01\t66 69", "2122\t54 4D", "9\t20", "A\t20", "D\t20", "200B\t20", "FEFF\t", "FF21\t41", "2026\t2E 2E 2E",
         "3000\t20", "A0\t20", "1\t", "AC00\t1100 1161", "212B\tC5", "F900\t8C48", "D E4\t78"]
UNIGRAM_TEXTS = [
    "é e\u0301 e\u0301\u0301 ﬁ ﬁ\u0301 ™ x™", "a\u0301\u0327\u0e48 \u0301", "\t\tx\r\n\ny", "\ufeffx\u200by\x01z", "ＡＢ…\u3000か\u3099", "가각 \u1100\u1161",
    "``quoted'' 'x'", "İI ẞß ǅ ΑΣ σς \u1c89 \ua7dc", "H\u0308e\u0301\u20dd \u0903 न\u094d\u093c", "!!?—…$+<> \u166d\u2e43", "a,b.c!d  e", "12ab34 \u0663\u00b2 1000000",
    "\x07\x7f\x8f\ufffd\u2581", "unknown 丅丆万 words 丅", "xx\U0001d7d8\U0001f600", "\u1e9b\u0323 \u0344 \u2adc", "\u00e0\u0325 \u1ae6a\u1ae6 é\u1ae6",
]


def small_charsmap():
    """The map of a few rules, made by SentencePiece."""
    import base64
    import tempfile

    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    with tempfile.TemporaryDirectory() as folder:
        rules = pathlib.Path(folder) / "rules.tsv"
        rules.write_text("\n".join(RULES) + "\n")
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["this is a small text", "for a small map", "of characters"] * 20), model_prefix=f"{folder}/m",
            vocab_size=30, hard_vocab_limit=False, normalization_rule_tsv=str(rules), minloglevel=2)
        proto = sentencepiece_model_pb2.ModelProto()
        proto.ParseFromString(pathlib.Path(f"{folder}/m.model").read_bytes())
    return base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()


def train_unigram(documents):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(documents, trainers.UnigramTrainer(
        vocab_size=700, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>", show_progress=False))
    root = json.loads(tokenizer.to_str())
    root["added_tokens"] = []
    known = {name for name, _ in root["model"]["vocab"]}
    root["model"]["vocab"] += [[f"<0x{b:02X}>", -20.0] for b in range(256)]
    root["model"]["vocab"] += [[c, -9.5 - i / 7] for i, c in enumerate(["é", "\u0301", "...", "か", "fi", MARK * 2, "x" + MARK]) if c not in known]
    return root


def unigram_variants(pieces):
    vocab = {name: i for i, (name, _) in enumerate(pieces)}
    plain = added(vocab, *((n, "s") for n in NAMES))
    masked = added(vocab, ("<s>", "s"), ("<mask>", "sl"), ("word", "w"), ("Quoted", "n"))
    charsmap = {"type": "Precompiled", "precompiled_charsmap": small_charsmap()}
    meta = metaspace("always", True)
    steps = lambda *some: {"type": "Sequence", "normalizers": list(some)}
    kind = lambda *names: [{"type": n} for n in names]
    strip = {"type": "Strip", "strip_left": True, "strip_right": True}
    blanks = lambda new: {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": new}
    fields = lambda **f: {"normalizer": None, "pre_tokenizer": meta, "decoder": meta, "added_tokens": plain, **f}
    words = sequence({"type": "WhitespaceSplit"}, meta)
    yield "t5", fields(normalizer=charsmap, pre_tokenizer=words), {}
    yield "xlm-r", fields(normalizer=charsmap, added_tokens=masked), {}
    yield "pegasus", fields(normalizer=steps(charsmap, {**strip, "strip_left": False}, blanks(MARK))), {}
    yield "albert", fields(normalizer=steps(replace("``", '"'), replace("''", '"'), *kind("NFKD", "StripAccents", "Lowercase"), charsmap,
                                            blanks(" ")), added_tokens=masked), {}
    yield "nmt", fields(normalizer=steps(*kind("Nmt", "NFKC"), strip)), {}
    yield "decomposed", fields(normalizer=steps({"type": "NFD"}, steps(*kind("Lowercase")))), {}
    yield "bytes", fields(pre_tokenizer=metaspace("first", False), decoder=decoder()), {"byte_fallback": True}
    yield "bytes, whole text", fields(pre_tokenizer=None, decoder=decoder()), {"byte_fallback": True}
    yield "bert", fields(pre_tokenizer=sequence({"type": "BertPreTokenizer"}, meta)), {}
    yield "words", fields(pre_tokenizer=sequence({"type": "Whitespace"}, {"type": "Digits", "individual_digits": True}, meta)), {}
    yield "delimiter", fields(pre_tokenizer=sequence({"type": "CharDelimiterSplit", "delimiter": "e"}, meta)), {}
    for behavior in ("Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"):
        yield f"punctuation, {behavior}", fields(pre_tokenizer={"type": "Punctuation", "behavior": behavior}), {}


def spelled_variants():
    falcon = sequence({"type": "Punctuation", "behavior": "Contiguous"}, level(False, True),
                      {"type": "Digits", "individual_digits": False}, split({"Regex": "[0-9][0-9][0-9]"}))
    yield "falcon", {"pre_tokenizer": falcon}
    yield "bloom", {"pre_tokenizer": sequence(split({"Regex": " ?[^(\\s|[.,!?…。，、।۔،])]+"}), level(False, False))}
    yield "bytes in the normalizer", {"normalizer": {"type": "ByteLevel"}, "pre_tokenizer": split({"Regex": "Ġ?[a-zA-Z]+"})}
    yield "compatible", {"normalizer": {"type": "NFKC"}}


def byte_ends(text, encoding):
    """Where each token ends, in bytes."""
    at, places = 0, [0]
    for c in text:
        at += len(c.encode())
        places.append(at)
    return [places[end] for _, end in encoding.offsets]


def unigram_cases(documents, bases):
    rng = random.Random(13)
    everything = [(1, *v) for v in unigram_variants(bases[1]["model"]["vocab"])]
    everything += [(0, name, top, {}) for name, top in spelled_variants()]
    out = []
    for base, name, top, model in everything:
        root = copy.deepcopy(bases[base])
        root.update(top)
        root["model"].update(model)
        tokenizer = Tokenizer.from_str(json.dumps(root))
        plain = Tokenizer.from_str(json.dumps(root))
        plain.encode_special_tokens = True
        cases = []
        for t in UNIGRAM_TEXTS + MORE_TEXTS + hard_texts(documents, rng, 10):
            found = tokenizer.encode(t, add_special_tokens=False)
            cases.append([t, found.ids, tokenizer.decode(found.ids, skip_special_tokens=False), byte_ends(t, found),
                          plain.encode(t, add_special_tokens=False).ids])
        out.append({"name": name, "base": base, "set": top, "model": model, "cases": cases})
    return out


# ---- tokenizer.model

def model_of_sentencepiece(documents, name, **options):
    import sentencepiece

    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        rules = pathlib.Path(folder) / "rules.tsv"
        rules.write_text("\n".join(RULES) + "\n")
        if options.pop("maps", False):
            options["normalization_rule_tsv"] = str(rules)
        else:
            options["normalization_rule_name"] = "identity"
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(line for d in documents for line in d.split("\n")), model_prefix=f"{folder}/m", minloglevel=2, **options)
        (OUT / f"{name}.model").write_bytes(pathlib.Path(f"{folder}/m.model").read_bytes())


def convert_as_transformers(path):
    from tokenizers import AddedToken
    from transformers.convert_slow_tokenizer import SentencePieceExtractor, SpmConverter

    extractor = SentencePieceExtractor(str(path))
    proto = extractor.proto
    tokenizer = SpmConverter.build_tokenizer_from_spm_proto(proto, extractor.extract(None)["vocab"])
    tokenizer.add_special_tokens([AddedToken(p.piece, normalized=False, special=True) for p in proto.pieces if p.type in (2, 3)])
    tokenizer.add_tokens([AddedToken(p.piece, normalized=False, special=False) for p in proto.pieces if p.type == 4])
    return tokenizer


def sentencepiece_cases(documents):
    model_of_sentencepiece(documents, "bpe", model_type="bpe", vocab_size=700, byte_fallback=True, split_digits=True,
                           remove_extra_whitespaces=False, user_defined_symbols=["<turn>", "+-*"], character_coverage=0.99)
    model_of_sentencepiece(documents, "unigram", model_type="unigram", vocab_size=400, maps=True, pad_id=0, eos_id=1, unk_id=2,
                           bos_id=-1, character_coverage=0.99)
    rng = random.Random(17)
    texts = UNIGRAM_TEXTS + MORE_TEXTS + ["a<turn>b +-*c", "  two  spaces  "] + hard_texts(documents, rng, 20)
    out = []
    for name in ("bpe", "unigram"):
        tokenizer = convert_as_transformers(OUT / f"{name}.model")
        encoded = [tokenizer.encode(t, add_special_tokens=False).ids for t in texts]
        out.append({"name": name, "cases": [[t, ids, tokenizer.decode(ids, skip_special_tokens=False)] for t, ids in zip(texts, encoded)]})
    return out


def main():
    OUT.mkdir(exist_ok=True)
    documents = make_documents()
    gpt2 = train(documents, pre_tokenizers.ByteLevel(add_prefix_space=False))
    llama3 = train(documents, pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]))
    bases = [gpt2, llama3]
    rng = random.Random(11)
    cases = []
    for name, base, top, model, drop, merges in variants(gpt2["model"]["vocab"]):
        root = apply(bases[base], top, model, drop, merges)
        tokenizer = Tokenizer.from_str(json.dumps(root))
        texts = ["", *FRAGMENTS] if name in ("gpt2", "llama3") else [""]
        texts += hard_texts(documents, rng, 40)
        pairs = [[t, tokenizer.encode(t, add_special_tokens=False).ids] for t in texts]
        cases.append({"name": name, "base": base, "set": top, "model": model, "drop": drop,
                      "merges": merges, "cases": pairs})
    write = lambda name, value: (OUT / name).write_text(
        json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    write("documents.json", documents)
    write("gpt2.json", gpt2)
    write("llama3.json", llama3)
    write("cases.json", cases)
    write("post_processors.json", post_processor_cases(llama3))
    characters = train_characters(documents)
    write("characters.json", characters)
    write("families.json", family_cases(documents, [gpt2, llama3, characters]))
    pieces = train_unigram(documents)
    write("pieces.json", pieces)
    write("unigram.json", unigram_cases(documents, [llama3, pieces]))
    write("sentencepiece.json", sentencepiece_cases(documents))


def check(folder):
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    cases = json.loads((OUT / "cases.json").read_text(encoding="utf-8"))[0]["cases"]
    fast = Tokenizer.from_file(f"{folder}/tokenizer.json")
    loaded = [AutoTokenizer.from_pretrained(folder), PreTrainedTokenizerFast.from_pretrained(folder)]
    for text, ids in cases:
        assert fast.encode(text, add_special_tokens=False).ids == ids, text
        for tokenizer in loaded:
            assert tokenizer.encode(text, add_special_tokens=False) == ids, text
    for tokenizer in loaded:
        assert tokenizer.eos_token == "<|endoftext|>" and tokenizer.eos_token_id == 0
    print(f"{folder}: {len(cases)} texts have the same ids, opened as {[type(t).__name__ for t in loaded]}")


if __name__ == "__main__":
    check(sys.argv[2]) if sys.argv[1:2] == ["--check"] else main()
