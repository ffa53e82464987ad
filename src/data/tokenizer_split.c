// tokenizer_split.c -- the pre-tokenizers ByteLevel, Split and Digits, and sequences of them, as a
// list of stages: a pattern that isolates its matches, or a blank put before. Called by encoding
// and by training. That ByteLevel also spells bytes as characters is done elsewhere (bpe_bytes.h);
// therefore it must be the last.
#include "data/tokenizer_split.h"

#include "data/bpe_table.h"
#include "data/tokenizer_pattern.h"
#include "data/tokenizer_unicode.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { STAGES = 16 };

// Digits asks Rust, which follows Unicode 17, not the regular expression engine, which is at 16.
#define DIGIT "[\\p{N}\\x{11DE0}-\\x{11DE9}\\x{16FF4}-\\x{16FF6}]"

typedef struct stage {
    pattern *cut; // NULL: a blank is put before a piece that has none
} stage;

struct splitter {
    stage stages[STAGES];
    size_t count;
    bool ends;     // a ByteLevel was read
    uint64_t hash; // of the stages so far
};

struct splitter_work {
    const splitter *splitter;
    pattern_work *match;
    char *blank; // a piece with a blank before it
    size_t blank_room;
};

typedef struct taker {
    splitter_take take;
    void *arg;
} taker;

void splitter_close(splitter *s)
{
    if (!s) return;
    for (size_t i = 0; i < s->count; i++) pattern_close(s->stages[i].cut);
    free(s);
}

uint64_t splitter_hash(const splitter *s)
{
    return s->hash;
}

static status add_stage(splitter *s, const char *field, const char *source, err *e)
{
    if (s->count == STAGES) return err_set(e, E_USAGE, "%s: more than %d steps", field, STAGES);
    stage *next = &s->stages[s->count];
    if (source) {
        status opened = pattern_open(source, &next->cut, e);
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

// A field that is true, false or absent.
static status read_flag(const json_t *object, const char *field, const char *key, bool absent,
                        bool *out, err *e)
{
    const json_t *value = json_object_get(object, key);
    if (value && !json_is_boolean(value))
        return err_set(e, E_USAGE, "%s.%s must be true or false", field, key);
    *out = value ? json_is_true(value) : absent;
    return OK;
}

static status read_byte_level(splitter *s, const json_t *object, const char *field, err *e)
{
    status result = OK;
    bool prefix = false, regex = false;
    TRY(read_flag(object, field, "add_prefix_space", true, &prefix, e));
    TRY(read_flag(object, field, "use_regex", true, &regex, e));
    if (prefix) TRY(add_stage(s, field, NULL, e));
    if (regex) TRY(add_stage(s, field, pattern_gpt2, e));
    s->ends = true;
done:
    return result;
}

static status read_digits(splitter *s, const json_t *object, const char *field, err *e)
{
    status result = OK;
    bool individual = false;
    TRY(read_flag(object, field, "individual_digits", false, &individual, e));
    TRY(add_stage(s, field, individual ? DIGIT : DIGIT "+", e));
done:
    return result;
}

static status read_split(splitter *s, const json_t *object, const char *field, err *e)
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
    if (literal) pattern_quote(literal, &quoted);
    if (literal && !*literal) FAIL(E_USAGE, "%s.pattern is empty", field);
    TRY(add_stage(s, field, literal ? quoted.chars : regex, e));
done:
    text_clear(&quoted);
    return result;
}

static status read_one(splitter *s, const json_t *object, const char *field, err *e)
{
    const char *type = json_string_value(json_object_get(object, "type"));
    if (!type) return err_set(e, E_USAGE, "%s.type is missing", field);
    if (s->ends)
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

static status read_sequence(splitter *s, const json_t *list, err *e)
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

status splitter_open(const json_t *pre_tokenizer, splitter **out, err *e)
{
    status result = OK;
    const char *type = json_string_value(json_object_get(pre_tokenizer, "type"));
    splitter *s = calloc(1, sizeof *s);
    if (!s) FAIL(E_MEMORY, "out of memory");
    if (type && strcmp(type, "Sequence") == 0) {
        TRY(read_sequence(s, json_object_get(pre_tokenizer, "pretokenizers"), e));
    } else if (json_is_object(pre_tokenizer)) {
        TRY(read_one(s, pre_tokenizer, "pre_tokenizer", e));
    }
    if (!s->ends)
        FAIL(E_USAGE, "pre_tokenizer has no ByteLevel; only byte-level tokenizers are supported");
    *out = s;
    s = NULL;
done:
    splitter_close(s);
    return result;
}

void splitter_work_close(splitter_work *w)
{
    if (!w) return;
    pattern_work_close(w->match);
    free(w->blank);
    free(w);
}

status splitter_work_open(const splitter *s, splitter_work **out, err *e)
{
    status result = OK;
    splitter_work *w = calloc(1, sizeof *w);
    if (!w) FAIL(E_MEMORY, "out of memory");
    w->splitter = s;
    TRY(pattern_work_open(&w->match, e));
    *out = w;
    w = NULL;
done:
    splitter_work_close(w);
    return result;
}

static status run_from(splitter_work *w, size_t stage_index, const char *at, size_t bytes,
                       const taker *t, err *e);

static status run_blank(splitter_work *w, size_t next, const char *at, size_t bytes, const taker *t,
                        err *e)
{
    status result = OK;
    if (at[0] != ' ') {
        TRY(bpe_grow(&w->blank, &w->blank_room, bytes + 1, 1, e));
        w->blank[0] = ' ';
        memcpy(w->blank + 1, at, bytes);
        at = w->blank;
        bytes++;
    }
    TRY(run_from(w, next, at, bytes, t, e));
done:
    return result;
}

// Matches and what lies between them become pieces. An empty match cuts too, unless it lies at the
// end of the match before: there the search goes on one character later.
static status run_cut(splitter_work *w, size_t next, const pattern *cut, const char *at,
                      size_t bytes, const taker *t, err *e)
{
    status result = OK;
    size_t from = 0, done_to = 0, last_end = SIZE_MAX;
    while (from <= bytes) {
        bool found;
        size_t start = 0, end = 0, length;
        TRY(pattern_find(cut, w->match, at, bytes, from, &found, &start, &end, e));
        if (!found) break;
        if (start == end && end == last_end) {
            if (end == bytes) break;
            unicode_read(at + from, &length);
            from += length;
            continue;
        }
        if (start > done_to) TRY(run_from(w, next, at + done_to, start - done_to, t, e));
        if (end > start) TRY(run_from(w, next, at + start, end - start, t, e));
        from = done_to = last_end = end;
    }
    if (bytes > done_to) TRY(run_from(w, next, at + done_to, bytes - done_to, t, e));
done:
    return result;
}

static status run_from(splitter_work *w, size_t stage_index, const char *at, size_t bytes,
                       const taker *t, err *e)
{
    const splitter *s = w->splitter;
    if (stage_index == s->count) return t->take(t->arg, at, bytes, e);
    const pattern *cut = s->stages[stage_index].cut;
    if (!cut) return run_blank(w, stage_index + 1, at, bytes, t, e);
    return run_cut(w, stage_index + 1, cut, at, bytes, t, e);
}

status splitter_run(splitter_work *w, const char *at, size_t bytes, splitter_take take, void *arg,
                    err *e)
{
    taker t = {take, arg};
    return bytes == 0 ? OK : run_from(w, 0, at, bytes, &t, e);
}
