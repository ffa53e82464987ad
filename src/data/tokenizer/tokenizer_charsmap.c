// tokenizer_charsmap.c -- the normalizer Precompiled. tokenizer_normalize.c calls it. The map is a block of bytes: the size of
// a double array, the array, and texts that end with a zero byte. A unit of the array is 32 bits: the label of the edge to
// it, whether a text belongs to it, and where its children lie; the place of the text is in the child for the byte 0.
#include "data/tokenizer/tokenizer_charsmap.h"

#include "base/alloc.h"
#include "base/text.h"
#include "data/tokenizer/tokenizer_characters.h"
#include "data/tokenizer/tokenizer_unicode.h"

#include <stdlib.h>
#include <string.h>

struct tokenizer_charsmap {
    uint8_t *block;
    size_t units;
    const char *texts; // [text_bytes] in the block
    size_t text_bytes;
};

// A cluster of characters longer than this is mapped character by character.
enum { CLUSTER_MOST = 5 };

void tokenizer_charsmap_close(tokenizer_charsmap *m)
{
    if (!m) return;
    free(m->block);
    free(m);
}

static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static int base64_digit(char c)
{
    const char *found = c ? strchr(DIGITS, c) : NULL;
    return found ? (int)(found - DIGITS) : -1;
}

int64_t tokenizer_decode_base64(const char *s, uint8_t *out)
{
    int64_t count = 0;
    uint32_t bits = 0;
    int held = 0;
    for (; *s && *s != '='; s++) {
        const int digit = base64_digit(*s);
        if (digit < 0) return -1;
        bits = bits << 6 | (uint32_t)digit;
        held += 6;
        if (held < 8) continue;
        held -= 8;
        out[count++] = (uint8_t)(bits >> held);
    }
    return count;
}

void tokenizer_add_base64(text *out, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i += 3) {
        const size_t here = count - i < 3 ? count - i : 3;
        uint32_t bits = 0;
        for (size_t k = 0; k < 3; k++) bits = bits << 8 | (k < here ? (uint8_t)bytes[i + k] : 0);
        for (size_t k = 0; k < 4; k++)
            text_add_bytes(out, k <= here ? &DIGITS[bits >> (18 - 6 * k) & 63] : "=", 1);
    }
}

static uint32_t little_endian(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

status tokenizer_charsmap_open(const char *base64, tokenizer_charsmap **out, err *e)
{
    status result = OK;
    const size_t length = strlen(base64);
    tokenizer_charsmap *m = NULL;
    *out = NULL;
    if (length == 0) return OK;
    TRY(alloc_zeroed(&m, 1, sizeof *m, "a map of characters", e));
    TRY(alloc_zeroed(&m->block, length / 4 * 3 + 4, 1, "a map of characters", e));
    const int64_t bytes = tokenizer_decode_base64(base64, m->block);
    const uint32_t array = bytes < 4 ? 0 : little_endian(m->block);
    if (bytes < 4 || array % 4 != 0 || array < 4 || array > (uint64_t)bytes - 4)
        FAIL(E_USAGE, "precompiled_charsmap must be base64 of a double array and its texts");
    m->units = array / 4;
    m->texts = (const char *)m->block + 4 + array;
    m->text_bytes = (size_t)bytes - 4 - array;
    if (!text_is_utf8(m->texts, m->text_bytes, NULL))
        FAIL(E_USAGE, "precompiled_charsmap has texts that are not UTF-8");
    *out = m;
    m = NULL;
done:
    tokenizer_charsmap_close(m);
    return result;
}

// The unit at a place of the array; 0, which has no label and no text, behind its end.
static uint32_t unit_at(const tokenizer_charsmap *m, size_t place)
{
    return place < m->units ? little_endian(m->block + 4 + 4 * place) : 0;
}

static size_t children_of(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & 1u << 9) >> 6);
}

// Finds the shortest key that is a beginning of the string, as HuggingFace does. NULL: none is.
static const char *text_of(const tokenizer_charsmap *m, const char *string, size_t bytes,
                           size_t *length)
{
    size_t place = children_of(unit_at(m, 0));
    for (size_t i = 0; i < bytes; i++) {
        const uint8_t c = (uint8_t)string[i];
        const uint32_t unit = unit_at(m, place ^ c);
        if (c == 0 || (unit & (1u << 31 | 0xff)) != c) return NULL;
        place = place ^ c ^ children_of(unit);
        if (!(unit >> 8 & 1)) continue;
        const size_t at = unit_at(m, place) & ~(1u << 31);
        // A text that begins inside a character is broken.
        if (at >= m->text_bytes || ((uint8_t)m->texts[at] & 0xC0) == 0x80) return NULL;
        const char *end = memchr(m->texts + at, 0, m->text_bytes - at);
        *length = end ? (size_t)(end - m->texts) - at : m->text_bytes - at;
        return m->texts + at;
    }
    return NULL;
}

// The end of the cluster of characters that begins at `first`.
static size_t cluster_end(const tokenizer_span *s, size_t first)
{
    size_t length;
    uint32_t character = unicode_read(s->ptr + first, &length);
    size_t end = first + length;
    if (character == '\r' && end < s->bytes && s->ptr[end] == '\n') return end + 1;
    while (end < s->bytes && unicode_cluster(character) == CLUSTER_PREPENDS) {
        const uint32_t next = unicode_read(s->ptr + end, &length);
        if (unicode_cluster(next) == CLUSTER_BREAKS) return end;
        character = next;
        end += length;
    }
    if (unicode_cluster(character) == CLUSTER_BREAKS) return end;
    while (end < s->bytes && (uint8_t)s->ptr[end] >= 0x80 &&
           unicode_cluster(unicode_read(s->ptr + end, &length)) == CLUSTER_EXTENDS)
        end += length;
    return end;
}

// Writes bytes [first, end) as the map says, if it has an entry for their beginning.
static status map_part(const tokenizer_charsmap *m, tokenizer_copy *out, size_t first, size_t end,
                       bool *mapped, err *e)
{
    status result = OK;
    size_t length = 0;
    const char *found = text_of(m, out->from->ptr + first, end - first, &length);
    *mapped = found != NULL;
    if (found) TRY(tokenizer_copy_put(out, found, length, end, e));
done:
    return result;
}

status tokenizer_charsmap_run(const tokenizer_charsmap *m, tokenizer_copy *out, err *e)
{
    status result = OK;
    const tokenizer_span *s = out->from;
    size_t length;
    for (size_t i = 0, end; i < s->bytes; i = end) {
        bool mapped = false;
        end = cluster_end(s, i);
        if (end - i <= CLUSTER_MOST) TRY(map_part(m, out, i, end, &mapped, e));
        for (size_t k = i; !mapped && k < end; k += length) {
            bool character_mapped = false;
            unicode_read(s->ptr + k, &length);
            TRY(map_part(m, out, k, k + length, &character_mapped, e));
            if (!character_mapped) TRY(tokenizer_copy_keep(out, k, length, e));
        }
    }
done:
    return result;
}
