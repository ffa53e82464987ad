// chat_render.c -- gives a conversation to the template: its messages as transformers' apply_chat_template would give
// them, its tools, and the special tokens. It knows no tokens and no masks.
#include "data/chat/chat_private.h"

#include <time.h>

// The names under which data has the reasoning of a message; templates read the first one, gpt-oss the second.
static const char *const REASONING[] = {"reasoning_content", "thinking", "reasoning"};

static const json_t *reasoning_of(const json_t *message)
{
    for (size_t i = 0; i < sizeof REASONING / sizeof *REASONING; i++) {
        const json_t *found = json_object_get(message, REASONING[i]);
        if (found && !json_is_null(found)) return found;
    }
    return NULL;
}

// jansson counts references in values that are const for everybody else.
static json_t *shared(const json_t *j)
{
    return (json_t *)(uintptr_t)j;
}

static int normalize_message(const json_t *message, json_t *out)
{
    const json_t *reasoning = reasoning_of(message);
    int failed = 0;
    if (reasoning) failed |= json_object_set(out, "thinking", shared(reasoning));
    for (void *i = json_object_iter(shared(message)); i;
         i = json_object_iter_next(shared(message), i))
        if (!json_is_null(json_object_iter_value(i)))
            failed |= json_object_set(out, json_object_iter_key(i), json_object_iter_value(i));
    if (reasoning) failed |= json_object_set(out, "reasoning_content", shared(reasoning));
    return failed;
}

status chat_normalize(const json_t *messages, json_t **out, err *e)
{
    status result = OK;
    json_t *all = json_array();
    int failed = !all;
    if (!json_is_array(messages) || !json_array_size(messages))
        FAIL(E_USAGE, "messages: found no messages; valid is a list of at least one");
    for (size_t i = 0; i < json_array_size(messages) && !failed; i++) {
        const json_t *message = json_array_get(messages, i);
        json_t *one = json_object();
        if (!json_is_object(message)) {
            json_decref(one);
            FAIL(E_USAGE, "messages[%zu]: found no object; valid is {\"role\": …, \"content\": …}",
                 i);
        }
        failed = !one || normalize_message(message, one);
        failed |= json_array_append_new(all, one);
    }
    if (failed) FAIL(E_MEMORY, "no memory for a conversation");
    *out = all;
    all = NULL;
done:
    json_decref(all);
    return result;
}

// Adds a variable that is not there yet.
static int add(json_t *to, const char *key, json_t *value)
{
    if (!json_object_get(to, key)) return json_object_set_new(to, key, value);
    json_decref(value);
    return 0;
}

// The variables of the template. Those whose strings are the user's come first: *strings counts these.
static json_t *variables_of(chat_workspace *w, const chat_conversation *c, size_t count,
                            bool prompt, int32_t *strings)
{
    json_t *all = json_object(), *some = json_array();
    int failed = 0;
    for (size_t i = 0; i < count; i++)
        failed |= json_array_append(some, json_array_get(w->messages, i));
    failed |= json_object_set_new(all, "messages", some);
    failed |=
        json_object_set_new(all, "tools", c->tools ? json_incref(shared(c->tools)) : json_null());
    for (void *i = json_object_iter(shared(c->extra)); i;
         i = json_object_iter_next(shared(c->extra), i))
        failed |= json_object_set(all, json_object_iter_key(i), json_object_iter_value(i));
    *strings = jinja_count_strings(all);
    failed |= add(all, "documents", json_null());
    failed |= json_object_set_new(all, "add_generation_prompt", json_boolean(prompt));
    for (void *i = json_object_iter(w->chat->special); i;
         i = json_object_iter_next(w->chat->special, i))
        failed |= add(all, json_object_iter_key(i), json_incref(json_object_iter_value(i)));
    if (!failed) return all;
    json_decref(all);
    return NULL;
}

const jinja *chat_source(const chat_template *t, const chat_conversation *c)
{
    return c->tools && t->with_tools ? t->with_tools : t->usual;
}

status chat_render(chat_workspace *w, const chat_conversation *c, size_t count, bool prompt,
                   chat_text *out, err *e)
{
    status result = OK;
    const int64_t now = c->now ? c->now : (int64_t)time(NULL);
    json_t *variables = variables_of(w, c, count, prompt, &out->strings);
    if (!variables) FAIL(E_MEMORY, "no memory for a conversation");
    TRY(jinja_render(chat_source(w->chat, c), variables, now, NULL, &out->output, e));
done:
    json_decref(variables);
    return result;
}
