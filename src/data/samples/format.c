// format.c -- the form of a line of JSON: by the job's word or by its keys, and the fields of the forms that need no
// conversion. encode.c calls it. It knows no tokens.
#include "data/samples/samples_private.h"

#include "base/alloc.h"

#include <math.h>
#include <string.h>

const char *const SAMPLES_FORMAT_NAMES[SAMPLES_FORMATS + 1] = {
    [FORMAT_AUTO] = "auto",
    [FORMAT_TEXT] = "text",
    [FORMAT_MESSAGES] = "messages",
    [FORMAT_PROMPT_COMPLETION] = "prompt_completion",
    [FORMAT_ALPACA] = "alpaca",
    [FORMAT_SHAREGPT] = "sharegpt",
    [FORMAT_PREFERENCE] = "preference",
    [FORMAT_INSTRUCTLAB] = "instructlab",
};
const char *const SAMPLES_PACKING_NAMES[SAMPLES_PACKINGS + 1] = {
    [PACKING_BFD] = "bfd", [PACKING_NEXT_FIT] = "next_fit", [PACKING_NONE] = "none"};
const char *const SAMPLES_TRUNCATE_NAMES[SAMPLES_TRUNCATES + 1] = {
    [TRUNCATE_ERROR] = "error",           [TRUNCATE_DROP] = "drop",
    [TRUNCATE_KEEP_START] = "keep_start", [TRUNCATE_KEEP_END] = "keep_end",
    [TRUNCATE_SPLIT] = "split",
};

// The keys that a line of each form has, and a key that it has not.
typedef struct format_keys {
    samples_format format;
    const char *has[3];
    const char *lacks;
} format_keys;

static const format_keys KEYS[] = {
    {FORMAT_TEXT, {"text"}, NULL},
    {FORMAT_MESSAGES, {"messages"}, NULL},
    {FORMAT_PROMPT_COMPLETION, {"prompt", "completion"}, "label"},
    {FORMAT_ALPACA, {"instruction", "output"}, NULL},
    {FORMAT_SHAREGPT, {"conversations"}, NULL},
    {FORMAT_PREFERENCE, {"chosen", "rejected"}, NULL},
    {FORMAT_PREFERENCE, {"prompt", "completion", "label"}, NULL},
};
enum { KEY_ROWS = sizeof KEYS / sizeof *KEYS };

static bool matches(const format_keys *k, const json_t *line)
{
    for (int i = 0; i < 3 && k->has[i]; i++)
        if (!json_object_get(line, k->has[i])) return false;
    return !k->lacks || !json_object_get(line, k->lacks);
}

// InstructLab's lines are messages with a role or a key of their own.
static bool is_instructlab(const json_t *line)
{
    size_t i;
    json_t *message;
    if (json_object_get(line, "unmask")) return true;
    json_array_foreach(json_object_get(line, "messages"), i, message)
    {
        const char *role = json_string_value(json_object_get(message, "role"));
        if (role && strcmp(role, "pretraining") == 0) return true;
    }
    return false;
}

static void list_keys(const json_t *line, text *out)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)line, key, value)
    {
        text_add(out, out->bytes ? ", " : "");
        text_add_printable(out, key, strlen(key), "");
        if (out->bytes > 100) break;
    }
}

static status find_format(const json_t *line, samples_format *out, err *e)
{
    status result = OK;
    text found = {0};
    const format_keys *hit = NULL;
    for (int i = 0; i < KEY_ROWS; i++) {
        if (!matches(&KEYS[i], line)) continue;
        if (hit)
            FAIL(E_USAGE, "found the keys of %s and of %s; valid: data.format says which it is",
                 SAMPLES_FORMAT_NAMES[hit->format], SAMPLES_FORMAT_NAMES[KEYS[i].format]);
        hit = &KEYS[i];
    }
    if (!hit) {
        list_keys(line, &found);
        FAIL(E_USAGE,
             "found the keys %.*s; valid: text, messages, prompt and completion, instruction and "
             "output, conversations, chosen and rejected, or prompt, completion and label",
             TEXT_CUT(found.bytes ? found.chars : "(none)", 200));
    }
    *out =
        hit->format == FORMAT_MESSAGES && is_instructlab(line) ? FORMAT_INSTRUCTLAB : hit->format;
done:
    text_clear(&found);
    return result;
}

