// tokenizer_split.c -- the pre-tokenizers ByteLevel, Split, Digits and Metaspace, and sequences of them, as a
// list of stages. A stage splits text at the matches of a pattern, or puts a space or its replacement before it.
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

// What becomes of the matches of a pattern, as HuggingFace's SplitDelimiterBehavior.
typedef enum tokenizer_behavior {
    BEHAVIOR_ISOLATED,
    BEHAVIOR_REMOVED,
    BEHAVIOR_CONTIGUOUS,
    BEHAVIOR_MERGED_PREVIOUS,
    BEHAVIOR_MERGED_NEXT,
    BEHAVIORS
} tokenizer_behavior;
static const char *const BEHAVIOR_WORDS[BEHAVIORS] = {"Isolated", "Removed", "Contiguous",
                                                      "MergedWithPrevious", "MergedWithNext"};

// Whether Metaspace puts its replacement before a piece.
typedef enum tokenizer_prepend { PREPEND_ALWAYS, PREPEND_FIRST, PREPEND_NEVER } tokenizer_prepend;

typedef struct tokenizer_stage {
    // NULL: puts a space before a piece that does not begin with one, or, with `replacement`, is Metaspace
    tokenizer_pattern *pattern;
    tokenizer_behavior behavior;
    bool invert; // the text between matches counts as matches
    char *replacement;
    tokenizer_prepend prepend;
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
    tokenizer_copy copies[STAGES]; // the piece that a stage has changed
};

// The function that receives the words.
typedef struct tokenizer_word_sink {
    tokenizer_word_fn fn;
    void *arg;
} tokenizer_word_sink;

void tokenizer_splitter_close(tokenizer_splitter *s)
{
    if (!s) return;
    for (size_t i = 0; i < s->count; i++) {
        tokenizer_pattern_close(s->stages[i].pattern);
        free(s->stages[i].replacement);
    }
    free(s);
}

uint64_t tokenizer_splitter_hash(const tokenizer_splitter *s)
{
    return s->hash;
}

