// tokenizer_added.c -- finds added tokens in text, with the rules of HuggingFace's tokenizers for
// whole words and white space around. Called by encoding, once for the tokens that are looked for
// in raw text and once, on what is left, for the others. Knows nothing of byte pairs.
#include "data/tokenizer_added.h"

#include "data/tokenizer_pattern.h"
#include "data/tokenizer_unicode.h"

#include <stdlib.h>
#include <string.h>

// A word character as the `regex` crate has it: letters, marks, digits, connectors, joiners and the
// alphabetic symbols.
static const char word_pattern[] =
    "[\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}\\x{1F150}-"
    "\\x{1F169}\\x{1F170}-\\x{1F189}\\x{200C}\\x{200D}]";

struct added_set {
    added_token *tokens; // in the order of their bytes
    size_t count;
    bool first[256]; // does a token start with this byte?
    pattern *word;   // NULL when no token asks for whole words
};

static int by_content(const void *a, const void *b)
{
    const added_token *x = a, *y = b;
    int order = memcmp(x->content, y->content, x->bytes < y->bytes ? x->bytes : y->bytes);
    return order ? order : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

void added_set_close(added_set *s)
{
    if (!s) return;
    pattern_close(s->word);
    free(s->tokens);
    free(s);
}

status added_set_open(const added_token *tokens, size_t count, added_set **out, err *e)
{
    status result = OK;
    bool whole_words = false;
    added_set *s = calloc(1, sizeof *s);
    if (!s) FAIL(E_MEMORY, "out of memory");
    s->tokens = calloc(count ? count : 1, sizeof *s->tokens);
    if (!s->tokens) FAIL(E_MEMORY, "out of memory");
    s->count = count;
    for (size_t i = 0; i < count; i++) {
        s->tokens[i] = tokens[i];
        s->first[(uint8_t)tokens[i].content[0]] = true;
        whole_words = whole_words || tokens[i].single_word;
    }
    qsort(s->tokens, count, sizeof *s->tokens, by_content);
    if (whole_words) TRY(pattern_open(word_pattern, &s->word, e));
    *out = s;
    s = NULL;
done:
    added_set_close(s);
    return result;
}

// The longest token that `at` starts with, or NULL: byte by byte, the range of the sorted tokens
// that still agree gets narrower.
static const added_token *token_at(const added_set *s, const char *at, size_t bytes)
{
    const added_token *longest = NULL;
    size_t low = 0, high = s->count;
    for (size_t depth = 0; depth < bytes && low < high; depth++) {
        uint8_t byte = (uint8_t)at[depth];
        size_t first = low, end = high;
        while (first < end) { // the first token whose byte here is not smaller
            size_t middle = first + (end - first) / 2;
            if ((uint8_t)s->tokens[middle].content[depth] < byte)
                first = middle + 1;
            else
                end = middle;
        }
        low = first;
        end = high;
        while (first < end) { // the first token whose byte here is greater
            size_t middle = first + (end - first) / 2;
            if ((uint8_t)s->tokens[middle].content[depth] <= byte)
                first = middle + 1;
            else
                end = middle;
        }
        high = first;
        // A token that ends here is the shortest of the range, hence its first.
        if (low < high && s->tokens[low].bytes == depth + 1) longest = &s->tokens[low++];
    }
    return longest;
}

static size_t previous_character(const char *at, size_t from)
{
    do from--;
    while (((uint8_t)at[from] & 0xC0) == 0x80);
    return from;
}

static status is_word_character(const added_set *s, const char *at, size_t bytes, bool *yes, err *e)
{
    status result = OK;
    pattern_work *work = NULL;
    size_t start, end;
    TRY(pattern_work_open(&work, e));
    TRY(pattern_find(s->word, work, at, bytes, 0, yes, &start, &end, e));
done:
    pattern_work_close(work);
    return result;
}

static status touches_word(const added_set *s, const char *at, size_t bytes, size_t start,
                           size_t end, bool *touches, err *e)
{
    status result = OK;
    *touches = false;
    if (start > 0) {
        size_t before = previous_character(at, start);
        TRY(is_word_character(s, at + before, start - before, touches, e));
    }
    if (!*touches && end < bytes) {
        size_t length;
        unicode_read(at + end, &length);
        TRY(is_word_character(s, at + end, length, touches, e));
    }
done:
    return result;
}

// Widens a match over the white space around it, not over what was given out already.
static void swallow_white_space(const added_token *token, const char *at, size_t bytes,
                                size_t done_to, size_t *start, size_t *end)
{
    size_t length;
    // A match inside white space that the token before swallowed is cut short, maybe to nothing.
    if (token->lstrip && *start < done_to) *start = done_to;
    while (token->lstrip && *start > done_to) {
        size_t before = previous_character(at, *start);
        if (before < done_to || !unicode_is_white_space(unicode_read(at + before, &length))) break;
        *start = before;
    }
    while (token->rstrip && *end < bytes) {
        if (!unicode_is_white_space(unicode_read(at + *end, &length))) break;
        *end += length;
    }
}

status added_set_run(const added_set *s, const char *at, size_t bytes, added_take take, void *arg,
                     err *e)
{
    status result = OK;
    size_t done_to = 0;
    for (size_t i = 0; i < bytes && s->count > 0;) {
        const added_token *token = s->first[(uint8_t)at[i]] ? token_at(s, at + i, bytes - i) : NULL;
        if (!token) {
            i++;
            continue;
        }
        size_t start = i, end = i + token->bytes;
        i = end; // matches do not overlap; swallowed white space may be part of the next one
        if (token->single_word) {
            bool touches;
            TRY(touches_word(s, at, bytes, start, end, &touches, e));
            if (touches) continue;
        }
        swallow_white_space(token, at, bytes, done_to, &start, &end);
        if (start >= end) continue;
        if (start > done_to) TRY(take(arg, -1, at + done_to, start - done_to, e));
        TRY(take(arg, token->id, at + start, end - start, e));
        done_to = end;
    }
    if (bytes > done_to) TRY(take(arg, -1, at + done_to, bytes - done_to, e));
done:
    return result;
}
