"""Compares single normalizers and pre-tokenizers with HuggingFace's, on every character of Unicode and on random rows of hard
ones. A tokenizer of bytes without merges shows what a normalizer wrote; one that knows no character shows where words end.

    python tests/golden/compare_steps.py build/libtrireme.so [charsmap.json]     (a tokenizer.json with a Precompiled normalizer)
"""
import ctypes
import json
import random
import sys
import tempfile

from tokenizers import Tokenizer, normalizers

from compare_tokenizers import Ours

CHARACTERS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
MARKS = [chr(c) for c in (*range(0x300, 0x370), 0x93C, 0x94D, 0x9BE, 0x1161, 0x11A8, 0x3099, 0x309A, 0x5B0, 0x11935, 0x11930, 0x1AC1, 0x16D67,
                          0x1D165)]
BEHAVIORS = ("Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext")


def make_texts():
    rng = random.Random(1)
    kinds = [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]
    hard = [c for c in CHARACTERS if any(k.normalize_str(c) != c for k in kinds)]
    hard += [chr(c) for r in (range(0x3131, 0x318F), range(0xFF9E, 0xFFDD), range(0x1100, 0x11FF)) for c in r] * 8
    rows = []
    for _ in range(100000):
        row = ""
        for _ in range(rng.randint(1, 12)):
            pool = rng.choices((hard, MARKS, "ab \t'`", CHARACTERS), (4, 2, 2, 2))[0]
            row += rng.choice(pool)
        rows.append(row)
    return ["a" + c + "b" for c in CHARACTERS] + ["a" + c + "\u0301b" for c in CHARACTERS] + [c + "\u0323\u0301" for c in hard] + rows


def open_both(library, model, **fields):
    root = {"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": None, "post_processor": None,
            "decoder": {"type": "Fuse"}, "model": {"type": "BPE", "merges": [], "dropout": None, **model}, **fields}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(root, f)
        f.flush()
        return Ours(library, f.name), Tokenizer.from_file(f.name)


def count_wrong(name, texts, ours, theirs):
    wrong = 0
    for text in texts:
        got, want = ours(text), theirs(text)
        wrong += got != want
        if got != want and wrong <= 3:
            print("  ", ascii(text), got, want)
    print(f"{name}: {len(texts)} texts, {wrong} wrong", flush=True)
    return wrong


def compare_normalizer(library, step, texts):
    vocab = {f"<0x{b:02X}>": b for b in range(256)}
    ours, theirs = open_both(library, {"vocab": vocab, "byte_fallback": True}, normalizer=step)
    return count_wrong(json.dumps(step)[:70], texts, lambda t: bytes(ours.encode(t)), lambda t: theirs.normalizer.normalize_str(t).encode())


def compare_pre_tokenizer(library, step, texts):
    model = {"vocab": {"<unk>": 0, "x": 1}, "unk_token": "<unk>", "fuse_unk": True}
    ours, theirs = open_both(library, model, pre_tokenizer=step)
    return count_wrong(json.dumps(step)[:110], texts, ours.encode, lambda t: theirs.encode(t).ids)


def main():
    library, texts = ctypes.CDLL(sys.argv[1]), make_texts()
    steps = [{"type": n} for n in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel")]
    steps += [{"type": "Strip", "strip_left": left, "strip_right": right} for left in (True, False) for right in (True, False)]
    steps += [json.load(open(path, encoding="utf-8"))["normalizer"] for path in sys.argv[2:]]
    wrong = sum(compare_normalizer(library, step, texts) for step in steps)
    words = ["é" + c + c + "éx 9\u0663² x\t,!x " + c for c in CHARACTERS] + [t + "é , " + t for t in texts[-50000:]]
    splits = [{"type": "Punctuation", "behavior": b} for b in BEHAVIORS]
    splits += [{"type": n} for n in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer")]
    splits += [{"type": "CharDelimiterSplit", "delimiter": "é"}, *({"type": "Digits", "individual_digits": d} for d in (True, False))]
    splits += [{"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {
        "type": "Metaspace", "replacement": "▁", "prepend_scheme": s, "split": d}]} for s in ("always", "first", "never") for d in (True, False)]
    wrong += sum(compare_pre_tokenizer(library, step, words) for step in splits)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
