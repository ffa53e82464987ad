"""Compares ids and decoded texts of whole tokenizer.json files with those of HuggingFace's tokenizers, on the texts of
tests/golden/tokenizer/, on random characters, and on the documents and sources of this repository.

    python tests/golden/compare_tokenizers.py build/libtrireme.so TOKENIZER.json...
"""
import ctypes
import json
import pathlib
import random
import sys
import time

from tokenizers import Tokenizer

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
        assert code == 0, self.error.raw

    def encode(self, text):
        data, ids, count = text.encode(), ctypes.POINTER(ctypes.c_int32)(), ctypes.c_size_t()
        code = self.library.trm_tokenizer_encode(self.handle, data, ctypes.c_size_t(len(data)), ctypes.byref(ids),
                                                 ctypes.byref(count), self.error)
        assert code == 0, self.error.raw
        return ids[:count.value]

    def decode(self, ids):
        array = (ctypes.c_int32 * max(1, len(ids)))(*ids)
        return self.library.trm_tokenizer_decode(self.handle, array, ctypes.c_size_t(len(ids))).decode("utf-8", "replace")


def compare(library, path, texts):
    ours, theirs = Ours(library, path), Tokenizer.from_file(path)
    wrong, undone, count, seconds = 0, 0, 0, [0.0, 0.0]
    for text in texts:
        begin = time.time()
        got = ours.encode(text)
        middle = time.time()
        want = theirs.encode(text, add_special_tokens=False).ids
        seconds[0] += middle - begin
        seconds[1] += time.time() - middle
        count += len(want)
        wrong += got != want
        decoded = theirs.decode(want)
        # Ours keeps bytes that are no characters; a zero byte ends what ctypes reads.
        undone += "\ufffd" not in decoded and "\0" not in decoded and ours.decode(want) != decoded
    print(f"{path}: {len(texts)} texts, {count} ids: {wrong} texts with other ids, {undone} decoded otherwise; "
          f"{seconds[0]:.2f} s, tokenizers {seconds[1]:.2f} s")
    return wrong + undone


def main():
    library = ctypes.CDLL(sys.argv[1])
    texts = make_texts()
    sys.exit(any([compare(library, path, texts) for path in sys.argv[2:]]))


if __name__ == "__main__":
    main()