status samples_draft_keep(samples_draft *d, json_t *value, err *e)
{
    if (!d->made) d->made = json_array();
    if (!value || json_array_append_new(d->made, value) != 0)
        return err_set(e, E_MEMORY, "no memory for a line of data");
    return OK;
}

status samples_string(const json_t *object, const char *key, bool optional, const json_t **out,
                      err *e)
{
    const json_t *v = json_object_get(object, key);
    *out = NULL;
    if (optional && (!v || json_is_null(v))) return OK;
    if (!json_is_string(v))
        return err_set(e, E_USAGE, "key \"%s\" %s; valid: a string", key,
                       v ? "is no string" : "is missing");
    *out = v;
    return OK;
}

status samples_check_messages(const json_t *list, const char *key, err *e)
{
    size_t i;
    json_t *message;
    if (!json_is_array(list) || json_array_size(list) == 0)
        return err_set(e, E_USAGE, "key \"%s\" is no list of messages; valid: [{role, content}, …]",
                       key);
    json_array_foreach((json_t *)list, i, message)
    {
        if (!json_is_object(message))
            return err_set(e, E_USAGE, "%s[%zu] is no object; valid: {role, content}", key, i);
        if (!json_is_string(json_object_get(message, "role")))
            return err_set(e, E_USAGE, "%s[%zu] has no role; valid: {role, content}", key, i);
    }
    return OK;
}

// Tools are a list, or the text of one.
static status read_tools(samples_draft *d, err *e)
{
    status result = OK;
    const json_t *tools = json_object_get(d->line, "tools");
    json_error_t why;
    if (!tools || json_is_null(tools)) return OK;
    if (json_is_string(tools)) {
        if (json_string_length(tools) == 0) return OK;
        json_t *parsed =
            json_load_python(json_string_value(tools), json_string_length(tools), 0, &why);
        if (!parsed) FAIL(E_USAGE, "tools: broken JSON at column %d: %s", why.column, why.text);
        tools = parsed;
        TRY(samples_draft_keep(d, parsed, e));
    }
    if (!json_is_array(tools)) FAIL(E_USAGE, "key \"tools\" is no list; valid: [{…}, …]");
    if (json_array_size(tools) > 0) d->tools = tools;
done:
    return result;
}

static status read_weight(samples_draft *d, err *e)
{
    const json_t *w = json_object_get(d->line, "weight");
    d->weight = 1;
    if (!w || json_is_null(w)) return OK;
    d->weight = json_number_value(w);
    if (json_is_number(w) && isfinite((float)d->weight) && d->weight > 0) return OK;
    return err_set(e, E_USAGE, "key \"weight\" is no number > 0; valid: the weight of the loss");
}

// A message of the role pretraining stands alone: its content is a text, in which control tokens are tokens.
static status read_instructlab(samples_draft *d, err *e)
{
    status result = OK;
    const json_t *list = json_object_get(d->line, "messages");
    size_t i, others = 0;
    json_t *message, *pretraining = NULL;
    TRY(samples_check_messages(list, "messages", e));
    json_array_foreach((json_t *)list, i, message)
    {
        const char *role = json_string_value(json_object_get(message, "role"));
        if (strcmp(role, "pretraining") == 0 && !pretraining)
            pretraining = message;
        else
            others += strcmp(role, "system") != 0;
    }
    if (pretraining && others > 0)
        FAIL(E_USAGE, "a message of the role pretraining stands among others; valid: alone");
    const json_t *unmask = json_object_get(d->line, "unmask");
    if (unmask && !json_is_boolean(unmask) && !json_is_null(unmask))
        FAIL(E_USAGE, "key \"unmask\" is neither true nor false");
    d->trains_all = json_is_true(unmask);
    if (pretraining)
        TRY(samples_string(pretraining, "content", false, &d->text, e));
    else
        d->messages = list;
done:
    return result;
}

