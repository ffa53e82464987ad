// tokenizer_normalize.c -- reads the normalizers, and sequences of them, as a list of steps, and runs the list. Encoding
// calls it. Each kind of step is in a file of its own: tokenizer_form.c, tokenizer_charsmap.c, tokenizer_rewrite.c. It does
// not know added tokens.
#include "data/tokenizer/tokenizer_normalize.h"

#include "base/alloc.h"
#include "base/text.h"
#include "data/tokenizer/tokenizer_charsmap.h"
#include "data/tokenizer/tokenizer_form.h"
#include "data/tokenizer/tokenizer_rewrite.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { STEPS = 24, DEPTH = 16 };

typedef enum normalizer_kind {
    NORMALIZER_FORM,
    NORMALIZER_PREPEND,
    NORMALIZER_REPLACE,
    NORMALIZER_CHARSMAP,
    NORMALIZER_STRIP,
    NORMALIZER_CHARACTERS,
    NORMALIZER_BYTES
} normalizer_kind;

typedef struct tokenizer_normalizer_step {
    normalizer_kind kind;
    tokenizer_form form;
    char *content;              // what is put in or before
    char *literal;              // the text that it replaces; NULL: none
    tokenizer_pattern *pattern; // or the pattern
    tokenizer_charsmap *map;    // NULL: it changes nothing
    bool strip_left, strip_right;
    tokenizer_rewrite_fn rewrite; // of each character
} tokenizer_normalizer_step;

struct tokenizer_normalizer {
    tokenizer_normalizer_step steps[STEPS];
    size_t count;
    uint64_t hash;
};

struct tokenizer_normalizer_workspace {
    tokenizer_copy copies[2]; // what every other step has written
    tokenizer_form_workspace form;
    tokenizer_pattern_workspace *match;
};

void tokenizer_normalizer_close(tokenizer_normalizer *n)
{
    if (!n) return;
    for (size_t i = 0; i < n->count; i++) {
        free(n->steps[i].content);
        free(n->steps[i].literal);
        tokenizer_pattern_close(n->steps[i].pattern);
        tokenizer_charsmap_close(n->steps[i].map);
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

static status read_text(const json_t *object, const char *field, const char *key, char **out,
                        err *e)
{
    const char *content = json_string_value(json_object_get(object, key));
    if (!content) return err_set(e, E_USAGE, "%s.%s must be a string", field, key);
    return text_copy(content, out, e);
}

static status read_form(tokenizer_normalizer *n, tokenizer_normalizer_step *step,
                        const json_t *object, const char *field, err *e)
{
    (void)field, (void)e;
    const char *type = json_string_value(json_object_get(object, "type"));
    while (strcmp(type, tokenizer_form_words[step->form]) != 0) step->form++;
    if (step->form != TOKENIZER_NFC) add_hash(n, type);
    return OK;
}

static status read_prepend(tokenizer_normalizer *n, tokenizer_normalizer_step *step,
                           const json_t *object, const char *field, err *e)
{
    (void)n;
    return read_text(object, field, "prepend", &step->content, e);
}

static status read_replace(tokenizer_normalizer *n, tokenizer_normalizer_step *step,
                           const json_t *object, const char *field, err *e)
{
    status result = OK;
    const json_t *what = json_object_get(object, "pattern");
    const char *regex = json_string_value(json_object_get(what, "Regex"));
    const char *literal = json_string_value(json_object_get(what, "String"));
    if (!regex == !literal || (literal && !*literal))
        FAIL(E_USAGE, "%s.pattern must be {\"Regex\": text} or {\"String\": text}", field);
    TRY(read_text(object, field, "content", &step->content, e));
    if (literal) TRY(text_copy(literal, &step->literal, e));
    if (regex && (result = tokenizer_pattern_open(regex, &step->pattern, e)) != OK)
        err_prefix(e, "%s: ", field);
    add_hash(n, regex);
done:
    return result;
}

static status read_charsmap(tokenizer_normalizer *n, tokenizer_normalizer_step *step,
                            const json_t *object, const char *field, err *e)
{
    status result = OK;
    const char *map = json_string_value(json_object_get(object, "precompiled_charsmap"));
    if (!map) FAIL(E_USAGE, "%s.precompiled_charsmap must be a string", field);
    result = tokenizer_charsmap_open(map, &step->map, e);
    if (result != OK) err_prefix(e, "%s: ", field);
    add_hash(n, map);
done:
    return result;
}

static status read_side(const json_t *object, const char *field, const char *key, bool *out, err *e)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_boolean(value))
        return err_set(e, E_USAGE, "%s.%s must be true or false", field, key);
    *out = json_is_true(value);
    return OK;
}

static status read_strip(tokenizer_normalizer *n, tokenizer_normalizer_step *step,
                         const json_t *object, const char *field, err *e)
{
    status result = OK;
    TRY(read_side(object, field, "strip_left", &step->strip_left, e));
    TRY(read_side(object, field, "strip_right", &step->strip_right, e));
    add_hash(n, step->strip_left ? "strip left" : "strip");
    add_hash(n, step->strip_right ? "right" : NULL);
done:
    return result;
}

static status read_characters(tokenizer_normalizer *n, tokenizer_normalizer_step *step,
                              const json_t *object, const char *field, err *e)
{
    (void)field, (void)e;
    const char *type = json_string_value(json_object_get(object, "type"));
    step->rewrite = strcmp(type, "Lowercase") == 0      ? tokenizer_rewrite_lower
                    : strcmp(type, "StripAccents") == 0 ? tokenizer_rewrite_accents
                                                        : tokenizer_rewrite_nmt;
    add_hash(n, type);
    return OK;
}

