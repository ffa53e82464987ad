// tokenizer_rewrite.c -- steps that rewrite a piece of text. What they leave unchanged is copied in runs.
#define _GNU_SOURCE // memmem
#include "data/tokenizer/tokenizer_rewrite.h"

#include "data/tokenizer/bpe/bpe_bytes.h"
#include "data/tokenizer/tokenizer_characters.h"
#include "data/tokenizer/tokenizer_unicode.h"

#include <string.h>

status tokenizer_rewrite_literal(const char *literal, const char *content, tokenizer_copy *out,
                                 err *e)
{
    status result = OK;
    const char *s = out->from->ptr, *found;
    const size_t bytes = strlen(literal);
    size_t from = 0;
    while ((found = memmem(s + from, out->from->bytes - from, literal, bytes))) {
        const size_t at = (size_t)(found - s);
        TRY(tokenizer_copy_keep(out, from, at - from, e));
        from = at + bytes;
        TRY(tokenizer_copy_put(out, content, strlen(content), from, e));
    }
    TRY(tokenizer_copy_keep(out, from, out->from->bytes - from, e));
done:
    return result;
}

status tokenizer_rewrite_pattern(const tokenizer_pattern *pattern, tokenizer_pattern_workspace *w,
                                 const char *content, tokenizer_copy *out, err *e)
{
    status result = OK;
    size_t from = 0;
    for (;;) {
        bool found;
        size_t start, end;
        TRY(tokenizer_pattern_find(pattern, w, out->from->ptr, out->from->bytes, from, &found,
                                   &start, &end, e));
        if (!found) break;
        if (start == end) FAIL(E_USAGE, "a pattern of the normalizer matches an empty text");
        TRY(tokenizer_copy_keep(out, from, start - from, e));
        TRY(tokenizer_copy_put(out, content, strlen(content), end, e));
        from = end;
    }
    TRY(tokenizer_copy_keep(out, from, out->from->bytes - from, e));
done:
    return result;
}

status tokenizer_rewrite_strip(bool left, bool right, tokenizer_copy *out, err *e)
{
    const char *s = out->from->ptr;
    size_t first = 0, end = out->from->bytes, length;
    while (left && first < end && unicode_is_white_space(unicode_read(s + first, &length)))
        first += length;
    while (right && end > first) {
        size_t before = end - 1;
        while (((uint8_t)s[before] & 0xC0) == 0x80) before--;
        if (!unicode_is_white_space(unicode_read(s + before, &length))) break;
        end = before;
    }
    return tokenizer_copy_keep(out, first, end - first, e);
}

status tokenizer_rewrite_bytes(tokenizer_copy *out, err *e)
{
    status result = OK;
    for (size_t i = 0; i < out->from->bytes; i++) {
        char spelled[2];
        const size_t length = bpe_spell(out->from->ptr + i, 1, spelled);
        TRY(tokenizer_copy_put(out, spelled, length, i + 1, e));
    }
done:
    return result;
}

status tokenizer_rewrite_characters(tokenizer_rewrite_fn fn, tokenizer_copy *out, err *e)
{
    status result = OK;
    const char *s = out->from->ptr;
    size_t kept = 0, length;
    for (size_t i = 0; i < out->from->bytes; i += length) {
        uint32_t changed[2];
        char written[8];
        size_t bytes = 0;
        const uint32_t character = unicode_read(s + i, &length);
        const size_t count = fn(character, changed);
        if (count == 1 && changed[0] == character) continue;
        for (size_t k = 0; k < count; k++) bytes += unicode_write(changed[k], written + bytes);
        TRY(tokenizer_copy_keep(out, kept, i - kept, e));
        TRY(tokenizer_copy_put(out, written, bytes, i + length, e));
        kept = i + length;
    }
    TRY(tokenizer_copy_keep(out, kept, out->from->bytes - kept, e));
done:
    return result;
}

size_t tokenizer_rewrite_lower(uint32_t character, uint32_t out[2])
{
    return unicode_lower(character, out);
}

size_t tokenizer_rewrite_accents(uint32_t character, uint32_t out[2])
{
    out[0] = character;
    return character < 0x300 || !unicode_is_mark(character);
}

size_t tokenizer_rewrite_nmt(uint32_t c, uint32_t out[2])
{
    const bool dropped = (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F ||
                         c == 0x8F || c == 0x9F;
    const bool is_space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                          (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 ||
                          c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
    out[0] = is_space ? ' ' : c;
    return !dropped;
}
