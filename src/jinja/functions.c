// functions.c -- the functions that templates call: range, dict, namespace, joiner, raise_exception and strftime_now.
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
    TRY(jinja_arg_int(c, 0, &b, e));
    if (c->arg[1]) a = b;
    TRY(jinja_arg_int(c, 1, &b, e));
    TRY(jinja_arg_int(c, 2, &step, e));
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

static status run_joiner(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)
{
    status result = OK;
    jinja_joiner *j = NULL;
    TRY(jinja_take(&s->memory, &j, sizeof *j, e));
    if (c->arg[0])
        j->separator = *c->arg[0];
    else
        TRY(jinja_string_of(s, ", ", &j->separator, e));
    *out = (jinja_value){.kind = KIND_JOINER, .joiner = j};
done:
    return result;
}

static status run_raise(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)
{
    status result = OK;
    const jinja_string *message = NULL;
    text printable = {0};
    (void)out;
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
    TRY(jinja_arg_string(c, 0, &format, e));
    TRY(jinja_take_copy(&s->memory, format->chars, format->bytes, &f, e));
    if (!localtime_r(&t, &now)) FAIL(E_USAGE, "strftime_now: the time is beyond the calendar");
    if (*f && !strftime(written, sizeof written, f, &now))
        FAIL(E_USAGE, "strftime_now: the format gives more than %zu bytes", sizeof written - 1);
    TRY(jinja_string_of(s, written, out, e));
done:
    return result;
}

const jinja_row JINJA_FUNCTIONS[] = {{"range", "start! stop step", run_range, 0},
                                     {"dict", "*", run_dict, 0},
                                     {"namespace", "*", run_namespace, 0},
                                     {"joiner", "sep", run_joiner, 0},
                                     {"raise_exception", "message!", run_raise, 0},
                                     {"strftime_now", "format!", run_strftime, 0},
                                     {0}};
