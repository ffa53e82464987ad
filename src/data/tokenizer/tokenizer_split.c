// tokenizer_split.c -- the pre-tokenizers ByteLevel, Split and Digits, and sequences of them, as a
// list of stages. A stage splits text at the matches of a pattern, or puts a space before it.
// Encoding and training call it. ByteLevel must be the last pre-tokenizer, because it also spells
// bytes as characters, which happens after all stages (bpe_bytes.h).
#include "data/tokenizer/tokenizer_split.h"

#include "base/alloc.h"
#include "data/tokenizer/bpe_table.h"
#include "data/tokenizer/tokenizer_pattern.h"
#include "data/tokenizer/tokenizer_unicode.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { STAGES = 16 };

// HuggingFace's Digits uses Rust's tables of Unicode 17; its regular expressions use Unicode 16.
#define DIGIT "[\\p{N}\\x{11DE0}-\\x{11DE9}\\x{16FF4}-\\x{16FF6}]"

typedef struct tokenizer_stage {
    tokenizer_pattern *pattern; // NULL: puts a space before a piece that does not begin with one
} tokenizer_stage;

struct tokenizer_splitter {
    tokenizer_stage stages[STAGES];
    size_t count;
    bool has_byte_level;
    uint64_t hash; // of the stages so far
};

struct tokenizer_splitter_workspace {
    const tokenizer_splitter *splitter;
    tokenizer_pattern_workspace *match;
    char *spaced; // a piece with a space before it
    size_t spaced_room;
};

// The function that receives the words.
typedef struct tokenizer_word_sink {
    tokenizer_word_fn fn;
    void *arg;
} tokenizer_word_sink;

void tokenizer_splitter_close(tokenizer_splitter *s)
{
    if (!s) return;
    for (size_t i = 0; i < s->count; i++) tokenizer_pattern_close(s->stages[i].pattern);
    free(s);
}

uint64_t tokenizer_splitter_hash(const tokenizer_splitter *s)
{
    return s->hash;
}

static status add_stage(tokenizer_splitter *s, const char *field, const char *source, err *e)
{
    if (s->count == STAGES) return err_set(e, E_USAGE, "%s: more than %d steps", field, STAGES);
    tokenizer_stage *next = &s->stages[s->count];
    if (source) {
        status opened = tokenizer_pattern_open(source, &next->pattern, e);
        if (opened != OK) {
            err_prefix(e, "%s: ", field);
            return opened;
        }
    }
    s->count++;
    s->hash = XXH3_64bits_withSeed(source ? source : "", source ? strlen(source) : 0,
                                   s->hash + 1 + !source);
    return OK;
}

// Reads a field that is true, false or absent.
static status read_flag(const json_t *object, const char *field, const char *key, bool absent,
                        bool *out, err *e)
{
    const json_t *value = json_object_get(object, key);
    if (value && !json_is_boolean(value))
        return err_set(e, E_USAGE, "%s.%s must be true or false", field, key);
    *out = value ? json_is_true(value) : absent;
    return OK;
}

static status read_byte_level(tokenizer_splitter *s, const json_t *object, const char *field,
                              err *e)
{
    status result = OK;
    bool prefix = false, regex = false;
    TRY(read_flag(object, field, "add_prefix_space", true, &prefix, e));
    TRY(read_flag(object, field, "use_regex", true, &regex, e));
    if (prefix) TRY(add_stage(s, field, NULL, e));
    if (regex) TRY(add_stage(s, field, tokenizer_pattern_gpt2, e));
    s->has_byte_level = true;
done:
    return result;
}

static status read_digits(tokenizer_splitter *s, const json_t *object, const char *field, err *e)
{
    status result = OK;
    bool individual = false;
    TRY(read_flag(object, field, "individual_digits", false, &individual, e));
    TRY(add_stage(s, field, individual ? DIGIT : DIGIT "+", e));
done:
    return result;
}

static status read_split(tokenizer_splitter *s, const json_t *object, const char *field, err *e)
{
    status result = OK;
    text quoted = {0};
    bool invert = false;
    const json_t *what = json_object_get(object, "pattern");
    const char *regex = json_string_value(json_object_get(what, "Regex"));
    const char *literal = json_string_value(json_object_get(what, "String"));
    const char *behavior = json_string_value(json_object_get(object, "behavior"));
    if (!regex == !literal)
        FAIL(E_USAGE, "%s.pattern must be {\"Regex\": text} or {\"String\": text}", field);
    if (!behavior || strcmp(behavior, "Isolated") != 0)
        FAIL(E_USAGE, "%s.behavior is %s; only Isolated is supported", field,
             behavior ? behavior : "missing");
    TRY(read_flag(object, field, "invert", false, &invert, e));
    if (invert) FAIL(E_USAGE, "%s.invert is true; only false is supported", field);
    if (literal) tokenizer_pattern_quote(literal, &quoted);
    TRY(text_check(&quoted, e));
    if (literal && !*literal) FAIL(E_USAGE, "%s.pattern is empty", field);
    TRY(add_stage(s, field, literal ? quoted.chars : regex, e));
done:
    text_clear(&quoted);
    return result;
}