static status read_bytes(tokenizer_normalizer *n, tokenizer_normalizer_step *step,
                         const json_t *object, const char *field, err *e)
{
    (void)step, (void)object, (void)field, (void)e;
    add_hash(n, "ByteLevel");
    return OK;
}

typedef status (*normalizer_read_fn)(tokenizer_normalizer *n, tokenizer_normalizer_step *step,
                                     const json_t *object, const char *field, err *e);
static const struct {
    const char *type;
    normalizer_kind kind;
    normalizer_read_fn read;
} READERS[] = {{"NFC", NORMALIZER_FORM, read_form},
               {"NFD", NORMALIZER_FORM, read_form},
               {"NFKC", NORMALIZER_FORM, read_form},
               {"NFKD", NORMALIZER_FORM, read_form},
               {"Prepend", NORMALIZER_PREPEND, read_prepend},
               {"Replace", NORMALIZER_REPLACE, read_replace},
               {"Precompiled", NORMALIZER_CHARSMAP, read_charsmap},
               {"Strip", NORMALIZER_STRIP, read_strip},
               {"Lowercase", NORMALIZER_CHARACTERS, read_characters},
               {"StripAccents", NORMALIZER_CHARACTERS, read_characters},
               {"Nmt", NORMALIZER_CHARACTERS, read_characters},
               {"ByteLevel", NORMALIZER_BYTES, read_bytes}};

static status read_one(tokenizer_normalizer *n, const json_t *object, const char *field, err *e)
{
    status result = OK;
    const char *type = json_string_value(json_object_get(object, "type"));
    size_t i = 0;
    if (!type) FAIL(E_USAGE, "%s.type is missing", field);
    if (n->count == STEPS) FAIL(E_USAGE, "%s: more than %d steps", field, STEPS);
    while (i < sizeof READERS / sizeof *READERS && strcmp(type, READERS[i].type) != 0) i++;
    if (i == sizeof READERS / sizeof *READERS)
        FAIL(E_USAGE,
             "%s.type is %.*s; valid are NFC, NFD, NFKC, NFKD, Prepend, Replace, Precompiled, "
             "Strip, "
             "StripAccents, Lowercase, Nmt, ByteLevel and a Sequence of them",
             field, TEXT_CUT(type, 60));
    tokenizer_normalizer_step *step = &n->steps[n->count++];
    *step = (tokenizer_normalizer_step){.kind = READERS[i].kind};
    TRY(READERS[i].read(n, step, object, field, e));
    add_hash(n, step->literal);
    add_hash(n, step->content);
done:
    return result;
}

static status read_any(tokenizer_normalizer *n, const json_t *object, const char *field, int depth,
                       err *e)
{
    status result = OK;
    const char *type = json_string_value(json_object_get(object, "type"));
    const json_t *list = json_object_get(object, "normalizers");
    text inner = {0};
    if (!type || strcmp(type, "Sequence") != 0) return read_one(n, object, field, e);
    if (!json_is_array(list)) FAIL(E_USAGE, "%s.normalizers must be a list", field);
    if (depth == DEPTH) FAIL(E_USAGE, "normalizer: sequences deeper than %d", DEPTH);
    for (size_t i = 0; i < json_array_size(list); i++) {
        inner.bytes = 0;
        text_addf(&inner, "%s.normalizers[%zu]", field, i);
        TRY(text_check(&inner, e));
        TRY(read_any(n, json_array_get(list, i), inner.chars, depth + 1, e));
    }
done:
    text_clear(&inner);
    return result;
}

status tokenizer_normalizer_open(const json_t *normalizer, tokenizer_normalizer **out, err *e)
{
    status result = OK;
    tokenizer_normalizer *n = NULL;
    *out = NULL;
    if (!normalizer || json_is_null(normalizer)) return OK;
    TRY(alloc_zeroed(&n, 1, sizeof *n, "a tokenizer", e));
    TRY(read_any(n, normalizer, "normalizer", 0, e));
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
    tokenizer_form_workspace_clear(&w->form);
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

static status run_step(tokenizer_normalizer_workspace *w, const tokenizer_normalizer_step *step,
                       tokenizer_copy *out, err *e)
{
    status result = OK;
    switch (step->kind) {
    case NORMALIZER_FORM:
        return tokenizer_form_run(step->form, &w->form, out, e);
    case NORMALIZER_PREPEND:
        if (out->from->bytes > 0)
            TRY(tokenizer_copy_put(out, step->content, strlen(step->content), 0, e));
        return tokenizer_copy_keep(out, 0, out->from->bytes, e);
    case NORMALIZER_REPLACE:
        return step->literal
                   ? tokenizer_rewrite_literal(step->literal, step->content, out, e)
                   : tokenizer_rewrite_pattern(step->pattern, w->match, step->content, out, e);
    case NORMALIZER_CHARSMAP:
        return step->map ? tokenizer_charsmap_run(step->map, out, e)
                         : tokenizer_copy_keep(out, 0, out->from->bytes, e);
    case NORMALIZER_STRIP:
        return tokenizer_rewrite_strip(step->strip_left, step->strip_right, out, e);
    case NORMALIZER_CHARACTERS:
        return tokenizer_rewrite_characters(step->rewrite, out, e);
    case NORMALIZER_BYTES:
        return tokenizer_rewrite_bytes(out, e);
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
