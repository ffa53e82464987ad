"""A text of mixed scripts, code and hard characters, on which compare_tokenizers.py compares tokenizers. It is made here:
sources and documents of this repository, sentences of invented words in many scripts, random characters of every plane,
assigned or not, control characters, U+FFFD, and long runs. The same seed makes the same text.
"""
import pathlib
import random

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# First and last letters of scripts, and how their words are put together.
SCRIPTS = [(0x61, 0x7A, " "), (0x61, 0x7A, " "), (0x61, 0x7A, " "), (0xE0, 0xFF, " "), (0x100, 0x17F, " "), (0x3B1, 0x3C9, " "),
           (0x430, 0x44F, " "), (0x561, 0x586, " "), (0x5D0, 0x5EA, " "), (0x621, 0x64A, " "), (0x905, 0x939, " "),
           (0x985, 0x9B9, " "), (0xE01, 0xE2E, ""), (0x10D0, 0x10FF, " "), (0x1200, 0x1248, " "), (0x1780, 0x17B3, ""),
           (0x3041, 0x3096, ""), (0x30A1, 0x30FA, ""), (0x4E00, 0x5FFF, ""), (0xAC00, 0xD7A3, " "), (0x1F300, 0x1F64F, "")]
MARKS = [0x300, 0x301, 0x308, 0x327, 0x323, 0x93C, 0x94D, 0x9BC, 0x64B, 0x651, 0x5B0, 0xE48, 0x200D, 0xFE0F, 0x1F3FB, 0x3099, 0x20DD]
ENDS = [". ", ", ", "! ", "? ", "\n", "\n\n", " - ", " (", ") ", "... ", "; ", ": ", "\t", "  ", "\r\n", "。", "、", " “", "” "]
ASIDES = ["don't", "it's", "we'LL", "I’m", "3.14", "1,000,000", "2026-11-28", "x_y", "foo()", "a@b.org", "http://x.org/?q=1&r=%20",
          "ﬁ", "Ⅷ", "²", "½", "Ａ１", "ｶﾞ", "İstanbul", "ß", "naïve", "e\u0301", "ǅ", "①", "㎏", "…", "``", "''", "<s>", "</s>", "<unk>", "<|endoftext|>",
          "<|im_start|>", "<0x41>", "▁", "\ufffd", "\u00a0", "\u200b", "\u2028", "\ufeff", "\x00", "\x07", "\x7f", "\x85", "🇩🇪", "👨‍👩‍👧", "1️⃣"]


def words_of(rng, first, last):
    words = []
    for _ in range(400):
        word = "".join(chr(first + int((last - first + 1) * rng.random() ** 1.6)) for _ in range(rng.choice((1, 2, 3, 3, 4, 5, 6, 9))))
        if rng.random() < 0.2:
            at = rng.randint(0, len(word))
            word = word[:at] + chr(rng.choice(MARKS)) + word[at:]
        words.append(word)
    return words


def prose(rng, size):
    vocabularies = [(words_of(rng, first, last), between) for first, last, between in SCRIPTS]
    weights = [1 / (n + 3) for n in range(400)]
    parts, total = [], 0
    while total < size:
        words, between = rng.choice(vocabularies)
        for word in rng.choices(words, weights, k=rng.randint(3, 30)):
            kind = rng.random()
            if kind < 0.03:
                word = rng.choice(ASIDES)
            elif kind < 0.13:
                word = word.capitalize()
            elif kind < 0.15:
                word = word.upper()
            parts.append(word + (between if kind < 0.9 else rng.choice(ENDS)))
            total += 4 * len(word)
        parts.append(rng.choice(ENDS))
    return "".join(parts)


def noise(rng, count):
    parts = []
    for _ in range(count):
        kind = rng.random()
        if kind < 0.5:
            character = rng.choice((rng.randrange(0x110000), rng.randrange(0x3000), rng.randrange(0x20000), rng.randrange(0x300)))
        elif kind < 0.7:
            character = rng.choice(MARKS)
        else:
            character = rng.randrange(32, 127)
        parts.append(" " if 0xD800 <= character < 0xE000 else chr(character))
    return "".join(parts)


def runs(rng):
    return "".join(rng.choice(" \n\t=-ab1é中▁\u0301🙂") * rng.choice((2, 7, 31, 64, 65, 500, 3000)) + rng.choice("x \n") for _ in range(60))


def make_documents(size, seed=29):
    """Documents of `size` bytes of UTF-8 together, each of some kilobytes."""
    rng = random.Random(seed)
    files = sorted(p for p in [*ROOT.glob("src/**/*.[ch]"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/**/*.py")])
    sources = "\n".join(p.read_text(encoding="utf-8") for p in files)
    sources = sources[:size * 4 // 10]
    text = sources + prose(rng, (size - len(sources)) * 7 // 8 ) + runs(rng)
    rest = size - len(text.encode())
    text += noise(rng, max(1000, int(rest / 2.35)))
    documents, at = [], 0
    while at < len(text):
        step = rng.choice((1, 30, 500, 4000, 4000, 16000))
        documents.append(text[at:at + step])
        at += step
    rng.shuffle(documents)
    return documents
