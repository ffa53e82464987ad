// tokenizer_added.c -- finds added tokens in text, with HuggingFace's rules for whole words and for
// the white space around a token. Encoding calls it twice: for the tokens of the raw text, and then,
// on the text between them, for the normalized tokens. It does not know byte pairs.
#include "data/tokenizer/tokenizer_added.h"

#include "base/alloc.h"
#include "data/tokenizer/tokenizer_pattern.h"
#include "data/tokenizer/tokenizer_unicode.h"

#include <stdlib.h>
#include <string.h>

static const char word_pattern[] = "[" UNICODE_WORD_CHARACTERS "]";

struct tokenizer_added_set {
    tokenizer_added_token *tokens; // [count] sorted by content
    size_t count;
    bool first[256];         // a token starts with this byte
    tokenizer_pattern *word; // word_pattern; NULL when no token has single_word
};

static int by_content(const void *a, const void *b)
{
    const tokenizer_added_token *x = a, *y = b;
    int order = memcmp(x->content, y->content, x->bytes < y->bytes ? x->bytes : y->bytes);
    return order ? order : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

void tokenizer_added_close(tokenizer_added_set *s)
{
    if (!s) return;
    tokenizer_pattern_close(s->word);
    free(s->tokens);
    free(s);
}

status tokenizer_added_open(const tokenizer_added_token *tokens, size_t count,
                            tokenizer_added_set **out, err *e)
{
    status result = OK;
    bool whole_words = false;
    tokenizer_added_set *s = NULL;
    TRY(alloc_zeroed(&s, 1, sizeof *s, "the added tokens", e));
    TRY(alloc_zeroed(&s->tokens, count, sizeof *s->tokens, "the added tokens", e));
    s->count = count;
    for (size_t i = 0; i < count; i++) {
        s->tokens[i] = tokens[i];
        s->first[(uint8_t)tokens[i].content[0]] = true;
        whole_words = whole_words || tokens[i].single_word;
    }
    qsort(s->tokens, count, sizeof *s->tokens, by_content);
    if (whole_words) TRY(tokenizer_pattern_open(word_pattern, &s->word, e));
    *out = s;
    s = NULL;
done:
    tokenizer_added_close(s);
    return result;
}

// The longest token that is a prefix of the string, or NULL. Each byte narrows the range of the
// sorted tokens that agree with the string so far.
static const tokenizer_added_token *token_at(const tokenizer_added_set *s, const char *string,
                                             size_t bytes)
{
    const tokenizer_added_token *longest = NULL;
    size_t low = 0, high = s->count;
    for (size_t depth = 0; depth < bytes && low < high; depth++) {
        uint8_t byte = (uint8_t)string[depth];
        size_t first = low, end = high;
        while (first < end) { // finds the first token whose byte at `depth` is not smaller
            size_t middle = first + (end - first) / 2;
            if ((uint8_t)s->tokens[middle].content[depth] < byte)
                first = middle + 1;
            else
                end = middle;
        }
        low = first;
        end = high;
        while (first < end) { // finds the first token whose byte at `depth` is greater
            size_t middle = first + (end - first) / 2;
            if ((uint8_t)s->tokens[middle].content[depth] <= byte)
                first = middle + 1;
            else
                end = middle;
        }
        high = first;
        // A token that ends here is the shortest of the range, so it is the first one.
        if (low < high && s->tokens[low].bytes == depth + 1) longest = &s->tokens[low++];
    }
    return longest;
}

static size_t previous_character(const char *string, size_t from)
{
    do from--;
    while (((uint8_t)string[from] & 0xC0) == 0x80);
    return from;
}

static status is_word_character(const tokenizer_added_set *s, const char *string, size_t bytes,
                                bool *yes, err *e)
{
    status result = OK;
    tokenizer_pattern_workspace *workspace = NULL;
    size_t start, end;
    TRY(tokenizer_pattern_workspace_open(&workspace, e));
    TRY(tokenizer_pattern_find(s->word, workspace, string, bytes, 0, yes, &start, &end, e));
done:
    tokenizer_pattern_workspace_close(workspace);
    return result;
}

static status touches_word(const tokenizer_added_set *s, const char *string, size_t bytes,
                           size_t start, size_t end, bool *touches, err *e)
{
    status result = OK;
    *touches = false;
    if (start > 0) {
        size_t before = previous_character(string, start);
        TRY(is_word_character(s, string + before, start - before, touches, e));
    }
    if (!*touches && end < bytes) {
        size_t length;
        unicode_read(string + end, &length);
        TRY(is_word_character(s, string + end, length, touches, e));
    }
done:
    return result;
}

// Extends a match over the white space around it, but not before `done_to`.
static void include_white_space(const tokenizer_added_token *token, const char *string,
                                size_t bytes, size_t done_to, size_t *start, size_t *end)
{
    size_t length;
    // The previous match may have included the beginning of this one, or all of it.
    if (token->lstrip && *start < done_to) *start = done_to;
    while (token->lstrip && *start > done_to) {
        size_t before = previous_character(string, *start);
        if (before < done_to || !unicode_is_white_space(unicode_read(string + before, &length)))
            break;
        *start = before;
    }
    while (token->rstrip && *end < bytes) {
        if (!unicode_is_white_space(unicode_read(string + *end, &length))) break;
        *end += length;
    }
}

// Returns the end of the literal range that holds byte `at` of the original; 0: none does.
static size_t literal_end(const tokenizer_range *literal, size_t literals, size_t at)
{
    size_t first = 0, end = literals;
    while (first < end) { // finds the first range that does not end before
        const size_t middle = first + (end - first) / 2;
        if (literal[middle].first + literal[middle].bytes <= at)
            first = middle + 1;
        else
            end = middle;
    }
    const bool holds = first < literals && literal[first].first <= at;
    return holds ? literal[first].first + literal[first].bytes : 0;
}

// Returns where the search goes on behind a special token at [start, end) that is no token: behind it, as with
// HuggingFace's encode_special_tokens, but not behind the literal text. 0: it is a token.
static size_t skip_literal(const tokenizer_span *whole, const tokenizer_range *literal,
                           size_t literals, size_t start, size_t end)
{
    const size_t stop = literal_end(literal, literals, tokenizer_span_end(whole, start));
    if (stop == 0) return 0;
    while (end > start + 1 && tokenizer_span_end(whole, end - 1) >= stop) end--;
    return end;
}

static status give(const tokenizer_span *whole, int32_t id, size_t start, size_t end,
                   tokenizer_added_fn fn, void *arg, err *e)
{
    const tokenizer_span piece = tokenizer_span_part(whole, start, end - start);
    return start == end ? OK : fn(arg, id, &piece, e);
}

status tokenizer_added_run(const tokenizer_added_set *s, const tokenizer_span *whole,
                           const tokenizer_range *literal, size_t literals, tokenizer_added_fn fn,
                           void *arg, err *e)
{
    status result = OK;
    const char *string = whole->ptr;
    const size_t bytes = whole->bytes;
    size_t done_to = 0, skipped;
    for (size_t i = 0; i < bytes && s->count > 0;) {
        const tokenizer_added_token *token =
            s->first[(uint8_t)string[i]] ? token_at(s, string + i, bytes - i) : NULL;
        if (!token) {
            i++;
            continue;
        }
        size_t start = i, end = i + token->bytes;
        if (token->special && (skipped = skip_literal(whole, literal, literals, start, end))) {
            i = skipped;
            continue;
        }
        i = end; // matches do not overlap, but the white space after one may begin the next
        if (token->single_word) {
            bool touches;
            TRY(touches_word(s, string, bytes, start, end, &touches, e));
            if (touches) continue;
        }
        include_white_space(token, string, bytes, done_to, &start, &end);
        if (start >= end) continue;
        TRY(give(whole, -1, done_to, start, fn, arg, e));
        TRY(give(whole, token->id, start, end, fn, arg, e));
        done_to = end;
    }
    TRY(give(whole, -1, done_to, bytes, fn, arg, e));
done:
    return result;
}
