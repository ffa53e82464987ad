// jinja.c -- opens templates and renders them: the outer functions of this folder, and the variables and limits of a
// rendering. evaluate.c computes expressions, render.c runs statements.
#include "jinja/jinja.h"

#include "base/alloc.h"
#include "jinja/builtins.h"
#include "jinja/parse.h"
#include "jinja/render.h"

#include <stdlib.h>
#include <string.h>

#define STEPS_USUAL  UINT64_C(50000000)
#define MEMORY_USUAL ((size_t)256 << 20)

status jinja_open(const char *name, const char *source, size_t bytes, jinja **out, err *e)
{
    status result = OK;
    jinja *t = NULL;
    int line = 0;
    size_t bad;
    if (!text_is_utf8(source, bytes, &bad))
        FAIL(E_USAGE, "%s: the template is not UTF-8 at byte %zu", name, bad);
    TRY(alloc_zeroed(&t, 1, sizeof *t, "a template", e));
    t->memory.most = MEMORY_USUAL;
    TRY(text_copy(name, &t->file, e));
    result = jinja_parse(t, source, bytes, &line, e);
    if (result == E_USAGE) err_prefix(e, "%s:%d: ", name, line);
    if (result != OK) goto done;
    *out = t;
    t = NULL;
done:
    jinja_close(t);
    return result;
}

void jinja_close(jinja *t)
{
    if (!t) return;
    jinja_memory_clear(&t->memory);
    free(t->file);
    free(t);
}

bool jinja_marks_generation(const jinja *t)
{
    return t->generation;
}

// ---- The state of a rendering

status jinja_spend(jinja_state *s, uint64_t steps, err *e)
{
    if (steps > s->steps) {
        s->steps = 0;
        return err_set(e, E_USAGE, "the template takes more steps than the limit");
    }
    s->steps -= steps;
    return OK;
}

status jinja_enter(jinja_state *s, err *e)
{
    if (++s->depth > JINJA_DEPTH_MOST)
        return err_set(e, E_USAGE, "values or calls are nested too deeply");
    return jinja_spend(s, 1, e);
}

status jinja_set(jinja_state *s, jinja_scope *scope, int name, jinja_value v, err *e)
{
    status result = OK;
    jinja_binding *b = scope->first;
    while (b && b->name != name) b = b->next;
    if (!b) {
        TRY(jinja_take(&s->memory, &b, sizeof *b, e));
        *b = (jinja_binding){.name = name, .next = scope->first};
        scope->first = b;
    }
    b->value = v;
done:
    return result;
}

jinja_value jinja_lookup(const jinja_state *s, int name)
{
    for (const jinja_scope *scope = s->scope; scope; scope = scope->outer)
        for (const jinja_binding *b = scope->first; b; b = b->next)
            if (b->name == name) return b->value;
    return s->global[name];
}

// Gives every name of the template the variable of the caller or the function that it means.
static status bind_globals(jinja_state *s, const json_t *variables, err *e)
{
    status result = OK;
    const jinja *t = s->t;
    jinja_value all;
    int32_t string = 0;
    TRY(jinja_from_json(s, variables, &string, &all, e));
    TRY(jinja_take(&s->memory, &s->global, (t->name_count + 1) * sizeof *s->global, e));
    for (size_t i = 0; i < t->name_count; i++) {
        const char *name = t->names[i];
        const jinja_value *v = jinja_get(all.dict, name, strlen(name));
        const jinja_row *row = jinja_find_row(JINJA_FUNCTIONS, name);
        s->global[i] = v     ? *v
                       : row ? (jinja_value){.kind = KIND_FUNCTION, .row = row}
                             : jinja_undefined(name);
    }
done:
    return result;
}

// Copies the text to the caller, and joins runs of one origin.
static status take_output(const jinja_builder *b, jinja_output *out, err *e)
{
    status result = OK;
    text_clear(&out->chars);
    out->runs = 0;
    text_add(&out->chars, "");
    text_add_bytes(&out->chars, b->bytes ? b->chars : "", b->bytes);
    TRY(text_check(&out->chars, e));
    TRY(alloc_grow(&out->run, &out->room, b->runs, sizeof *out->run, "a template", e));
    for (size_t i = 0; i < b->runs; i++) {
        jinja_run *last = out->runs ? &out->run[out->runs - 1] : NULL;
        if (last && last->string == b->run[i].string && last->generation == b->run[i].generation)
            last->bytes += b->run[i].bytes;
        else
            out->run[out->runs++] = b->run[i];
    }
done:
    return result;
}

status jinja_render(const jinja *t, const json_t *variables, int64_t now,
                    const jinja_limits *limits, jinja_output *out, err *e)
{
    status result = OK;
    jinja_builder b = {0};
    jinja_scope scope = {0};
    jinja_state s = {.t = t, .now = now, .out = &b, .scope = &scope, .line = 1};
    s.steps = limits && limits->steps ? limits->steps : STEPS_USUAL;
    s.memory.most = limits && limits->bytes ? limits->bytes : MEMORY_USUAL;
    TRY(bind_globals(&s, variables, e));
    TRY(jinja_run_body(&s, t->body, &(jinja_jump){0}, e));
    TRY(take_output(&b, out, e));
done:
    if (result == E_USAGE) err_prefix(e, "%s:%d: ", t->file, s.line);
    jinja_memory_clear(&s.memory);
    return result;
}

void jinja_output_clear(jinja_output *o)
{
    text_clear(&o->chars);
    free(o->run);
    *o = (jinja_output){0};
}

// ---- The strings of JSON

// Walks until the string `*left`. Returns whether it is in `j`, and then its path.
static bool find_string(const json_t *j, int32_t *left, text *path)
{
    const size_t before = path->bytes;
    if (json_is_string(j)) return (*left)-- == 0;
    for (size_t i = 0; i < json_array_size(j); i++) {
        text_addf(path, "[%zu]", i);
        if (find_string(json_array_get(j, i), left, path)) return true;
        if (!path->failed) path->bytes = before;
    }
    json_t *object = json_is_object(j) ? (json_t *)(uintptr_t)j : NULL;
    for (void *i = json_object_iter(object); i; i = json_object_iter_next(object, i)) {
        text_addf(path, "%s%s", before ? "." : "", json_object_iter_key(i));
        if ((*left)-- == 0 || find_string(json_object_iter_value(i), left, path)) return true;
        if (!path->failed) path->bytes = before;
    }
    return false;
}

void jinja_string_path(const json_t *variables, int32_t string, text *out)
{
    text path = {0};
    if (string >= 0 && find_string(variables, &string, &path) && path.bytes)
        text_add_bytes(out, path.chars, path.bytes);
    text_clear(&path);
}

int32_t jinja_count_strings(const json_t *j)
{
    int32_t count = json_is_string(j);
    for (size_t i = 0; i < json_array_size(j); i++)
        count += jinja_count_strings(json_array_get(j, i));
    json_t *object = json_is_object(j) ? (json_t *)(uintptr_t)j : NULL;
    for (void *i = json_object_iter(object); i; i = json_object_iter_next(object, i))
        count += 1 + jinja_count_strings(json_object_iter_value(i));
    return count;
}
