// literals.c -- Aho and Corasick's automaton as a table: state x class of byte. See literals.h. Bytes that no literal has
// are one class, so that the table of some hundred literals stays within a processor's cache.
#include "diagnose/literals.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

struct literals {
    uint8_t class_of[256];
    int classes, states;
    uint16_t *next;   // [states x classes] the state behind a byte
    uint16_t *suffix; // [states] the longest proper suffix that begins a literal
    int *first;       // [states] the last literal that ends in the state, + 1; 0: none
    int *other;       // [count] another literal that ends in the same state, + 1
    bool *ends;       // [states] a literal ends in the state or in one of its suffixes
};

void literals_close(literals *l)
{
    if (!l) return;
    free(l->next);
    free(l->suffix);
    free(l->first);
    free(l->other);
    free(l->ends);
    free(l);
}

static void classify(literals *l, const char *const *literal, int count)
{
    l->classes = 1;
    for (int i = 0; i < count; i++)
        for (const char *c = literal[i]; *c; c++)
            if (!l->class_of[(uint8_t)*c]) l->class_of[(uint8_t)*c] = (uint8_t)l->classes++;
}

static void add(literals *l, const char *literal, int index)
{
    int state = 0;
    for (const char *c = literal; *c; c++) {
        uint16_t *next = &l->next[state * l->classes + l->class_of[(uint8_t)*c]];
        if (!*next) *next = (uint16_t)l->states++;
        state = *next;
    }
    l->other[index] = l->first[state];
    l->first[state] = index + 1;
    l->ends[state] = true;
}

// Breadth first, so that the suffix of a state is complete before the state.
static status link_suffixes(literals *l, err *e)
{
    status result = OK;
    uint16_t *queue = NULL;
    int begin = 0, end = 0;
    TRY(alloc_array(&queue, (size_t)l->states, sizeof *queue, "a log's patterns", e));
    for (int c = 0; c < l->classes; c++)
        if (l->next[c]) queue[end++] = l->next[c];
    while (begin < end) {
        const int state = queue[begin++];
        const int suffix = l->suffix[state];
        l->ends[state] |= l->ends[suffix];
        for (int c = 0; c < l->classes; c++) {
            uint16_t *next = &l->next[state * l->classes + c];
            const uint16_t instead = l->next[suffix * l->classes + c];
            if (*next) {
                l->suffix[*next] = instead;
                queue[end++] = *next;
            } else {
                *next = instead;
            }
        }
    }
done:
    free(queue);
    return result;
}

status literals_open(const char *const *literal, int count, literals **out, err *e)
{
    status result = OK;
    literals *l = NULL;
    size_t most = 1;
    for (int i = 0; i < count; i++) most += strlen(literal[i]);
    TRY(alloc_zeroed(&l, 1, sizeof *l, "a log's patterns", e));
    if (most > UINT16_MAX) FAIL(E_INTERNAL, "the literals have %zu bytes", most);
    classify(l, literal, count);
    TRY(alloc_zeroed(&l->next, most * (size_t)l->classes, sizeof *l->next, "a log's patterns", e));
    TRY(alloc_zeroed(&l->suffix, most, sizeof *l->suffix, "a log's patterns", e));
    TRY(alloc_zeroed(&l->first, most, sizeof *l->first, "a log's patterns", e));
    TRY(alloc_zeroed(&l->other, (size_t)count, sizeof *l->other, "a log's patterns", e));
    TRY(alloc_zeroed(&l->ends, most, sizeof *l->ends, "a log's patterns", e));
    l->states = 1;
    for (int i = 0; i < count; i++) add(l, literal[i], i);
    TRY(link_suffixes(l, e));
    *out = l;
    l = NULL;
done:
    literals_close(l);
    return result;
}

const char *literals_first(const literals *l, const char *from, const char *end)
{
    const uint16_t *next = l->next;
    const int classes = l->classes;
    int state = 0;
    for (; from < end; from++) {
        state = next[state * classes + l->class_of[(uint8_t)*from]];
        if (l->ends[state]) return from + 1;
    }
    return NULL;
}

void literals_each(const literals *l, const char *from, const char *end,
                   void (*found)(void *arg, int literal), void *arg)
{
    int state = 0;
    for (; from < end; from++) {
        state = l->next[state * l->classes + l->class_of[(uint8_t)*from]];
        if (!l->ends[state]) continue;
        for (int s = state; s; s = l->suffix[s])
            for (int i = l->first[s]; i; i = l->other[i - 1]) found(arg, i - 1);
    }
}
