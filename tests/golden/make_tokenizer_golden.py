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
