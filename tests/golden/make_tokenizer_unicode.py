"""Writes the table of src/data/tokenizer/tokenizer_unicode.c: the characters that HuggingFace's tokenizers
know (their regular expression engine follows Unicode 16) and Unicode 14 does not (which the oldest
supported PCRE2, 10.42, follows).

    python tests/golden/make_tokenizer_unicode.py   (Python 3.11, tokenizers 0.23) > rows

Or those of src/data/tokenizer/tokenizer_characters.c: what differs between those tokenizers, which follow several versions
of Unicode, and the newest Unicode; and the marks that Unicode 15 lacks.

    python tests/golden/make_tokenizer_unicode.py --characters   (also unicodedata2, sentencepiece)
"""
import sys
import unicodedata

from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp".split()


def print_categories():
    assert unicodedata.unidata_version == "14.0.0", "needs Python 3.11"
    everything = "".join(map(chr, POINTS))
    fresh = {}
    for category in CATEGORIES:
        pieces = Split(Regex(r"\p{%s}" % category), "removed").pre_tokenize_str(everything)
        at = 0
        for _, (first, last) in pieces + [("", (len(POINTS), len(POINTS)))]:
            for c in POINTS[at:first]:
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


def print_spans(name, found, unassigned):
    """Spans of characters; what is unassigned may lie in them."""
    spans = []
    for c in sorted(found):
        if spans and c - spans[-1][1] < 40 and all(x in unassigned for x in range(spans[-1][1] + 1, c)):
            spans[-1][1] = c
        else:
            spans.append([c, c])
    print(name, ", ".join("{0x%x, 0x%x}" % tuple(s) for s in spans))


def print_characters():
    import io

    import sentencepiece
    import unicodedata2
    from sentencepiece import sentencepiece_model_pb2
    from tokenizers import normalizers, pre_tokenizers

    unassigned = {c for c in POINTS if unicodedata2.category(chr(c)) == "Cn"}
    accents, compatible = normalizers.StripAccents(), normalizers.NFKD()
    print_spans("new_marks", [
        c for c in POINTS if compatible.normalize_str(chr(c)) != unicodedata2.normalize("NFKD", chr(c))
        or (unicodedata2.category(chr(c))[0] == "M" and accents.normalize_str(chr(c)) != "")], unassigned)
    removed = pre_tokenizers.Punctuation("removed")
    print_spans("new_punctuation", [
        c for c in POINTS if unicodedata2.category(chr(c))[0] == "P" and removed.pre_tokenize_str(chr(c)) != []], unassigned)
    # A map of one letter changes a whole cluster that begins with it.
    with open("/tmp/rule.tsv", "w") as f:
        f.write("61\t62\n")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["some words", "a few more"] * 30), model_writer=model, vocab_size=20,
                                             hard_vocab_limit=False, normalization_rule_tsv="/tmp/rule.tsv", minloglevel=2)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    one = normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)
    print_spans("new_extending, all", [c for c in POINTS if one.normalize_str("a" + chr(c)) == "b"], set())


if __name__ == "__main__":
    print_characters() if sys.argv[1:] == ["--characters"] else print_categories()
