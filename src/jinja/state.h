// state.h -- a rendering that goes on: its memory, its limits, the variables that are in sight, and the text so far.
// jinja.c makes it; all files that render take it.
#ifndef TRIREME_JINJA_STATE_H
#define TRIREME_JINJA_STATE_H

#include "jinja/builder.h"
#include "jinja/tree.h"
#include "jinja/value.h"

typedef struct jinja_binding {
    int name; // number of the template's name
    jinja_value value;
    struct jinja_binding *next;
} jinja_binding;

// The variables of a block that has its own: the template, a pass of a loop, a call of a macro.
typedef struct jinja_scope {
    struct jinja_scope *outer;
    jinja_binding *first;
} jinja_scope;

typedef struct jinja_state {
    const struct jinja *t;
    jinja_memory memory;
    uint64_t steps; // that are left
    int depth;      // calls of the C stack
    int line;       // of the template
    int64_t now;
    jinja_value *global; // [names of the template] variables of the caller, and functions
    jinja_scope *scope;
    jinja_builder *out;
    jinja_value block; // the text that the filters of a block change
} jinja_state;

// A macro, or the body of a {% call %}, with the variables that it was defined among.
typedef struct jinja_macro {
    const jinja_node *node;
    jinja_scope *scope;
} jinja_macro;

enum { JINJA_DEPTH_MOST = 2000 };

// Counts work. E_USAGE when the limit is reached.
status jinja_spend(jinja_state *s, uint64_t steps, err *e);
// Goes one call deeper. The caller goes back with s->depth--, whatever this returns.
status jinja_enter(jinja_state *s, err *e);

status jinja_set(jinja_state *s, jinja_scope *scope, int name, jinja_value v, err *e);
jinja_value jinja_lookup(const jinja_state *s, int name);

#endif
