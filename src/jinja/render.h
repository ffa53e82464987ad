// render.h -- what runs a template: statements (render.c), loops (loop.c), macros (macro.c) and expressions (evaluate.c).
#ifndef TRIREME_JINJA_RENDER_H
#define TRIREME_JINJA_RENDER_H

#include "jinja/builtins.h"

// Whether a statement ends the pass of a loop, or the loop.
typedef struct jinja_jump {
    bool breaks, continues;
} jinja_jump;

// The state of a loop: the variable `loop`.
typedef struct jinja_loop {
    const jinja_list *items;
    size_t index;
    jinja_value changed; // what changed() was given last
    bool has_changed;
} jinja_loop;

status jinja_run_body(jinja_state *s, const jinja_node *first, jinja_jump *jump, err *e);
status jinja_run_for(jinja_state *s, const jinja_node *n, jinja_jump *jump, err *e);
// Opens a scope in `outer`; the caller sets s->scope back. It is memory of the rendering, since a macro that is defined in
// it may live longer than its block.
status jinja_open_scope(jinja_state *s, jinja_scope *outer, err *e);
// Gives a value to a target: a name, a tuple of names, or a member of a namespace.
status jinja_assign(jinja_state *s, const jinja_node *target, jinja_value v, err *e);
// Runs a body and takes what it prints as a string.
status jinja_capture(jinja_state *s, const jinja_node *first, jinja_value *out, err *e);

status jinja_evaluate(jinja_state *s, const jinja_node *n, jinja_value *out, err *e);
// Evaluates with the text of a block as the value that its filters change.
status jinja_evaluate_block(jinja_state *s, const jinja_node *n, jinja_value block,
                            jinja_value *out, err *e);
// Evaluates the arguments of a call, a filter or a test.
status jinja_arguments(jinja_state *s, const jinja_node *first, jinja_call *c, err *e);
status jinja_add_keyed(jinja_state *s, jinja_call *c, const char *key, jinja_value v, err *e);

status jinja_define_macro(jinja_state *s, const jinja_node *n, jinja_value *out, err *e);
status jinja_call_macro(jinja_state *s, const jinja_macro *m, jinja_call *c, jinja_value *out,
                        err *e);
// An attribute of the variable `loop`.
status jinja_loop_attribute(jinja_state *s, jinja_value loop, const char *name, jinja_value *out,
                            err *e);

#endif
