// json.c -- JSON as Python writes it. Called wherever a file of others is read: configurations,
// tokenizers and their settings, indices of weights, lines of text. Does not know any key.
//
// jansson reads integers of 64 bits and finite doubles. Python's json also writes integers of any
// length, NaN and Infinity. Only a text that jansson refuses is rewritten, and only in those
// places.
#include "base/json.h"

#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// The end of a string that begins at `from`, behind its closing quote.
static size_t string_end(const char *at, size_t bytes, size_t from)
{
    for (size_t i = from + 1; i < bytes; i++) {
        if (at[i] == '\\')
            i++;
        else if (at[i] == '"')
            return i + 1;
    }
    return bytes;
}

static void add_quoted(text *out, const char *at, size_t bytes)
{
    text_add(out, "\"");
    text_add_bytes(out, at, bytes);
    text_add(out, "\"");
}

// A run of the characters of numbers. What is no number stays, for jansson to refuse.
static bool add_number(text *out, const char *at, size_t bytes)
{
    text number = {0};
    char *end;
    bool changed = true, whole;
    text_add_bytes(&number, at, bytes);
    whole = strspn(number.chars + (number.chars[0] == '-'), "0123456789") ==
            bytes - (size_t)(number.chars[0] == '-');
    double real = strtod(number.chars, &end);
    bool valid = *end == 0 && bytes > 0;
    errno = 0;
    if (valid && whole) (void)strtoll(number.chars, NULL, 10);
    bool too_long = valid && whole && errno == ERANGE;
    if (valid && isinf(real)) {
        add_quoted(out, at, bytes);
    } else if (too_long) {
        text_add_bytes(out, at, bytes);
        text_add(out, ".0");
    } else {
        text_add_bytes(out, at, bytes);
        changed = false;
    }
    if (number.failed) text_fail(out);
    text_clear(&number);
    return changed;
}

// Copies `at` with the numbers that jansson refuses rewritten; false when there are none.
static bool rewrite(const char *at, size_t bytes, text *out)
{
    static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
    bool changed = false;
    for (size_t i = 0, end; i < bytes; i = end) {
        size_t word = 0;
        for (int k = 0; k < 3 && !word; k++) {
            size_t length = strlen(words[k]);
            if (bytes - i >= length && memcmp(at + i, words[k], length) == 0) word = length;
        }
        end = i + 1;
        if (at[i] == '"') {
            end = string_end(at, bytes, i);
            text_add_bytes(out, at + i, end - i);
        } else if (word) {
            end = i + word;
            add_quoted(out, at + i, word);
            changed = true;
        } else if (at[i] == '-' || (at[i] >= '0' && at[i] <= '9')) {
            while (end < bytes && at[end] && strchr("0123456789+-.eE", at[end])) end++;
            changed |= add_number(out, at + i, end - i);
        } else {
            text_add_bytes(out, at + i, 1);
        }
    }
    return changed;
}

// As jansson says it: the code is the last byte of the text.
static void set_no_memory(json_error_t *problem)
{
    strcpy(problem->text, "no memory for the text");
    problem->text[JSON_ERROR_TEXT_LENGTH - 1] = json_error_out_of_memory;
}

json_t *json_load_python(const char *at, size_t bytes, size_t flags, json_error_t *problem)
{
    text rewritten = {0};
    json_t *root = json_loadb(at, bytes, flags, problem);
    enum json_error_code why = root ? json_error_unknown : json_error_code(problem);
    if (root || (why != json_error_numeric_overflow && why != json_error_invalid_syntax))
        return root;
    const bool changed = rewrite(at, bytes, &rewritten);
    if (rewritten.failed)
        set_no_memory(problem);
    else if (changed)
        root = json_loadb(rewritten.chars, rewritten.bytes, flags, problem);
    text_clear(&rewritten);
    return root;
}
