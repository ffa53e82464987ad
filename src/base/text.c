// text.c -- growing strings, the nearest valid word, and UTF-8. Every folder calls it. number.c
// reads numbers. This file deliberately ignores the locale.
#include "base/text.h"

#include "base/alloc.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char WHAT[] = "a text";

void text_fail(text *t)
{
    if (!t->failed) free(t->chars);
    *t = (text){.chars = (char *)"", .failed = true};
}

// Makes room for `more` bytes and the final zero. Returns false if the text failed.
static bool text_reserve(text *t, size_t more)
{
    enum { FIRST_ROOM = 64 };
    if (t->failed) return false;
    const size_t need = t->bytes + more + 1;
    const size_t room = need > t->room && need < FIRST_ROOM ? FIRST_ROOM : need;
    if (alloc_grow(&t->chars, &t->room, room, 1, WHAT, NULL) == OK) return true;
    text_fail(t);
    return false;
}

void text_clear(text *t)
{
    if (!t->failed) free(t->chars);
    *t = (text){0};
}

status text_check(const text *t, err *e)
{
    return t->failed ? err_set(e, E_MEMORY, "no memory for %s", WHAT) : OK;
}

status text_take(text *t, char **out, err *e)
{
    text_add(t, "");
    const status result = text_check(t, e);
    if (result == OK) *out = t->chars;
    *t = (text){.chars = NULL};
    return result;
}

void text_add_bytes(text *t, const void *s, size_t bytes)
{
    if (!text_reserve(t, bytes)) return;
    if (bytes) memcpy(t->chars + t->bytes, s, bytes);
    t->bytes += bytes;
    t->chars[t->bytes] = 0;
}

void text_add(text *t, const char *s)
{
    text_add_bytes(t, s, strlen(s));
}

void text_addv(text *t, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    const int length = vsnprintf(NULL, 0, format, args);
    if (length < 0) {
        text_fail(t); // the C library lacked memory, or the text has more than INT_MAX bytes
    } else if (text_reserve(t, (size_t)length)) {
        vsnprintf(t->chars + t->bytes, (size_t)length + 1, format, again);
        t->bytes += (size_t)length;
    }
    va_end(again);
}

void text_addf(text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    text_addv(t, format, args);
    va_end(args);
}

void text_add_number(text *t, double value)
{
    char s[40];
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(s, sizeof s, "%.*g", digits, value);
        if (strtod(s, NULL) == value) break;
    }
    // YAML 1.1 reads 1e-05 as a word; every reader takes 1.0e-05 for a number.
    const char *power = strchr(s, 'e');
    if (power && !strchr(s, '.'))
        text_addf(t, "%.*s.0%s", (int)(power - s), s, power);
    else
        text_add(t, s);
}

void text_add_json(text *t, const char *s)
{
    size_t bad_offset;
    const bool utf8 = text_is_utf8(s, strlen(s), &bad_offset);
    text_add(t, "\"");
    for (; *s; s++) {
        const unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            text_addf(t, "\\%c", c);
        else if (c < 0x20)
            text_addf(t, "\\u%04x", c);
        else if (c >= 0x80 && !utf8)
            text_add(t, "\\ufffd");
        else
            text_add_bytes(t, s, 1);
    }
    text_add(t, "\"");
}

status text_copy(const char *s, char **out, err *e)
{
    const size_t bytes = strlen(s) + 1;
    const status result = alloc_array(out, bytes, 1, WHAT, e);
    if (result == OK) memcpy(*out, s, bytes);
    return result;
}

enum { WORD_MAX = 63 };

// Copies s in lower case, with '_' for '-'. It truncates longer words, which only makes guesses
// worse.
static int fold_word(const char *s, char out[WORD_MAX + 1])
{
    int n = 0;
    for (; s[n] && n < WORD_MAX; n++)
        out[n] = s[n] == '-' ? '_' : (char)tolower((unsigned char)s[n]);
    out[n] = 0;
    return n;
}

static int min_of(int a, int b)
{
    return a < b ? a : b;
}

// The optimal string alignment distance: insertions, deletions, substitutions, swaps of adjacent
// characters.
static int edit_distance(const char *a, int na, const char *b, int nb)
{
    int row[3][WORD_MAX + 1];
    int *before = row[0], *last = row[1], *now = row[2];
    for (int j = 0; j <= nb; j++) last[j] = j;
    for (int i = 1; i <= na; i++) {
        now[0] = i;
        for (int j = 1; j <= nb; j++) {
            int cost = a[i - 1] != b[j - 1];
            now[j] = min_of(min_of(last[j] + 1, now[j - 1] + 1), last[j - 1] + cost);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = min_of(now[j], before[j - 2] + 1);
        }
        int *free_row = before;
        before = last;
        last = now;
        now = free_row;
    }
    return last[nb];
}