// Checks that a prompt and its completion are both strings, or both messages.
static status check_kind(const json_t *prompt, const json_t *completion, const char *key, err *e)
{
    if (json_is_string(prompt) && json_is_string(completion)) return OK;
    if (!json_is_array(prompt) || !json_is_array(completion))
        return err_set(e, E_USAGE,
                       "keys \"prompt\" and \"%s\"; valid: two strings or two lists of messages",
                       key);
    const status s = samples_check_messages(prompt, "prompt", e);
    return s != OK ? s : samples_check_messages(completion, key, e);
}

static status read_prompt(samples_draft *d, err *e)
{
    d->prompt = json_object_get(d->line, "prompt");
    d->completion[0] = json_object_get(d->line, "completion");
    return check_kind(d->prompt, d->completion[0], "completion", e);
}

static status read_preference(samples_draft *d, err *e)
{
    status result = OK;
    const json_t *label = json_object_get(d->line, "label");
    if (!json_object_get(d->line, "chosen")) {
        if (!json_is_boolean(label))
            FAIL(E_USAGE,
                 "key \"label\" %s; valid: true for a good completion, false for a bad one",
                 label ? "is no boolean" : "is missing");
        d->has_label = true;
        d->label = json_is_true(label);
        return read_prompt(d, e);
    }
    d->prompt = json_object_get(d->line, "prompt");
    d->completion[0] = json_object_get(d->line, "chosen");
    d->completion[1] = json_object_get(d->line, "rejected");
    const bool implicit =
        !d->prompt || (json_is_string(d->prompt) && json_is_array(d->completion[0]));
    if (implicit) TRY(samples_convert_implicit(d, e));
    TRY(check_kind(d->prompt, d->completion[0], "chosen", e));
    TRY(check_kind(d->prompt, d->completion[1], "rejected", e));
done:
    return result;
}

static status read_fields(samples_draft *d, bool has_chat, err *e)
{
    switch (d->format) {
    case FORMAT_TEXT:
        return samples_string(d->line, "text", false, &d->text, e);
    case FORMAT_MESSAGES:
        d->messages = json_object_get(d->line, "messages");
        return samples_check_messages(d->messages, "messages", e);
    case FORMAT_INSTRUCTLAB:
        return read_instructlab(d, e);
    case FORMAT_PROMPT_COMPLETION:
        return read_prompt(d, e);
    case FORMAT_PREFERENCE:
        return read_preference(d, e);
    case FORMAT_ALPACA:
        return samples_convert_alpaca(d, has_chat, e);
    default:
        return samples_convert_sharegpt(d, e);
    }
}

status samples_draft_read(const char *line, size_t bytes, samples_format format, bool has_chat,
                          samples_draft *out, err *e)
{
    status result = OK;
    json_error_t why;
    *out = (samples_draft){.format = format};
    out->line = json_load_python(line, bytes, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &why);
    if (!out->line) FAIL(E_USAGE, "broken JSON at column %d: %s", why.column, why.text);
    if (!json_is_object(out->line)) FAIL(E_USAGE, "found JSON that is no object");
    if (format == FORMAT_AUTO) TRY(find_format(out->line, &out->format, e));
    TRY(read_weight(out, e));
    TRY(read_tools(out, e));
    const json_t *extra = json_object_get(out->line, "chat_template_kwargs");
    if (extra && !json_is_null(extra) && !json_is_object(extra))
        FAIL(E_USAGE, "key \"chat_template_kwargs\" is no object");
    out->extra = json_is_object(extra) ? extra : NULL;
    TRY(read_fields(out, has_chat, e));
done:
    return result;
}

void samples_draft_clear(samples_draft *d)
{
    json_decref(d->line);
    json_decref(d->made);
    *d = (samples_draft){.format = FORMAT_AUTO};
}
