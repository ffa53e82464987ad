// completion.c -- finds stop strings and complete characters in generated text. See completion.h.
// Called by `trireme generate` for each token. It does not know where tokens come from or where
// text goes.
#include "infer/completion.h"

#include <string.h>

// Whether the bytes at s are the beginning of a UTF-8 character. After every legal beginning,
// either the smallest or the largest continuation is legal, so these two are tried.
static bool can_be_completed(const char *s, size_t bytes)
{
    enum { LONGEST = 4 };
    size_t bad;
    for (size_t more = 1; bytes + more <= LONGEST; more++)
        for (int k = 0; k < 2; k++) {
            char whole[LONGEST];
            memcpy(whole, s, bytes);
            memset(whole + bytes, k ? 0xbf : 0x80, more);
            if (text_is_utf8(whole, bytes + more, &bad)) return true;
        }
    return false;
}

// There is no complete character at `s`. Returns the length of the longest beginning of one, at
// least 1.
static size_t broken_bytes(const char *s, size_t bytes)
{
    for (size_t n = bytes < 3 ? bytes : 3; n > 1; n--)
        if (can_be_completed(s, n)) return n;
    return 1;
}

// Appends the text before `end` to *shown. An incomplete character at its end waits for more bytes,
// unless `final`.
static void hand_out(completion *c, size_t end, bool final, text *shown)
{
    while (c->given < end) {
        const char *s = c->bytes.chars + c->given;
        size_t left = end - c->given, whole = left;
        if (!text_is_utf8(s, left, &whole)) left = whole;
        text_add_bytes(shown, s, left);
        c->given += left;
        if (c->given == end) return;
        s += left;
        left = end - c->given;
        const size_t broken = broken_bytes(s, left);
        if (!final && broken == left && can_be_completed(s, left)) return;
        text_add(shown, "\xef\xbf\xbd");
        c->given += broken;
    }
}

// Finds the first stop string after the bytes that were handed out. Of two at the same offset, the
// one that stands first in c->stop.
static bool find_stop(completion *c, size_t *offset)
{
    for (*offset = c->given; *offset < c->bytes.bytes; ++*offset)
        for (size_t i = 0; i < c->stops; i++) {
            const size_t n = strlen(c->stop[i]);
            if (n > c->bytes.bytes - *offset ||
                memcmp(c->bytes.chars + *offset, c->stop[i], n) != 0)
                continue;
            c->found = c->stop[i];
            return true;
        }
    return false;
}

// The offset of the longest suffix of the text that is a prefix of a stop string.
static size_t possible_stop(const completion *c)
{
    for (size_t offset = c->given; offset < c->bytes.bytes; offset++)
        for (size_t i = 0, left = c->bytes.bytes - offset; i < c->stops; i++)
            if (left < strlen(c->stop[i]) && memcmp(c->stop[i], c->bytes.chars + offset, left) == 0)
                return offset;
    return c->bytes.bytes;
}

void completion_add(completion *c, const char *bytes, size_t count, text *shown)
{
    size_t offset;
    if (count == 0 || c->found) return;
    text_add_bytes(&c->bytes, bytes, count);
    if (c->bytes.failed) {
        text_fail(shown);
        return;
    }
    if (find_stop(c, &offset)) {
        c->bytes.bytes = offset;
        c->bytes.chars[offset] = 0;
        hand_out(c, offset, true, shown);
    } else {
        hand_out(c, possible_stop(c), false, shown);
    }
}

void completion_end(completion *c, text *shown)
{
    if (!c->bytes.failed) hand_out(c, c->bytes.bytes, true, shown);
}

void completion_clear(completion *c)
{
    text_clear(&c->bytes);
    c->given = 0;
    c->found = NULL;
}
