// tokenizer_normalize.c -- the normalizers NFC (by utf8proc), Prepend and Replace, and sequences of them, as a list of
// steps. Encoding calls it. It does not know added tokens.
#define _GNU_SOURCE // memmem
#include "data/tokenizer/tokenizer_normalize.h"

#include "base/alloc.h"
#include "base/text.h"
#include "data/tokenizer/tokenizer_pattern.h"
#include "data/tokenizer/tokenizer_unicode.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>
#include <xxhash.h>

enum { STEPS = 16 };

typedef struct tokenizer_normalizer_step {
    char *content;              // what is put in or before; NULL: NFC
    char *literal;              // the text that it replaces; NULL: none
    tokenizer_pattern *pattern; // or the pattern; NULL: none, then `content` is put before
} tokenizer_normalizer_step;

struct tokenizer_normalizer {
    tokenizer_normalizer_step steps[STEPS];
    size_t count;
    uint64_t hash;
};

struct tokenizer_normalizer_workspace {
    text from, to; // before and after a step
    int32_t *points;
    size_t point_room;
    tokenizer_pattern_workspace *match;
};

void tokenizer_normalizer_close(tokenizer_normalizer *n)
{
    if (!n) return;
    for (size_t i = 0; i < n->count; i++) {
        free(n->steps[i].content);
        free(n->steps[i].literal);
        tokenizer_pattern_close(n->steps[i].pattern);
    }
    free(n);
}

uint64_t tokenizer_normalizer_hash(const tokenizer_normalizer *n)
{
    return n ? n->hash : 0;
}

// ---- The field

static void add_hash(tokenizer_normalizer *n, const char *s)
{
    n->hash = XXH3_64bits_withSeed(s ? s : "", s ? strlen(s) + 1 : 0, n->hash + 1);
}

static status read_content(tokenizer_normalizer *n, const json_t *object, const char *field,
                           const char *key, err *e)
{
    const char *content = json_string_value(json_object_get(object, key));
    if (!content) return err_set(e, E_USAGE, "%s.%s must be a string", field, key);
    return text_copy(content, &n->steps[n->count - 1].content, e);
}

static status read_replace(tokenizer_normalizer *n, const json_t *object, const char *field, err *e)
{
    status result = OK;
    tokenizer_normalizer_step *step = &n->steps[n->count - 1];
    const json_t *what = json_object_get(object, "pattern");
    const char *regex = json_string_value(json_object_get(what, "Regex"));
    const char *literal = json_string_value(json_object_get(what, "String"));
    if (!regex == !literal || (literal && !*literal))
        FAIL(E_USAGE, "%s.pattern must be {\"Regex\": text} or {\"String\": text}", field);
    TRY(read_content(n, object, field, "content", e));
    if (literal) TRY(text_copy(literal, &step->literal, e));
    if (regex && (result = tokenizer_pattern_open(regex, &step->pattern, e)) != OK)
        err_prefix(e, "%s: ", field);
    add_hash(n, regex);
done:
    return result;
}

static status read_one(tokenizer_normalizer *n, const json_t *object, const char *field, err *e)
{
    status result = OK;
    const char *type = json_string_value(json_object_get(object, "type"));
    if (!type) FAIL(E_USAGE, "%s.type is missing", field);
    if (n->count == STEPS) FAIL(E_USAGE, "%s: more than %d steps", field, STEPS);
    tokenizer_normalizer_step *step = &n->steps[n->count++];
    *step = (tokenizer_normalizer_step){.content = NULL};
    if (strcmp(type, "Prepend") == 0)
        TRY(read_content(n, object, field, "prepend", e));
    else if (strcmp(type, "Replace") == 0)
        TRY(read_replace(n, object, field, e));
    else if (strcmp(type, "NFC") != 0)
        FAIL(E_USAGE, "%s.type is %s; valid are NFC, Prepend, Replace and a Sequence of them",
             field, type);
    add_hash(n, step->literal);
    add_hash(n, step->content);
done:
    return result;
}

status tokenizer_normalizer_open(const json_t *normalizer, tokenizer_normalizer **out, err *e)
{
    status result = OK;
    const char *type = json_string_value(json_object_get(normalizer, "type"));
    const json_t *list = json_object_get(normalizer, "normalizers");
    tokenizer_normalizer *n = NULL;
    *out = NULL;
    if (!normalizer || json_is_null(normalizer)) return OK;
    TRY(alloc_zeroed(&n, 1, sizeof *n, "a tokenizer", e));
    if (!type || strcmp(type, "Sequence") != 0) {
        TRY(read_one(n, normalizer, "normalizer", e));
    } else if (!json_is_array(list)) {
        FAIL(E_USAGE, "normalizer.normalizers must be a list");
    }
    for (size_t i = 0; type && strcmp(type, "Sequence") == 0 && i < json_array_size(list); i++) {
        char field[64];
        snprintf(field, sizeof field, "normalizer.normalizers[%zu]", i);
        TRY(read_one(n, json_array_get(list, i), field, e));
    }
    if (n->count == 0) goto done;
    *out = n;
    n = NULL;
done:
    tokenizer_normalizer_close(n);
    return result;
}

// ---- A text

void tokenizer_normalizer_workspace_close(tokenizer_normalizer_workspace *w)
{
    if (!w) return;
    text_clear(&w->from);
    text_clear(&w->to);
    free(w->points);
    tokenizer_pattern_workspace_close(w->match);
    free(w);
}