static status read_one(tokenizer_splitter *s, const json_t *object, const char *field, err *e)
{
    const char *type = json_string_value(json_object_get(object, "type"));
    if (!type) return err_set(e, E_USAGE, "%s.type is missing", field);
    if (s->has_byte_level)
        return err_set(e, E_USAGE,
                       "%s: %s after ByteLevel is not supported; ByteLevel must be the last", field,
                       type);
    if (strcmp(type, "ByteLevel") == 0) return read_byte_level(s, object, field, e);
    if (strcmp(type, "Split") == 0) return read_split(s, object, field, e);
    if (strcmp(type, "Digits") == 0) return read_digits(s, object, field, e);
    return err_set(e, E_USAGE,
                   "%s.type is %s; valid are ByteLevel, Split, Digits and a Sequence of them",
                   field, type);
}

static status read_sequence(tokenizer_splitter *s, const json_t *list, err *e)
{
    status result = OK;
    if (!json_is_array(list)) FAIL(E_USAGE, "pre_tokenizer.pretokenizers must be a list");
    for (size_t i = 0; i < json_array_size(list); i++) {
        char field[64];
        snprintf(field, sizeof field, "pre_tokenizer.pretokenizers[%zu]", i);
        TRY(read_one(s, json_array_get(list, i), field, e));
    }
done:
    return result;
}

status tokenizer_splitter_open(const json_t *pre_tokenizer, tokenizer_splitter **out, err *e)
{
    status result = OK;
    const char *type = json_string_value(json_object_get(pre_tokenizer, "type"));
    tokenizer_splitter *s = NULL;
    TRY(alloc_zeroed(&s, 1, sizeof *s, "a tokenizer", e));
    if (type && strcmp(type, "Sequence") == 0) {
        TRY(read_sequence(s, json_object_get(pre_tokenizer, "pretokenizers"), e));
    } else if (json_is_object(pre_tokenizer)) {
        TRY(read_one(s, pre_tokenizer, "pre_tokenizer", e));
    }
    if (!s->has_byte_level)
        FAIL(E_USAGE, "pre_tokenizer has no ByteLevel; only byte-level tokenizers are supported");
    *out = s;
    s = NULL;
done:
    tokenizer_splitter_close(s);
    return result;
}

void tokenizer_splitter_workspace_close(tokenizer_splitter_workspace *w)
{
    if (!w) return;
    tokenizer_pattern_workspace_close(w->match);
    free(w->spaced);
    free(w);
}

status tokenizer_splitter_workspace_open(const tokenizer_splitter *s,
                                         tokenizer_splitter_workspace **out, err *e)
{
    status result = OK;
    tokenizer_splitter_workspace *w = NULL;
    TRY(alloc_zeroed(&w, 1, sizeof *w, "a tokenizer", e));
    w->splitter = s;
    TRY(tokenizer_pattern_workspace_open(&w->match, e));
    *out = w;
    w = NULL;
done:
    tokenizer_splitter_workspace_close(w);
    return result;
}

static status run_from(tokenizer_splitter_workspace *w, size_t stage_index, const char *piece,
                       size_t bytes, const tokenizer_word_sink *t, err *e);

static status run_space(tokenizer_splitter_workspace *w, size_t next, const char *piece,
                        size_t bytes, const tokenizer_word_sink *t, err *e)
{
    status result = OK;
    if (piece[0] != ' ') {
        TRY(alloc_grow(&w->spaced, &w->spaced_room, bytes + 1, 1, "a tokenizer", e));
        w->spaced[0] = ' ';
        memcpy(w->spaced + 1, piece, bytes);
        piece = w->spaced;
        bytes++;
    }
    TRY(run_from(w, next, piece, bytes, t, e));
done:
    return result;
}

// Makes a piece of each match and of the text between matches. An empty match also splits, unless
// the previous match ends there; then the search continues one character later.
static status run_pattern(tokenizer_splitter_workspace *w, size_t next,
                          const tokenizer_pattern *pattern, const char *piece, size_t bytes,
                          const tokenizer_word_sink *t, err *e)
{
    status result = OK;
    size_t from = 0, done_to = 0, last_end = SIZE_MAX;
    while (from <= bytes) {
        bool found;
        size_t start = 0, end = 0, length;
        TRY(tokenizer_pattern_find(pattern, w->match, piece, bytes, from, &found, &start, &end, e));
        if (!found) break;
        if (start == end && end == last_end) {
            if (end == bytes) break;
            unicode_read(piece + from, &length);
            from += length;
            continue;
        }
        if (start > done_to) TRY(run_from(w, next, piece + done_to, start - done_to, t, e));
        if (end > start) TRY(run_from(w, next, piece + start, end - start, t, e));
        from = done_to = last_end = end;
    }
    if (bytes > done_to) TRY(run_from(w, next, piece + done_to, bytes - done_to, t, e));
done:
    return result;
}

static status run_from(tokenizer_splitter_workspace *w, size_t stage_index, const char *piece,
                       size_t bytes, const tokenizer_word_sink *t, err *e)
{
    const tokenizer_splitter *s = w->splitter;
    if (stage_index == s->count) return t->fn(t->arg, piece, bytes, e);
    const tokenizer_pattern *pattern = s->stages[stage_index].pattern;
    if (!pattern) return run_space(w, stage_index + 1, piece, bytes, t, e);
    return run_pattern(w, stage_index + 1, pattern, piece, bytes, t, e);
}

status tokenizer_splitter_run(tokenizer_splitter_workspace *w, const char *piece, size_t bytes,
                              tokenizer_word_fn fn, void *arg, err *e)
{
    tokenizer_word_sink t = {fn, arg};
    return bytes == 0 ? OK : run_from(w, 0, piece, bytes, &t, e);
}