const char *text_nearest(const char *word, const char *const *candidates, size_t count)
{
    char w[WORD_MAX + 1], c[WORD_MAX + 1];
    int length = fold_word(word, w);
    int best = 2 + length / 4;
    const char *nearest = NULL;
    for (size_t i = 0; i < count; i++) {
        int d = edit_distance(w, length, c, fold_word(candidates[i], c));
        if (d < best) {
            best = d;
            nearest = candidates[i];
        }
    }
    return nearest;
}

void text_bytes(char out[24], double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    while (unit + 1 < sizeof units / sizeof units[0] && (bytes >= 1024 || bytes <= -1024)) {
        bytes /= 1024;
        unit++;
    }
    snprintf(out, 24, unit ? "%.2f %s" : "%.0f %s", bytes, units[unit]);
}

// Returns the length of the well-formed character that s starts with, or 0. s has n > 0 bytes.
static size_t utf8_length(const uint8_t *s, size_t n)
{
    uint8_t b = s[0], low = 0x80, high = 0xbf;
    size_t length;
    if (b < 0x80) return 1;
    if (b >= 0xc2 && b <= 0xdf)
        length = 2;
    else if ((b & 0xf0) == 0xe0)
        length = 3;
    else if (b >= 0xf0 && b <= 0xf4)
        length = 4;
    else
        return 0;
    if (length > n) return 0;
    if (b == 0xe0) low = 0xa0;  // overlong
    if (b == 0xed) high = 0x9f; // surrogates
    if (b == 0xf0) low = 0x90;  // overlong
    if (b == 0xf4) high = 0x8f; // above U+10FFFF
    if (s[1] < low || s[1] > high) return 0;
    for (size_t i = 2; i < length; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    return length;
}

bool text_is_utf8(const void *s, size_t bytes, size_t *bad_offset)
{
    const uint8_t *byte = s;
    size_t i = 0;
    while (i < bytes) {
        uint64_t eight;
        if (bytes - i >= 8 && (memcpy(&eight, byte + i, 8), !(eight & 0x8080808080808080u))) {
            i += 8;
            continue;
        }
        size_t length = utf8_length(byte + i, bytes - i);
        if (!length) {
            if (bad_offset) *bad_offset = i;
            return false;
        }
        i += length;
    }
    return true;
}

// Returns whether the well-formed character s controls a terminal, breaks a line or changes the
// direction of writing.
static bool is_control(const uint8_t *s, size_t length)
{
    if (length == 1) return s[0] < 0x20 || s[0] == 0x7f;
    if (length == 2) return s[0] == 0xc2 && s[1] < 0xa0;   // U+0080 to U+009F
    if (length != 3 || s[0] != 0xe2) return false;         //
    if (s[1] == 0x80) return s[2] >= 0xa8 && s[2] <= 0xae; // U+2028 to U+202E
    return s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9;   // U+2066 to U+2069
}

static void add_escaped(text *t, uint8_t byte)
{
    static const char letters[] = "\nn\tt\rr";
    for (const char *p = letters; *p; p += 2)
        if (byte == (uint8_t)p[0]) {
            text_addf(t, "\\%c", p[1]);
            return;
        }
    text_addf(t, "\\x%02x", byte);
}

void text_add_printable(text *t, const char *s, size_t bytes, const char *allowed)
{
    const uint8_t *byte = (const uint8_t *)s;
    text_add(t, "");
    for (size_t i = 0, length; i < bytes; i += length) {
        const size_t good = utf8_length(byte + i, bytes - i);
        length = good ? good : 1;
        const bool kept = byte[i] && strchr(allowed, byte[i]);
        if (good && (kept || !is_control(byte + i, good)))
            text_add_bytes(t, byte + i, length);
        else
            for (size_t k = 0; k < length; k++) add_escaped(t, byte[i + k]);
    }
}

size_t text_cut(const char *s, size_t most)
{
    const uint8_t *byte = (const uint8_t *)s;
    const size_t bytes = strnlen(s, most + 1);
    if (bytes <= most) return bytes;
    for (size_t back = 0; back < 4 && back <= most; back++) {
        const size_t start = most - back; // a character that begins here ends beyond `most`
        if ((byte[start] & 0xc0) != 0x80) return start;
    }
    return most;
}

void text_trim(char *s)
{
    const size_t bytes = strlen(s);
    for (size_t back = 1; back < 4 && back <= bytes; back++) {
        const uint8_t *first = (const uint8_t *)s + bytes - back;
        if ((*first & 0xc0) == 0x80) continue;
        const size_t needs = *first >= 0xf0 ? 4 : *first >= 0xe0 ? 3 : *first >= 0xc2 ? 2 : 1;
        if (needs > back) s[bytes - back] = 0;
        return;
    }
}
