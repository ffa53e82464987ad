// tokenizer_characters.c -- properties of characters. Normalizers and pre-tokenizers call it. Each property is that of utf8proc,
// less the characters that are newer than the tables of HuggingFace's tokenizers, or with those that are newer than
// utf8proc's. tests/golden/make_tokenizer_unicode.py prints the rows.
#include "data/tokenizer/tokenizer_characters.h"

#include <utf8proc.h>

typedef struct unicode_span {
    uint32_t first, last;
} unicode_span;

// In increasing order.
static const unicode_span new_marks[] = {
    {0x558, 0x558},     {0x58b, 0x58c},     {0x5c8, 0x5c9},     {0x7fd, 0x7fd},
    {0x897, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},     {0xafa, 0xaff},
    {0xb53, 0xb55},     {0xc04, 0xc04},     {0xc3c, 0xc3c},     {0xcf3, 0xd00},
    {0xd3b, 0xd3c},     {0xd81, 0xd81},     {0xeba, 0xeba},     {0xece, 0xece},
    {0x1715, 0x1715},   {0x180f, 0x180f},   {0x1abf, 0x1af0},   {0x1cf7, 0x1cf7},
    {0x1df6, 0x1dfa},   {0x209d, 0x209f},   {0x32ff, 0x32ff},   {0xa7f1, 0xa7f4},
    {0xa82c, 0xa82c},   {0xa8ff, 0xa8ff},   {0xab69, 0xab69},   {0x105c9, 0x105c9},
    {0x105e4, 0x105e4}, {0x10781, 0x107bf}, {0x10d24, 0x10d27}, {0x10d69, 0x10d6d},
    {0x10eab, 0x10eac}, {0x10ecb, 0x10ecf}, {0x10ef0, 0x10eff}, {0x10f46, 0x10f50},
    {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x11073, 0x11074}, {0x110c2, 0x110c2},
    {0x11145, 0x11146}, {0x111c9, 0x111c9}, {0x111ce, 0x111cf}, {0x11241, 0x11241},
    {0x1133b, 0x1133b}, {0x11383, 0x11383}, {0x11385, 0x11385}, {0x1138e, 0x1138e},
    {0x11391, 0x11391}, {0x113b8, 0x113d0}, {0x113d2, 0x113d2}, {0x113e1, 0x113e2},
    {0x1145e, 0x1145e}, {0x1182c, 0x1183a}, {0x11930, 0x1193e}, {0x11940, 0x11940},
    {0x11942, 0x11943}, {0x119d1, 0x119e0}, {0x119e4, 0x119e4}, {0x11a01, 0x11a0a},
    {0x11a33, 0x11a39}, {0x11a3b, 0x11a3e}, {0x11a47, 0x11a47}, {0x11a51, 0x11a5b},
    {0x11a8a, 0x11a99}, {0x11b60, 0x11b67}, {0x11d31, 0x11d45}, {0x11d47, 0x11d47},
    {0x11d8a, 0x11d97}, {0x11df0, 0x11df0}, {0x11ef3, 0x11ef6}, {0x11f00, 0x11f01},
    {0x11f03, 0x11f03}, {0x11f34, 0x11f42}, {0x11f5a, 0x11f5a}, {0x13440, 0x13440},
    {0x13447, 0x13455}, {0x1611e, 0x1612f}, {0x16d68, 0x16d6a}, {0x16f4f, 0x16f4f},
    {0x16f7f, 0x16f87}, {0x16fe4, 0x16ff1}, {0x1b123, 0x1b126}, {0x1ccd6, 0x1ccf9},
    {0x1cf00, 0x1cf46}, {0x1d127, 0x1d128}, {0x1d250, 0x1d252}, {0x1d25b, 0x1d25c},
    {0x1d25f, 0x1d25f}, {0x1d280, 0x1d281}, {0x1d6a6, 0x1d6a6}, {0x1df95, 0x1df95},
    {0x1dfcd, 0x1dfff}, {0x1e030, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae},
    {0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef}, {0x1e5ee, 0x1e5ef}, {0x1e6e3, 0x1e6e3},
    {0x1e6e6, 0x1e6e6}, {0x1e6ee, 0x1e6ef}, {0x1e6f5, 0x1e6f5}, {0x1f16c, 0x1f16c},
    {0x1fbf0, 0x1fbf9},
};
static const unicode_span new_punctuation[] = {
    {0x61d, 0x61d},     {0x9fd, 0x9fd},     {0xa76, 0xa76},     {0xc77, 0xc77},
    {0xc84, 0xc84},     {0x1b4e, 0x1b4f},   {0x1b7d, 0x1b7f},   {0x2e43, 0x2e4f},
    {0x2e52, 0x2e63},   {0x10d6e, 0x10d6e}, {0x10ead, 0x10ead}, {0x10ed0, 0x10ed0},
    {0x10f55, 0x10f59}, {0x10f86, 0x10f89}, {0x113d4, 0x113d8}, {0x1144b, 0x1144f},
    {0x1145a, 0x1145d}, {0x11660, 0x1166c}, {0x116b9, 0x116b9}, {0x1183b, 0x1183b},
    {0x11944, 0x11946}, {0x119e2, 0x119e2}, {0x11a3f, 0x11a46}, {0x11a9a, 0x11a9c},
    {0x11a9e, 0x11aa2}, {0x11b00, 0x11b09}, {0x11be1, 0x11be1}, {0x11c41, 0x11c45},
    {0x11c70, 0x11c71}, {0x11ef7, 0x11ef8}, {0x11f43, 0x11f4f}, {0x11fff, 0x11fff},
    {0x12ff1, 0x12ff2}, {0x16d6d, 0x16d6f}, {0x16e97, 0x16e9a}, {0x16fe2, 0x16fe2},
    {0x1e5ff, 0x1e5ff}, {0x1e95e, 0x1e95f},
};
// Marks that are newer than Unicode 15.
static const unicode_span new_extending[] = {
    {0x897, 0x897},     {0x1acf, 0x1add},   {0x1ae0, 0x1aeb},   {0x10d69, 0x10d6d},
    {0x10efa, 0x10efc}, {0x113b8, 0x113c0}, {0x113c2, 0x113c2}, {0x113c5, 0x113c5},
    {0x113c7, 0x113ca}, {0x113cc, 0x113d0}, {0x113d2, 0x113d2}, {0x113e1, 0x113e2},
    {0x11b60, 0x11b67}, {0x11f5a, 0x11f5a}, {0x1611e, 0x1612f}, {0x1e5ee, 0x1e5ef},
    {0x1e6e3, 0x1e6e3}, {0x1e6e6, 0x1e6e6}, {0x1e6ee, 0x1e6ef}, {0x1e6f5, 0x1e6f5},
};

