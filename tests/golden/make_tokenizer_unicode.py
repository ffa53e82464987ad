"""Writes the table of src/data/tokenizer/tokenizer_unicode.c: the characters that HuggingFace's tokenizers
know (their regular expression engine follows Unicode 16) and Unicode 14 does not (which the oldest
supported PCRE2, 10.42, follows).

    python tests/golden/make_tokenizer_unicode.py   (Python 3.11, tokenizers 0.23) > rows
"""
import unicodedata

from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp".split()

assert unicodedata.unidata_version == "14.0.0", "needs Python 3.11"
points = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
everything = "".join(map(chr, points))
fresh = {}
for category in CATEGORIES:
    pieces = Split(Regex(r"\p{%s}" % category), "removed").pre_tokenize_str(everything)
    at = 0
    for _, (first, last) in pieces + [("", (len(points), len(points)))]:
        for c in points[at:first]:
            if unicodedata.category(chr(c)) == "Cn":
                fresh[c] = category
        at = last
ranges = []
for c in sorted(fresh):
    if ranges and ranges[-1][1] == c - 1 and ranges[-1][2] == fresh[c]:
        ranges[-1][1] = c
    else:
        ranges.append([c, c, fresh[c]])
for first, last, category in ranges:
    print('{0x%X, 0x%X, "%s"},' % (first, last, category))
