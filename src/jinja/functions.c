// functions.c -- the functions that templates call: range, dict, namespace, cycler, joiner, raise_exception and
// strftime_now.
#include "jinja/builtins.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { RANGE_MOST = 100000 }; // the sandbox's limit

static status run_range(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)
{
    status result = OK;
    int64_t a = 0, b = 0, step = 1;
    char tag[100];
    jinja_value printed;
    TRY(jinja_arg_needed(c, 0, "stop", e));
    TRY(jinja_arg_int(c, 0, "stop", &b, e));
    if (c->arg[1]) {
        a = b;
        TRY(jinja_arg_int(c, 1, "stop", &b, e));
    }
    TRY(jinja_arg_int(c, 2, "step", &step, e));
    if (step == 0) FAIL(E_USAGE, "the step of range() is 0");
    TRY(jinja_new_list(s, KIND_RANGE, 0, out, e));
    for (int64_t i = a; step > 0 ? i < b : i > b;) {
        if (out->list->count == RANGE_MOST)
            FAIL(E_USAGE, "range() gives more than %d numbers", (int)RANGE_MOST);
        TRY(jinja_spend(s, 1, e));
        TRY(jinja_push(s, out->list, jinja_int(i), e));
        if (__builtin_add_overflow(i, step, &i)) break;
    }
    snprintf(tag, sizeof tag, step == 1 ? "range(%lld, %lld)" : "range(%lld, %lld, %lld)",
             (long long)a, (long long)b, (long long)step);
    TRY(jinja_string_of(s, tag, &printed, e));
    out->list->tag = printed.string->chars;
done:
    return result;
}

// The members of a dict, and pairs by name, as dict() takes them.
static status fill_dict(jinja_state *s, const jinja_call *c, jinja_dict *d, err *e)
{
    status result = OK;
    jinja_value key;
    const jinja_list *pairs = NULL, *pair = NULL;
    if (c->count > 1) FAIL(E_USAGE, "dict() and namespace() take one argument by position");
    if (c->count && c->item[0].kind == KIND_DICT) {
        const jinja_dict *from = c->item[0].dict;
        for (size_t i = 0; i < from->count; i++)
            TRY(jinja_put(s, d, from->key[i], from->item[i], e));
    } else if (c->count) {
        TRY(jinja_items(s, c->item[0], &pairs, e));
        for (size_t i = 0; i < pairs->count; i++) {
            TRY(jinja_items(s, pairs->item[i], &pair, e));
            if (pair->count != 2) FAIL(E_USAGE, "dict() needs pairs");
            TRY(jinja_put(s, d, pair->item[0], pair->item[1], e));
        }
    }
    for (size_t i = 0; i < c->keys; i++) {
        TRY(jinja_string_of(s, c->key[i], &key, e));
        TRY(jinja_put(s, d, key, c->keyed[i], e));
    }
done:
    return result;
}

static status run_dict(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)
{
    status result = OK;
    TRY(jinja_new_dict(s, KIND_DICT, 0, out, e));
    TRY(fill_dict(s, c, out->dict, e));
done:
    return result;
}

static status run_namespace(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)
{
    status result = OK;
    TRY(jinja_new_dict(s, KIND_NAMESPACE, 0, out, e));
    TRY(fill_dict(s, c, out->dict, e));
    for (size_t i = 0; i < out->dict->count; i++) {
        const jinja_value key = out->dict->key[i];
        if (key.kind == KIND_STRING && key.string->bytes && key.string->chars[0] == '_')
            FAIL(E_USAGE, "a namespace has no member whose name begins with '_'");
    }
done:
    return result;
}

static status new_turn(jinja_state *s, jinja_kind kind, size_t count, jinja_value *out, err *e)
{
    status result = OK;
    jinja_turn *t = NULL;
    TRY(jinja_take(&s->memory, &t, sizeof *t, e));
    TRY(jinja_take(&s->memory, &t->item, (count + 1) * sizeof *t->item, e));
    t->count = count;
    *out = (jinja_value){.kind = kind, .turn = t};
done:
    return result;
}

static status run_cycler(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)
{
    status result = OK;
    if (!c->count || c->keys) FAIL(E_USAGE, "cycler() needs values");
    TRY(new_turn(s, KIND_CYCLER, c->count, out, e));
    memcpy(out->turn->item, c->item, c->count * sizeof *c->item);
done:
    return result;
}

static status cycler_next(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)
{
    jinja_turn *t = c->self.turn;
    (void)s;
    (void)e;
    *out = t->item[t->next];
    t->next = (t->next + 1) % t->count;
    return OK;
}

static status cycler_reset(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)
{
    (void)s;
    (void)e;
    c->self.turn->next = 0;
    *out = jinja_none();
    return OK;
}

static status run_joiner(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)
{
    status result = OK;
    TRY(new_turn(s, KIND_JOINER, 1, out, e));
    if (c->arg[0])
        out->turn->item[0] = *c->arg[0];
    else
        TRY(jinja_string_of(s, ", ", &out->turn->item[0], e));
done:
    return result;
}

static status run_raise(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)
{
    status result = OK;
    const jinja_string *message = NULL;
    text printable = {0};
    (void)out;
    TRY(jinja_arg_needed(c, 0, "message", e));
    TRY(jinja_to_string(s, *c->arg[0], &message, e));
    text_add(&printable, "");
    text_add_printable(&printable, message->chars, message->bytes < 600 ? message->bytes : 600, "");
    result = err_set(e, E_USAGE, "the template refuses the conversation: %.*s",
                     TEXT_CUT(printable.chars, 700));
done:
    text_clear(&printable);
    return result;
}

static status run_strftime(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)
{
    status result = OK;
    const jinja_string *format = NULL;
    char *f = NULL, written[1024] = "";
    struct tm now = {0};
    const time_t t = (time_t)s->now;
    TRY(jinja_arg_needed(c, 0, "format", e));
    TRY(jinja_arg_string(c, 0, "format", &format, e));
    TRY(jinja_take_copy(&s->memory, format->chars, format->bytes, &f, e));
    if (!localtime_r(&t, &now)) FAIL(E_USAGE, "strftime_now: the time is beyond the calendar");
    if (*f && !strftime(written, sizeof written, f, &now))
        FAIL(E_USAGE, "strftime_now: the format gives more than %zu bytes", sizeof written - 1);
    TRY(jinja_string_of(s, written, out, e));
done:
    return result;
}

const jinja_row JINJA_FUNCTIONS[] = {{"range", "start stop step", run_range},
                                     {"dict", "*", run_dict},
                                     {"namespace", "*", run_namespace},
                                     {"cycler", "*", run_cycler},
                                     {"joiner", "sep", run_joiner},
                                     {"raise_exception", "message", run_raise},
                                     {"strftime_now", "format", run_strftime},
                                     {0}};
const jinja_row JINJA_CYCLER_METHODS[] = {
    {"next", "", cycler_next}, {"reset", "", cycler_reset}, {0}};
