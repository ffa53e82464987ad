// completion.c -- stop strings and whole characters in generated text. Called by `trireme generate`
// for each token. Does not know where tokens come from or where text goes. See completion.h.
#include "train/completion.h"

#include <string.h>

// The bytes of an unfinished character become one when these follow. Either the smallest or the
// largest continuation is legal after every legal beginning.
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

// The longest beginning of a character at `s`, which has no whole one: at least one byte.
static size_t broken_bytes(const char *s, size_t bytes)
{
    for (size_t n = bytes < 3 ? bytes : 3; n > 1; n--)
        if (can_be_completed(s, n)) return n;
    return 1;
}

// Hands out what lies before `end`; an unfinished character at the end waits, unless it is final.
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

// The first place from `given` on where a stop string lies; of two at one place, the first given.
static bool find_stop(completion *c, size_t *at)
{
    for (*at = c->given; *at < c->bytes.bytes; ++*at)
        for (size_t i = 0; i < c->stops; i++) {
            const size_t n = strlen(c->stop[i]);
            if (n > c->bytes.bytes - *at || memcmp(c->bytes.chars + *at, c->stop[i], n) != 0)
                continue;
            c->found = c->stop[i];
            return true;
        }
    return false;
}

// Where the longest end of the text begins that a stop string may begin with.
static size_t possible_stop(const completion *c)
{
    for (size_t at = c->given; at < c->bytes.bytes; at++)
        for (size_t i = 0, left = c->bytes.bytes - at; i < c->stops; i++)
            if (left < strlen(c->stop[i]) && memcmp(c->stop[i], c->bytes.chars + at, left) == 0)
                return at;
    return c->bytes.bytes;
}

void completion_add(completion *c, const char *bytes, size_t count, text *shown)
{
    size_t at;
    if (count == 0 || c->found) return;
    text_add_bytes(&c->bytes, bytes, count);
    if (c->bytes.failed) {
        text_fail(shown);
        return;
    }
    if (find_stop(c, &at)) {
        c->bytes.bytes = at;
        c->bytes.chars[at] = 0;
        hand_out(c, at, true, shown);
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
