"""Compares whole tokenizers with HuggingFace's: ids, decoded texts, the place of tokens in the text, and the speed.

    python tests/golden/compare_tokenizers.py build/libtrireme.so TOKENIZER.json...
        on the texts of tests/golden/tokenizer/, on random characters, and on the documents and sources of this repository
    python tests/golden/compare_tokenizers.py --corpus 10 build/libtrireme.so TOKENIZER.json...
        on 10 MB of mixed scripts, code and hard characters (tokenizer_corpus.py)
    python tests/golden/compare_tokenizers.py --speed 10 build/libtrireme.so TOKENIZER.json...
        the seconds of both on two threads, in turns, with encode_batch of tokenizers

make_tokenizer_layouts.py makes tokenizers of many families.
"""
import argparse
import ctypes
import json
import os
import pathlib
import random
import sys
import threading
import time

from tokenizer_corpus import make_documents

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RANGES = [(32, 127), (0xA0, 0x250), (0x300, 0x370), (0x370, 0x600), (0x900, 0xE80), (0x1100, 0x1200), (0x1E00, 0x2100),
          (0x3040, 0x3100), (0x4E00, 0x5000), (0xAC00, 0xAD00), (0x1F300, 0x1F700), (9, 14)]


def make_texts():
    texts = set()
    for name in ("cases", "families"):
        for variant in json.loads((ROOT / f"tests/golden/tokenizer/{name}.json").read_text(encoding="utf-8")):
            texts.update(case[0] for case in variant["cases"])
    texts = sorted(texts)
    rng = random.Random(3)
    for _ in range(3000):
        text = ""
        for _ in range(rng.randint(1, 25)):
            low, high = rng.choice(RANGES)
            text += "".join(chr(rng.randrange(low, high)) for _ in range(rng.randint(1, 4)))
            if rng.random() < 0.3:
                text += " " * rng.randint(1, 4)
        texts.append(text)
    files = sorted(ROOT.glob("docs/*.md")) + sorted(ROOT.glob("src/model/*.c"))
    return texts + [f.read_text(encoding="utf-8") for f in files]


class Ours:
    def __init__(self, library, path):
        self.library, self.handle, self.error = library, ctypes.c_void_p(), ctypes.create_string_buffer(4096)
        library.trm_tokenizer_decode.restype = ctypes.c_char_p
        code = library.trm_tokenizer_open(path.encode(), ctypes.byref(self.handle), self.error)
        assert code == 0, self.error.raw[4:].split(b"\0")[0].decode()

    def encode(self, text):
        ids, count = self.encode_bytes(text.encode())
        return ids[:count.value]

    def encode_bytes(self, data):
        ids, count = ctypes.POINTER(ctypes.c_int32)(), ctypes.c_size_t()
        code = self.library.trm_tokenizer_encode(self.handle, data, ctypes.c_size_t(len(data)), ctypes.byref(ids),
                                                 ctypes.byref(count), self.error)
        assert code == 0, self.error.raw[4:].split(b"\0")[0].decode()
        return ids, count

    def decode(self, ids):
        array = (ctypes.c_int32 * max(1, len(ids)))(*ids)
        return self.library.trm_tokenizer_decode(self.handle, array, ctypes.c_size_t(len(ids))).decode("utf-8", "replace")


def show_first(path, text, got, want):
    """The first token that differs, with the text around it."""
    from tokenizers import Tokenizer

    at = next((i for i, pair in enumerate(zip(got, want)) if pair[0] != pair[1]), min(len(got), len(want)))
    tokenizer = Tokenizer.from_file(path)
    start = tokenizer.encode(text, add_special_tokens=False).offsets[min(at, len(want) - 1)][0] if want else 0
    name = tokenizer.id_to_token
    print(f"  token {at} at {start}: {text[max(0, start - 12):start + 12]!r}: {[name(i) for i in got[at:at + 6]]}, "
          f"tokenizers {[name(i) for i in want[at:at + 6]]}")


def compare(library, path, texts, shows):
    from tokenizers import Tokenizer

    ours, theirs = Ours(library, path), Tokenizer.from_file(path)
    theirs.no_truncation()
    theirs.no_padding()
    wrong, undone, count = 0, 0, 0
    for text in texts:
        got = ours.encode(text)
        want = theirs.encode(text, add_special_tokens=False).ids
        count += len(want)
        if got != want and wrong < shows:
            show_first(path, text, got, want)
        wrong += got != want
        decoded = theirs.decode(want)
        # Ours keeps bytes that are no characters; a zero byte ends what ctypes reads.
        differs = "\ufffd" not in decoded and "\0" not in decoded and ours.decode(want) != decoded
        if differs and undone < shows:
            print(f"  decoded {ours.decode(want)[:200]!r}, tokenizers {decoded[:200]!r}")
        undone += differs
    print(f"{path}: {len(texts)} texts, {count} ids: {wrong} texts with other ids, {undone} decoded otherwise", flush=True)
    return wrong + undone


def time_ours(library, path, texts, threads):
    handles = [Ours(library, path) for _ in range(threads)]
    data = [text.encode() for text in texts]

    def work(n):
        for one in data[n::threads]:
            handles[n].encode_bytes(one)

    workers = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
    begin = time.time()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return time.time() - begin


def time_theirs(path, texts):
    from tokenizers import Tokenizer

    theirs = Tokenizer.from_file(path)
    theirs.no_truncation()
    theirs.no_padding()
    begin = time.time()
    theirs.encode_batch(texts, add_special_tokens=False)
    return time.time() - begin


def speed(library, path, texts, threads=2, rounds=3):
    ours, theirs = [], []
    for _ in range(rounds):
        theirs.append(time_theirs(path, texts))
        ours.append(time_ours(library, path, texts, threads))
    size = sum(len(t.encode()) for t in texts) / 1e6
    a, b = min(ours), min(theirs)
    print(f"{path}: {size:.1f} MB: {a:.2f} s ({size / a:.1f} MB/s), tokenizers {b:.2f} s ({size / b:.1f} MB/s): {b / a:.2f} times as fast",
          flush=True)
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus", type=float, help="megabytes")
    parser.add_argument("--speed", type=float, help="megabytes")
    parser.add_argument("--show", type=int, default=0, help="show so many differences")
    parser.add_argument("library")
    parser.add_argument("tokenizers", nargs="+")
    options = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = "2"
    library = ctypes.CDLL(options.library)
    megabytes = options.speed or options.corpus
    texts = make_documents(int(megabytes * 1e6)) if megabytes else make_texts()
    run = (lambda path: speed(library, path, texts)) if options.speed else (lambda path: compare(library, path, texts, options.show))
    sys.exit(any([run(path) for path in options.tokenizers]))


if __name__ == "__main__":
    main()
