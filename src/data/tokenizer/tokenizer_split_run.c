// tokenizer_split_run.c -- splits a text into words, stage by stage. Encoding and training call it. A stage gives its pieces
// to the next one as soon as it has them, so that no list of pieces is kept.
#include "data/tokenizer/tokenizer_split_private.h"

#include "base/alloc.h"
#include "data/tokenizer/tokenizer_rewrite.h"
#include "data/tokenizer/tokenizer_unicode.h"

#include <stdlib.h>
#include <string.h>

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

// Makes a span of each character that matches, and of the text between them.
static status run_characters(tokenizer_splitter_workspace *w, size_t index,
                             const tokenizer_piece *p, const tokenizer_word_sink *t, err *e)
{
    status result = OK;
    const tokenizer_stage *stage = &w->splitter->stages[index];
    tokenizer_pieces x = {.w = w, .next = index + 1, .stage = stage, .whole = p, .sink = t};
    size_t done_to = 0, length;
    for (size_t i = 0; i < p->span.bytes; i += length) {
        const uint32_t character = unicode_read(p->span.ptr + i, &length);
        if (stage->kind == STAGE_DELIMITER ? character != stage->delimiter
                                           : !stage->is_match(character))
            continue;
        TRY(take_span(&x, done_to, i, false, e));
        TRY(take_span(&x, i, i + length, true, e));
        done_to = i + length;
    }
    TRY(take_span(&x, done_to, p->span.bytes, false, e));
    TRY(give_waiting(&x, e));
done:
    return result;
}

static status run_bytes(tokenizer_splitter_workspace *w, size_t index, const tokenizer_piece *p,
                        const tokenizer_word_sink *t, err *e)
{
    status result = OK;
    tokenizer_copy_start(&w->copies[index], &p->span);
    TRY(tokenizer_rewrite_bytes(&w->copies[index], e));
    TRY(run_copy(w, index, p, t, e));
done:
    return result;
}

static status run_from(tokenizer_splitter_workspace *w, size_t stage_index,
                       const tokenizer_piece *p, const tokenizer_word_sink *t, err *e)
{
    const tokenizer_splitter *s = w->splitter;
    if (stage_index == s->count) return t->fn(t->arg, &p->span, e);
    switch (s->stages[stage_index].kind) {
    case STAGE_SPACE:
        return run_space(w, stage_index, p, t, e);
    case STAGE_METASPACE:
        return run_metaspace(w, stage_index, p, t, e);
    case STAGE_BYTES:
        return run_bytes(w, stage_index, p, t, e);
    case STAGE_CHARACTERS:
    case STAGE_DELIMITER:
        return run_characters(w, stage_index, p, t, e);
    case STAGE_PATTERN:
        break;
    }
    return run_pattern(w, stage_index, p, t, e);
}

status tokenizer_splitter_run(tokenizer_splitter_workspace *w, const tokenizer_span *piece,
                              bool first, tokenizer_word_fn fn, void *arg, err *e)
{
    const tokenizer_word_sink t = {fn, arg};
    const tokenizer_piece p = {*piece, first};
    return piece->bytes == 0 ? OK : run_from(w, 0, &p, &t, e);
}