status tokenizer_normalizer_workspace_open(tokenizer_normalizer_workspace **out, err *e)
{
    status result = OK;
    tokenizer_normalizer_workspace *w = NULL;
    TRY(alloc_zeroed(&w, 1, sizeof *w, "a tokenizer", e));
    TRY(tokenizer_pattern_workspace_open(&w->match, e));
    *out = w;
    w = NULL;
done:
    tokenizer_normalizer_workspace_close(w);
    return result;
}

static status compose(tokenizer_normalizer_workspace *w, const char *string, size_t bytes, err *e)
{
    status result = OK;
    const utf8proc_option_t how = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    utf8proc_ssize_t count = 0, room;
    TRY(alloc_grow(&w->points, &w->point_room, bytes, sizeof *w->points, "a tokenizer", e));
    for (;;) {
        room = (utf8proc_ssize_t)w->point_room;
        count = utf8proc_decompose((const utf8proc_uint8_t *)string, (utf8proc_ssize_t)bytes,
                                   w->points, room, how);
        if (count <= room) break;
        TRY(alloc_grow(&w->points, &w->point_room, (size_t)count, sizeof *w->points, "a tokenizer",
                       e));
    }
    if (count >= 0) count = utf8proc_normalize_utf32(w->points, count, how);
    if (count < 0) FAIL(E_USAGE, "NFC fails on this text: %s", utf8proc_errmsg(count));
    for (utf8proc_ssize_t i = 0; i < count; i++) {
        utf8proc_uint8_t character[4];
        const utf8proc_ssize_t n = utf8proc_encode_char(w->points[i], character);
        text_add_bytes(&w->to, character, (size_t)n);
    }
done:
    return result;
}

// Composes the text between marks that are newer than the tables of HuggingFace's tokenizers.
static status compose_known(tokenizer_normalizer_workspace *w, const char *s, size_t bytes, err *e)
{
    status result = OK;
    size_t begin = 0, length;
    for (size_t i = 0; i < bytes; i += length) {
        if (!unicode_is_new_mark(unicode_read(s + i, &length))) continue;
        if (i > begin) TRY(compose(w, s + begin, i - begin, e));
        text_add_bytes(&w->to, s + i, length);
        begin = i + length;
    }
    if (bytes > begin) TRY(compose(w, s + begin, bytes - begin, e));
done:
    return result;
}

static bool is_ascii(char c)
{
    return (unsigned char)c < 0x80;
}

// A character of ASCII changes with none before it, and only with one after it that is not of ASCII.
static status run_nfc(tokenizer_normalizer_workspace *w, err *e)
{
    status result = OK;
    const char *s = w->from.chars;
    const size_t bytes = w->from.bytes;
    for (size_t i = 0, end; i < bytes; i = end) {
        for (end = i; end < bytes && is_ascii(s[end]);) end++;
        const size_t plain = end < bytes && end > i ? end - 1 : end;
        text_add_bytes(&w->to, s + i, plain - i);
        while (end < bytes && !is_ascii(s[end])) end++;
        TRY(compose_known(w, s + plain, end - plain, e));
    }
done:
    return result;
}

static void run_literal(tokenizer_normalizer_workspace *w, const tokenizer_normalizer_step *step)
{
    const char *s = w->from.chars, *end = s + w->from.bytes, *found;
    const size_t bytes = strlen(step->literal);
    while ((found = memmem(s, (size_t)(end - s), step->literal, bytes))) {
        text_add_bytes(&w->to, s, (size_t)(found - s));
        text_add(&w->to, step->content);
        s = found + bytes;
    }
    text_add_bytes(&w->to, s, (size_t)(end - s));
}

static status run_pattern(tokenizer_normalizer_workspace *w, const tokenizer_normalizer_step *step,
                          err *e)
{
    status result = OK;
    size_t from = 0;
    const char *s = w->from.chars;
    for (;;) {
        bool found;
        size_t start, end;
        TRY(tokenizer_pattern_find(step->pattern, w->match, s, w->from.bytes, from, &found, &start,
                                   &end, e));
        if (!found) break;
        if (start == end) FAIL(E_USAGE, "a pattern of the normalizer matches an empty text");
        text_add_bytes(&w->to, s + from, start - from);
        text_add(&w->to, step->content);
        from = end;
    }
    text_add_bytes(&w->to, s + from, w->from.bytes - from);
done:
    return result;
}

static status run_step(tokenizer_normalizer_workspace *w, const tokenizer_normalizer_step *step,
                       err *e)
{
    status result = OK;
    w->to.bytes = 0;
    if (!step->content) {
        TRY(run_nfc(w, e));
    } else if (step->literal) {
        run_literal(w, step);
    } else if (step->pattern) {
        TRY(run_pattern(w, step, e));
    } else {
        if (w->from.bytes > 0) text_add(&w->to, step->content);
        text_add_bytes(&w->to, w->from.chars, w->from.bytes);
    }
    TRY(text_check(&w->to, e));
done:
    return result;
}

status tokenizer_normalizer_run(const tokenizer_normalizer *n, tokenizer_normalizer_workspace *w,
                                const char *string, size_t bytes, const char **out,
                                size_t *out_bytes, err *e)
{
    status result = OK;
    *out = string, *out_bytes = bytes;
    if (!n) return OK;
    w->to.bytes = 0;
    text_add_bytes(&w->to, string, bytes);
    TRY(text_check(&w->to, e));
    for (size_t i = 0; i < n->count; i++) {
        const text before = w->from;
        w->from = w->to, w->to = before;
        TRY(run_step(w, &n->steps[i], e));
    }
    *out = w->to.chars, *out_bytes = w->to.bytes;
done:
    return result;
}