#define IS_IN(spans, character) is_in((spans), sizeof(spans) / sizeof *(spans), (character))

static bool is_in(const unicode_span *spans, size_t count, uint32_t character)
{
    size_t first = 0, end = count;
    while (first < end) { // finds the first span that does not end before the character
        const size_t middle = first + (end - first) / 2;
        if (spans[middle].last < character)
            first = middle + 1;
        else
            end = middle;
    }
    return first < count && spans[first].first <= character;
}

static const utf8proc_property_t *property_of(uint32_t character)
{
    return utf8proc_get_property((utf8proc_int32_t)character);
}

bool unicode_is_new(uint32_t character)
{
    return character >= new_marks[0].first && IS_IN(new_marks, character);
}

bool unicode_is_mark(uint32_t character)
{
    const int category = property_of(character)->category;
    const bool is_mark = category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
                         category == UTF8PROC_CATEGORY_ME;
    // U+1CF2 and U+1CF3 are letters since Unicode 12.
    return (is_mark && !unicode_is_new(character)) || character == 0x1CF2 || character == 0x1CF3;
}

size_t unicode_lower(uint32_t character, uint32_t out[2])
{
    // Capital letters newer than Unicode 15, and how far their small letters are.
    static const struct {
        uint32_t first, last;
        int32_t add;
    } young[] = {{0x1C89, 0x1C89, 1},     {0xA7CB, 0xA7CB, -0xA567}, {0xA7CC, 0xA7CC, 1},
                 {0xA7CE, 0xA7CE, 1},     {0xA7D2, 0xA7D2, 1},       {0xA7D4, 0xA7D4, 1},
                 {0xA7DA, 0xA7DA, 1},     {0xA7DC, 0xA7DC, -0xA641}, {0x10D50, 0x10D65, 0x20},
                 {0x16EA0, 0x16EB8, 0x1B}};
    out[0] = character;
    if (character < 0x80) {
        if (character >= 'A' && character <= 'Z') out[0] += 'a' - 'A';
        return 1;
    }
    if (character == 0x130) { // I with a dot
        out[0] = 'i', out[1] = 0x307;
        return 2;
    }
    for (size_t i = 0; i < sizeof young / sizeof *young; i++) {
        if (character < young[i].first || character > young[i].last) continue;
        out[0] = (uint32_t)((int32_t)character + young[i].add);
        return 1;
    }
    out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)character);
    return 1;
}

bool unicode_is_punctuation(uint32_t character)
{
    if (character < 0x80)
        return (character >= 33 && character <= 47) || (character >= 58 && character <= 64) ||
               (character >= 91 && character <= 96) || (character >= 123 && character <= 126);
    const int category = property_of(character)->category;
    // U+166D and U+111C9 were punctuation.
    return (category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO &&
            !IS_IN(new_punctuation, character)) ||
           character == 0x166D || character == 0x111C9;
}

unicode_cluster_kind unicode_cluster(uint32_t character)
{
    if (character < 0x80)
        return character < 0x20 || character == 0x7F ? CLUSTER_BREAKS : CLUSTER_PLAIN;
    // These are control characters although none is assigned.
    if (character == 0x2065 || (character >= 0xFFF0 && character <= 0xFFF8) ||
        (character >= 0xE0080 && character <= 0xE00FF) ||
        (character >= 0xE01F0 && character <= 0xE0FFF) ||
        (character >= 0xE0000 && character <= 0xE001F))
        return CLUSTER_BREAKS;
    switch (property_of(character)->boundclass) {
    case UTF8PROC_BOUNDCLASS_EXTEND:
    case UTF8PROC_BOUNDCLASS_SPACINGMARK:
    case UTF8PROC_BOUNDCLASS_ZWJ:
        return CLUSTER_EXTENDS;
    case UTF8PROC_BOUNDCLASS_PREPEND:
        return CLUSTER_PREPENDS;
    case UTF8PROC_BOUNDCLASS_CONTROL:
        return CLUSTER_BREAKS;
    default:
        return IS_IN(new_extending, character) ? CLUSTER_EXTENDS : CLUSTER_PLAIN;
    }
}
