// convert.c -- conversations that are written in another way than as messages: ShareGPT's, Alpaca's, and preferences that
// hold their prompt. format.c calls it.
// Sources: LLaMA-Factory data/README.md (ShareGPT's roles, Alpaca's fields), Stanford Alpaca README (its prompt), TRL
// docs dataset_formats (implicit prompts).
#include "data/samples/samples_private.h"

#include <string.h>

static const char *const ROLES[][2] = {
    {"human", "user"},        {"user", "user"},           {"gpt", "assistant"},
    {"chatgpt", "assistant"}, {"assistant", "assistant"}, {"system", "system"},
    {"observation", "tool"},  {"tool", "tool"},           {"function_call", NULL},
};
enum { ROLE_ROWS = sizeof ROLES / sizeof *ROLES };

// ---- ShareGPT

// The call of a tool is an object {name, arguments}, or a list of them, written as text.
static status make_calls(const json_t *value, json_t **out, err *e)
{
    status result = OK;
    json_error_t why;
    size_t i;
    json_t *call, *calls = NULL, *message = NULL, *list = json_array();
    calls = json_load_python(json_string_value(value), json_string_length(value), 0, &why);
    if (!calls) FAIL(E_USAGE, "function_call is no JSON, at column %d: %s", why.column, why.text);
    if (json_is_object(calls)) calls = json_pack("[o]", calls);
    json_array_foreach(calls, i, call)
    {
        if (!json_is_string(json_object_get(call, "name")))
            FAIL(E_USAGE, "function_call has no name; valid: {name, arguments}");
        json_array_append_new(list, json_pack("{s:s, s:O}", "type", "function", "function", call));
    }
    message = json_pack("{s:s, s:s, s:O}", "role", "assistant", "content", "", "tool_calls", list);
    if (!message) FAIL(E_MEMORY, "no memory for a line of data");
    *out = message;
done:
    json_decref(calls);
    json_decref(list);
    return result;
}

static status make_turn(const json_t *turn, json_t **out, err *e)
{
    const json_t *from, *value;
    status result = OK;
    TRY(samples_string(turn, "from", false, &from, e));
    TRY(samples_string(turn, "value", false, &value, e));
    int row = 0;
    while (row < ROLE_ROWS && strcmp(ROLES[row][0], json_string_value(from)) != 0) row++;
    if (row == ROLE_ROWS)
        FAIL(E_USAGE, "found from: %.*s; valid: system, human, gpt, observation, function_call",
             TEXT_CUT(json_string_value(from), 40));
    const char *role = ROLES[row][1];
    if (!role) return make_calls(value, out, e);
    *out = json_pack("{s:s, s:O}", "role", role, "content", value);
    if (!*out) FAIL(E_MEMORY, "no memory for a line of data");
done:
    return result;
}

status samples_convert_sharegpt(samples_draft *d, err *e)
{
    status result = OK;
    size_t i;
    json_t *turn;
    const json_t *list = json_object_get(d->line, "conversations"), *system;
    if (!json_is_array(list) || json_array_size(list) == 0)
        FAIL(E_USAGE, "key \"conversations\" is no list; valid: [{from, value}, …]");
    if (json_is_string(json_object_get(json_array_get(list, 0), "role"))) {
        d->messages = list;
        return samples_check_messages(list, "conversations", e);
    }
    json_t *messages = json_array();
    TRY(samples_draft_keep(d, messages, e));
    TRY(samples_string(d->line, "system", true, &system, e));
    if (system && json_string_length(system) > 0)
        json_array_append_new(messages,
                              json_pack("{s:s, s:O}", "role", "system", "content", system));
    json_array_foreach((json_t *)list, i, turn)
    {
        json_t *message = NULL;
        result = make_turn(turn, &message, e);
        if (result != OK) err_prefix(e, "conversations[%zu]: ", i);
        if (result != OK) goto done;
        json_array_append_new(messages, message);
    }
    d->messages = messages;
done:
    return result;
}

// ---- Alpaca

typedef struct alpaca {
    const json_t *instruction, *input, *output, *system;
} alpaca;

static json_t *joined(const alpaca *a)
{
    text t = {0};
    json_t *made = NULL;
    text_add_bytes(&t, json_string_value(a->instruction), json_string_length(a->instruction));
    if (a->input) {
        text_add(&t, "\n");
        text_add_bytes(&t, json_string_value(a->input), json_string_length(a->input));
    }
    if (!t.failed) made = json_stringn_nocheck(t.chars ? t.chars : "", t.bytes);
    text_clear(&t);
    return made;
}

static status add_message(json_t *messages, const char *role, json_t *content, err *e)
{
    json_t *m = content ? json_pack("{s:s, s:o}", "role", role, "content", content) : NULL;
    if (m && json_array_append_new(messages, m) == 0) return OK;
    return err_set(e, E_MEMORY, "no memory for a line of data");
}

