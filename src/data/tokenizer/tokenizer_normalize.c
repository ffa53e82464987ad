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
    tokenizer_copy copies[2]; // what every other step has written
    text composed;
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
    tokenizer_copy_clear(&w->copies[0]);
    tokenizer_copy_clear(&w->copies[1]);
    free(w->points);
    text_clear(&w->composed);
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

// Sets w->composed.
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
    w->composed.bytes = 0;
    for (utf8proc_ssize_t i = 0; i < count; i++) {
        utf8proc_uint8_t character[4];
        const utf8proc_ssize_t n = utf8proc_encode_char(w->points[i], character);
        text_add_bytes(&w->composed, character, (size_t)n);
    }
    TRY(text_check(&w->composed, e));
done:
    return result;
}

// Composes bytes [first, end) of the piece.
static status compose_part(tokenizer_normalizer_workspace *w, tokenizer_copy *out, size_t first,
                           size_t end, err *e)
{
    status result = OK;
    const char *s = out->from->ptr + first;
    if (first == end) goto done;
    TRY(compose(w, s, end - first, e));
    if (w->composed.bytes == end - first && memcmp(w->composed.chars, s, end - first) == 0)
        TRY(tokenizer_copy_keep(out, first, end - first, e));
    else
        TRY(tokenizer_copy_put(out, w->composed.chars, w->composed.bytes, end, e));
done:
    return result;
}

// Returns whether a character may compose with one before it. These are the marks and the vowels and consonants of Hangul.
static bool joins_before(uint32_t character)
{
    const utf8proc_property_t *p = utf8proc_get_property((utf8proc_int32_t)character);
    return p->combining_class != 0 || p->category == UTF8PROC_CATEGORY_MN ||
           p->category == UTF8PROC_CATEGORY_MC || (character >= 0x1160 && character <= 0x11FF);
}

// Composes the text between marks that are newer than the tables of HuggingFace's tokenizers.
static status compose_known(tokenizer_normalizer_workspace *w, tokenizer_copy *out, size_t first,
                            size_t end, err *e)
{
    status result = OK;
    const char *s = out->from->ptr;
    size_t begin = first, length;
    for (size_t i = first; i < end; i += length) {
        const uint32_t character = unicode_read(s + i, &length);
        const bool is_new = unicode_is_new_mark(character);
        if (is_new || (out->from->traced && !joins_before(character))) {
            TRY(compose_part(w, out, begin, i, e));
            begin = i;
        }
        if (is_new) {
            TRY(tokenizer_copy_keep(out, i, length, e));
            begin = i + length;
        }
    }
    TRY(compose_part(w, out, begin, end, e));
done:
    return result;
}

static bool is_ascii(char c)
{
    return (unsigned char)c < 0x80;
}

// A character of ASCII changes with none before it, and only with one after it that is not of ASCII.
static status run_nfc(tokenizer_normalizer_workspace *w, tokenizer_copy *out, err *e)
{
    status result = OK;
    const char *s = out->from->ptr;
    const size_t bytes = out->from->bytes;
    for (size_t i = 0, end; i < bytes; i = end) {
        for (end = i; end < bytes && is_ascii(s[end]);) end++;
        const size_t plain = end < bytes && end > i ? end - 1 : end;
        TRY(tokenizer_copy_keep(out, i, plain - i, e));
        while (end < bytes && !is_ascii(s[end])) end++;
        TRY(compose_known(w, out, plain, end, e));
    }
done:
    return result;
}

static status run_literal(const tokenizer_normalizer_step *step, tokenizer_copy *out, err *e)
{
    status result = OK;
    const char *s = out->from->ptr, *found;
    const size_t bytes = strlen(step->literal);
    size_t from = 0;
    while ((found = memmem(s + from, out->from->bytes - from, step->literal, bytes))) {
        const size_t at = (size_t)(found - s);
        TRY(tokenizer_copy_keep(out, from, at - from, e));
        from = at + bytes;
        TRY(tokenizer_copy_put(out, step->content, strlen(step->content), from, e));
    }
    TRY(tokenizer_copy_keep(out, from, out->from->bytes - from, e));
done:
    return result;
}

static status run_pattern(tokenizer_normalizer_workspace *w, const tokenizer_normalizer_step *step,
                          tokenizer_copy *out, err *e)
{
    status result = OK;
    size_t from = 0;
    for (;;) {
        bool found;
        size_t start, end;
        TRY(tokenizer_pattern_find(step->pattern, w->match, out->from->ptr, out->from->bytes, from,
                                   &found, &start, &end, e));
        if (!found) break;
        if (start == end) FAIL(E_USAGE, "a pattern of the normalizer matches an empty text");
        TRY(tokenizer_copy_keep(out, from, start - from, e));
        TRY(tokenizer_copy_put(out, step->content, strlen(step->content), end, e));
        from = end;
    }
    TRY(tokenizer_copy_keep(out, from, out->from->bytes - from, e));
done:
    return result;
}

static status run_step(tokenizer_normalizer_workspace *w, const tokenizer_normalizer_step *step,
                       tokenizer_copy *out, err *e)
{
    status result = OK;
    if (!step->content) {
        TRY(run_nfc(w, out, e));
    } else if (step->literal) {
        TRY(run_literal(step, out, e));
    } else if (step->pattern) {
        TRY(run_pattern(w, step, out, e));
    } else {
        if (out->from->bytes > 0)
            TRY(tokenizer_copy_put(out, step->content, strlen(step->content), 0, e));
        TRY(tokenizer_copy_keep(out, 0, out->from->bytes, e));
    }
done:
    return result;
}

status tokenizer_normalizer_run(const tokenizer_normalizer *n, tokenizer_normalizer_workspace *w,
                                const tokenizer_span *in, tokenizer_span *out, err *e)
{
    status result = OK;
    tokenizer_span before = *in;
    for (size_t i = 0; n && i < n->count; i++) {
        tokenizer_copy *copy = &w->copies[i % 2];
        tokenizer_copy_start(copy, &before);
        TRY(run_step(w, &n->steps[i], copy, e));
        before = tokenizer_copy_span(copy);
    }
    *out = before;
done:
    return result;
}