bool tokenizer_splitter_spells_bytes(const tokenizer_splitter *s)
{
    return s->has_byte_level;
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

static status read_behavior(const json_t *object, const char *field, tokenizer_behavior *out,
                            err *e)
{
    const char *word = json_string_value(json_object_get(object, "behavior"));
    for (int i = 0; word && i < BEHAVIORS; i++)
        if (strcmp(word, BEHAVIOR_WORDS[i]) == 0) {
            *out = (tokenizer_behavior)i;
            return OK;
        }
    return err_set(e, E_USAGE,
                   "%s.behavior is %s; valid are Isolated, Removed, Contiguous, "
                   "MergedWithPrevious and MergedWithNext",
                   field, word ? word : "missing");
}

// Of the last stage, whose hash is that of Isolated.
static void set_behavior(tokenizer_splitter *s, tokenizer_behavior behavior, bool invert)
{
    const uint8_t how[] = {(uint8_t)behavior, invert};
    s->stages[s->count - 1].behavior = behavior;
    s->stages[s->count - 1].invert = invert;
    if (behavior != BEHAVIOR_ISOLATED || invert)
        s->hash = XXH3_64bits_withSeed(how, sizeof how, s->hash);
}

static status read_split(tokenizer_splitter *s, const json_t *object, const char *field, err *e)
{
    status result = OK;
    text quoted = {0};
    tokenizer_behavior behavior = BEHAVIOR_ISOLATED;
    bool invert = false;
    const json_t *what = json_object_get(object, "pattern");
    const char *regex = json_string_value(json_object_get(what, "Regex"));
    const char *literal = json_string_value(json_object_get(what, "String"));
    if (!regex == !literal)
        FAIL(E_USAGE, "%s.pattern must be {\"Regex\": text} or {\"String\": text}", field);
    TRY(read_behavior(object, field, &behavior, e));
    TRY(read_flag(object, field, "invert", false, &invert, e));
    if (literal) tokenizer_pattern_quote(literal, &quoted);
    TRY(text_check(&quoted, e));
    if (literal && !*literal) FAIL(E_USAGE, "%s.pattern is empty", field);
    TRY(add_stage(s, field, literal ? quoted.chars : regex, e));
    set_behavior(s, behavior, invert);
done:
    text_clear(&quoted);
    return result;
}

// The first piece of a text is one at whose begin the text itself begins.
static status read_prepend(const json_t *object, const char *field, tokenizer_prepend *out, err *e)
{
    status result = OK;
    static const char *const words[] = {"always", "first", "never"};
    bool prefix = true;
    const json_t *scheme = json_object_get(object, "prepend_scheme");
    const char *word = json_string_value(scheme);
    TRY(read_flag(object, field, "add_prefix_space", true, &prefix, e));
    *out = prefix ? PREPEND_ALWAYS : PREPEND_NEVER;
    if (!scheme) return OK;
    for (int i = 0; word && i < 3; i++)
        if (strcmp(word, words[i]) == 0) {
            *out = (tokenizer_prepend)i;
            return OK;
        }
    FAIL(E_USAGE, "%s.prepend_scheme is %s; valid are always, first and never", field,
         word ? word : "no string");
done:
    return result;
}

static status read_metaspace(tokenizer_splitter *s, const json_t *object, const char *field, err *e)
{
    status result = OK;
    text quoted = {0};
    bool splits = true;
    tokenizer_prepend prepend = PREPEND_ALWAYS;
    const char *replacement = json_string_value(json_object_get(object, "replacement"));
    if (!replacement || !*replacement) FAIL(E_USAGE, "%s.replacement must be a character", field);
    TRY(read_prepend(object, field, &prepend, e));
    TRY(read_flag(object, field, "split", true, &splits, e));
    TRY(add_stage(s, field, NULL, e));
    tokenizer_stage *stage = &s->stages[s->count - 1];
    stage->prepend = prepend;
    TRY(text_copy(replacement, &stage->replacement, e));
    s->hash = XXH3_64bits_withSeed(replacement, strlen(replacement), s->hash + (uint64_t)prepend);
    if (!splits) goto done;
    tokenizer_pattern_quote(replacement, &quoted);
    TRY(text_check(&quoted, e));
    TRY(add_stage(s, field, quoted.chars, e));
    set_behavior(s, BEHAVIOR_MERGED_NEXT, false);
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
    if (strcmp(type, "Metaspace") == 0) return read_metaspace(s, object, field, e);
    return err_set(
        e, E_USAGE,
        "%s.type is %s; valid are ByteLevel, Split, Digits, Metaspace and a Sequence of them",
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
    for (int i = 0; i < STAGES; i++) tokenizer_copy_clear(&w->copies[i]);
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

// A piece on its way through the stages.
typedef struct tokenizer_piece {
    tokenizer_span span;
    bool first; // the text begins with it
} tokenizer_piece;

static status run_from(tokenizer_splitter_workspace *w, size_t stage_index,
                       const tokenizer_piece *p, const tokenizer_word_sink *t, err *e);

static bool begins_with(const tokenizer_piece *p, const char *with)
{
    return p->span.bytes >= strlen(with) && memcmp(p->span.ptr, with, strlen(with)) == 0;
}

// Goes on with what a stage has written.
static status run_copy(tokenizer_splitter_workspace *w, size_t index, const tokenizer_piece *p,
                       const tokenizer_word_sink *t, err *e)
{
    const tokenizer_piece next = {tokenizer_copy_span(&w->copies[index]), p->first};
    return run_from(w, index + 1, &next, t, e);
}

static status run_space(tokenizer_splitter_workspace *w, size_t index, const tokenizer_piece *p,
                        const tokenizer_word_sink *t, err *e)
{
    status result = OK;
    tokenizer_copy *out = &w->copies[index];
    if (begins_with(p, " ")) return run_from(w, index + 1, p, t, e);
    tokenizer_copy_start(out, &p->span);
    TRY(tokenizer_copy_put(out, " ", 1, 0, e));
    TRY(tokenizer_copy_keep(out, 0, p->span.bytes, e));
    TRY(run_copy(w, index, p, t, e));
done:
    return result;
}

static status run_metaspace(tokenizer_splitter_workspace *w, size_t index, const tokenizer_piece *p,
                            const tokenizer_word_sink *t, err *e)
{
    status result = OK;
    const tokenizer_stage *stage = &w->splitter->stages[index];
    const char *replacement = stage->replacement, *s = p->span.ptr;
    tokenizer_copy *out = &w->copies[index];
    tokenizer_copy_start(out, &p->span);
    if ((stage->prepend == PREPEND_ALWAYS || (stage->prepend == PREPEND_FIRST && p->first)) &&
        !begins_with(p, replacement) && !begins_with(p, " "))
        TRY(tokenizer_copy_put(out, replacement, strlen(replacement), 0, e));
    for (size_t i = 0, end; i < p->span.bytes; i = end + 1) {
        const char *space = memchr(s + i, ' ', p->span.bytes - i);
        end = space ? (size_t)(space - s) : p->span.bytes;
        TRY(tokenizer_copy_keep(out, i, end - i, e));
        if (space) TRY(tokenizer_copy_put(out, replacement, strlen(replacement), end + 1, e));
    }
    TRY(run_copy(w, index, p, t, e));
done:
    return result;
}

// The pieces that a stage makes of one piece. A span waits while the next one may join it.
typedef struct tokenizer_pieces {
    tokenizer_splitter_workspace *w;
    size_t next;
    const tokenizer_stage *stage;
    const tokenizer_piece *whole;
    const tokenizer_word_sink *sink;
    size_t start, end; // the span that waits; empty: none does
    bool is_match;     // it is a match, or ends with one
} tokenizer_pieces;

static status give_waiting(tokenizer_pieces *x, err *e)
{
    if (x->start == x->end) return OK;
    const tokenizer_piece p = {tokenizer_span_part(&x->whole->span, x->start, x->end - x->start),
                               x->whole->first && x->start == 0};
    x->start = x->end;
    return run_from(x->w, x->next, &p, x->sink, e);
}

// Takes the next span of the piece. Spans come in order, and cover it.
static status take_span(tokenizer_pieces *x, size_t start, size_t end, bool is_match, err *e)
{
    status result = OK;
    const tokenizer_behavior how = x->stage->behavior;
    if (start == end) return OK;
    is_match = is_match != x->stage->invert;
    const bool joins =
        x->end > x->start && ((how == BEHAVIOR_CONTIGUOUS && is_match == x->is_match) ||
                              (how == BEHAVIOR_MERGED_PREVIOUS && is_match && !x->is_match) ||
                              (how == BEHAVIOR_MERGED_NEXT && !is_match && x->is_match));
    if (!joins) {
        TRY(give_waiting(x, e));
        x->start = start;
    }
    x->end = end;
    x->is_match = is_match;
    if (how == BEHAVIOR_REMOVED && is_match) x->start = end;
    if (how == BEHAVIOR_ISOLATED || how == BEHAVIOR_REMOVED) TRY(give_waiting(x, e));
done:
    return result;
}

// Makes a span of each match and of the text between matches. An empty match also splits, unless
// the previous match ends there; then the search continues one character later.
static status run_pattern(tokenizer_splitter_workspace *w, size_t index, const tokenizer_piece *p,
                          const tokenizer_word_sink *t, err *e)
{
    status result = OK;
    size_t from = 0, done_to = 0, last_end = SIZE_MAX;
    const tokenizer_stage *stage = &w->splitter->stages[index];
    tokenizer_pieces x = {.w = w, .next = index + 1, .stage = stage, .whole = p, .sink = t};
    while (from <= p->span.bytes) {
        bool found;
        size_t start = 0, end = 0, length;
        TRY(tokenizer_pattern_find(stage->pattern, w->match, p->span.ptr, p->span.bytes, from,
                                   &found, &start, &end, e));
        if (!found) break;
        if (start == end && end == last_end) {
            if (end == p->span.bytes) break;
            unicode_read(p->span.ptr + from, &length);
            from += length;
            continue;
        }
        TRY(take_span(&x, done_to, start, false, e));
        TRY(take_span(&x, start, end, true, e));
        from = done_to = last_end = end;
    }
    TRY(take_span(&x, done_to, p->span.bytes, false, e));
    TRY(give_waiting(&x, e));
done:
    return result;
}

static status run_from(tokenizer_splitter_workspace *w, size_t stage_index,
                       const tokenizer_piece *p, const tokenizer_word_sink *t, err *e)
{
    const tokenizer_splitter *s = w->splitter;
    if (stage_index == s->count) return t->fn(t->arg, &p->span, e);
    const tokenizer_stage *stage = &s->stages[stage_index];
    if (stage->pattern) return run_pattern(w, stage_index, p, t, e);
    return (stage->replacement ? run_metaspace : run_space)(w, stage_index, p, t, e);
}

status tokenizer_splitter_run(tokenizer_splitter_workspace *w, const tokenizer_span *piece,
                              bool first, tokenizer_word_fn fn, void *arg, err *e)
{
    const tokenizer_word_sink t = {fn, arg};
    const tokenizer_piece p = {*piece, first};
    return piece->bytes == 0 ? OK : run_from(w, 0, &p, &t, e);
}
