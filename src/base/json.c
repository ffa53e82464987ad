// json.c -- see json.h. The readers of foreign files call it: configurations,
// tokenizers and their settings, indices of weights, lines of text. It does not know any key.
//
// jansson reads integers of 64 bits and finite doubles. Python's json also writes integers of any
// length, NaN and Infinity. This file rewrites those numbers, and only in texts that jansson
// refuses.
#include "base/json.h"

#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// Returns the offset behind the closing quote of the string that begins at `from`.
static size_t string_end(const char *chars, size_t bytes, size_t from)
{
    for (size_t i = from + 1; i < bytes; i++) {
        if (chars[i] == '\\')
            i++;
        else if (chars[i] == '"')
            return i + 1;
    }
    return bytes;
}

static void add_quoted(text *out, const char *chars, size_t bytes)
{
    text_add(out, "\"");
    text_add_bytes(out, chars, bytes);
    text_add(out, "\"");
}

// Appends the characters of a number, rewritten if jansson would refuse it. Returns whether it
// rewrote them. Characters that form no number stay unchanged, so that jansson refuses them.
static bool add_number(text *out, const char *chars, size_t bytes)
{
    text number = {0};
    char *end;
    bool changed = true, whole;
    text_add_bytes(&number, chars, bytes);
    whole = strspn(number.chars + (number.chars[0] == '-'), "0123456789") ==
            bytes - (size_t)(number.chars[0] == '-');
    double real = strtod(number.chars, &end);
    bool valid = *end == 0 && bytes > 0;
    errno = 0;
    if (valid && whole) (void)strtoll(number.chars, NULL, 10);
    bool too_long = valid && whole && errno == ERANGE;
    if (valid && isinf(real)) {
        add_quoted(out, chars, bytes);
    } else if (too_long) {
        text_add_bytes(out, chars, bytes);
        text_add(out, ".0");
    } else {
        text_add_bytes(out, chars, bytes);
        changed = false;
    }
    if (number.failed) text_fail(out);
    text_clear(&number);
    return changed;
}

// Copies `chars` and rewrites the numbers that jansson refuses. Returns false if there are none.
static bool rewrite(const char *chars, size_t bytes, text *out)
{
    static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
    bool changed = false;
    for (size_t i = 0, end; i < bytes; i = end) {
        size_t word = 0;
        for (int k = 0; k < 3 && !word; k++) {
            size_t length = strlen(words[k]);
            if (bytes - i >= length && memcmp(chars + i, words[k], length) == 0) word = length;
        }
        end = i + 1;
        if (chars[i] == '"') {
            end = string_end(chars, bytes, i);
            text_add_bytes(out, chars + i, end - i);
        } else if (word) {
            end = i + word;
            add_quoted(out, chars + i, word);
            changed = true;
        } else if (chars[i] == '-' || (chars[i] >= '0' && chars[i] <= '9')) {
            while (end < bytes && chars[end] && strchr("0123456789+-.eE", chars[end])) end++;
            changed |= add_number(out, chars + i, end - i);
        } else {
            text_add_bytes(out, chars + i, 1);
        }
    }
    return changed;
}

// Reports the error as jansson does: the last byte of the text is the code.
static void set_no_memory(json_error_t *problem)
{
    strcpy(problem->text, "no memory for the text");
    problem->text[JSON_ERROR_TEXT_LENGTH - 1] = json_error_out_of_memory;
}

json_t *json_load_python(const char *chars, size_t bytes, size_t flags, json_error_t *problem)
{
    text rewritten = {0};
    json_t *root = json_loadb(chars, bytes, flags, problem);
    enum json_error_code why = root ? json_error_unknown : json_error_code(problem);
    if (root || (why != json_error_numeric_overflow && why != json_error_invalid_syntax))
        return root;
    const bool changed = rewrite(chars, bytes, &rewritten);
    if (rewritten.failed)
        set_no_memory(problem);
    else if (changed)
        root = json_loadb(rewritten.chars, rewritten.bytes, flags, problem);
    text_clear(&rewritten);
    return root;
}

json_t *json_of_text(const char *s)
{
    text valid = {0};
    text_add(&valid, "");
    for (size_t good; *s; s += good + (s[good] != 0)) {
        if (text_is_utf8(s, strlen(s), &good)) good = strlen(s);
        text_add_bytes(&valid, s, good);
    }
    json_t *j = json_string(valid.chars);
    text_clear(&valid);
    return j;
}