static status alpaca_messages(samples_draft *d, const alpaca *a, err *e)
{
    status result = OK;
    size_t i;
    json_t *pair, *messages = json_array();
    TRY(samples_draft_keep(d, messages, e));
    if (a->system) TRY(add_message(messages, "system", json_incref((json_t *)a->system), e));
    json_array_foreach(json_object_get(d->line, "history"), i, pair)
    {
        json_t *asked = json_array_get(pair, 0), *said = json_array_get(pair, 1);
        if (!json_is_string(asked) || !json_is_string(said))
            FAIL(E_USAGE, "history[%zu] is no pair of strings; valid: [instruction, output]", i);
        TRY(add_message(messages, "user", json_incref(asked), e));
        TRY(add_message(messages, "assistant", json_incref(said), e));
    }
    TRY(add_message(messages, "user", joined(a), e));
    TRY(add_message(messages, "assistant", json_incref((json_t *)a->output), e));
    d->messages = messages;
done:
    return result;
}

// The prompt with which Alpaca was trained.
static status alpaca_prompt(samples_draft *d, const alpaca *a, err *e)
{
    status result = OK;
    text t = {0};
    if (a->system || json_array_size(json_object_get(d->line, "history")) > 0)
        FAIL(E_USAGE, "system and history need a tokenizer with a chat template");
    text_addf(
        &t,
        "Below is an instruction that describes a task%s. Write a response that appropriately "
        "completes the request.\n\n### Instruction:\n",
        a->input ? ", paired with an input that provides further context" : "");
    text_add_bytes(&t, json_string_value(a->instruction), json_string_length(a->instruction));
    if (a->input) {
        text_add(&t, "\n\n### Input:\n");
        text_add_bytes(&t, json_string_value(a->input), json_string_length(a->input));
    }
    text_add(&t, "\n\n### Response:\n");
    TRY(text_check(&t, e));
    json_t *prompt = json_stringn_nocheck(t.chars, t.bytes);
    TRY(samples_draft_keep(d, prompt, e));
    d->prompt = prompt;
    d->completion[0] = a->output;
done:
    text_clear(&t);
    return result;
}

status samples_convert_alpaca(samples_draft *d, bool has_chat, err *e)
{
    status result = OK;
    alpaca a;
    TRY(samples_string(d->line, "instruction", false, &a.instruction, e));
    TRY(samples_string(d->line, "input", true, &a.input, e));
    TRY(samples_string(d->line, "output", false, &a.output, e));
    TRY(samples_string(d->line, "system", true, &a.system, e));
    if (a.input && json_string_length(a.input) == 0) a.input = NULL;
    if (a.system && json_string_length(a.system) == 0) a.system = NULL;
    TRY(has_chat ? alpaca_messages(d, &a, e) : alpaca_prompt(d, &a, e));
done:
    return result;
}

// ---- Preferences that hold their prompt

static status implicit_messages(samples_draft *d, err *e)
{
    status result = OK;
    const json_t *list[2] = {d->completion[0], d->completion[1]};
    TRY(samples_check_messages(list[0], "chosen", e));
    TRY(samples_check_messages(list[1], "rejected", e));
    const size_t size[2] = {json_array_size(list[0]), json_array_size(list[1])};
    size_t common = 0;
    while (common < size[0] && common < size[1] &&
           json_equal(json_array_get(list[0], common), json_array_get(list[1], common)))
        common++;
    if (common == 0) FAIL(E_USAGE, "chosen and rejected have no prompt in common");
    if (common == size[0] || common == size[1])
        FAIL(E_USAGE, "chosen and rejected do not differ, or one has nothing behind the other");
    json_t *prompt = json_array(), *rest[2] = {json_array(), json_array()};
    TRY(samples_draft_keep(d, prompt, e));
    for (size_t i = 0; i < common; i++)
        if (json_array_append(prompt, json_array_get(list[0], i)) != 0)
            FAIL(E_MEMORY, "no memory for a line of data");
    for (int k = 0; k < 2; k++) {
        TRY(samples_draft_keep(d, rest[k], e));
        for (size_t i = common; i < size[k]; i++)
            if (json_array_append(rest[k], json_array_get(list[k], i)) != 0)
                FAIL(E_MEMORY, "no memory for a line of data");
        d->completion[k] = rest[k];
    }
    d->prompt = prompt;
done:
    return result;
}

// The prompt ends in front of the first difference, and in front of a space that stands there.
static status implicit_strings(samples_draft *d, err *e)
{
    status result = OK;
    const char *a = json_string_value(d->completion[0]), *b = json_string_value(d->completion[1]);
    const size_t size[2] = {json_string_length(d->completion[0]),
                            json_string_length(d->completion[1])};
    size_t common = 0;
    while (common < size[0] && common < size[1] && a[common] == b[common]) common++;
    while (common > 0 && common < size[0] && ((unsigned char)a[common] & 0xC0) == 0x80) common--;
    if (common == size[0] && common == size[1]) FAIL(E_USAGE, "chosen and rejected do not differ");
    if (common > 0 && a[common - 1] == ' ') common--;
    json_t *prompt = json_stringn_nocheck(a, common);
    TRY(samples_draft_keep(d, prompt, e));
    d->prompt = prompt;
    for (int k = 0; k < 2; k++) {
        json_t *rest = json_stringn_nocheck((k ? b : a) + common, size[k] - common);
        TRY(samples_draft_keep(d, rest, e));
        d->completion[k] = rest;
    }
done:
    return result;
}

status samples_convert_implicit(samples_draft *d, err *e)
{
    if (json_is_string(d->completion[0]) && json_is_string(d->completion[1]))
        return implicit_strings(d, e);
    return implicit_messages(d, e);
}
