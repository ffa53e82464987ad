// chat_template.c -- finds the template of a tokenizer and its special tokens among the files beside tokenizer.json.
// chat_render.c renders it, chat_mask.c finds what is trained, chat_encode.c makes tokens.
#include "data/chat/chat_private.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

static const char *const TOKEN_NAMES[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                          "pad_token", "cls_token", "mask_token"};

// A file beside tokenizer.json as JSON; NULL: there is none.
static status load_side_file(const tokenizer *t, const char *folder, const char *name, json_t **out,
                             err *e)
{
    status result = OK;
    json_error_t problem;
    size_t bytes = 0;
    for (int i = 0; i < TOKENIZER_FILES; i++) {
        if (strcmp(tokenizer_file_name(i), name) != 0) continue;
        const char *content = tokenizer_file(t, i, &bytes);
        if (!content) continue;
        *out = json_load_python(content, bytes, 0, &problem);
        if (!*out) FAIL(E_USAGE, "%s/%s:%d: %s", folder, name, problem.line, problem.text);
    }
done:
    return result;
}

static void take_special_tokens(json_t *special, const json_t *file)
{
    for (size_t i = 0; i < sizeof TOKEN_NAMES / sizeof *TOKEN_NAMES; i++) {
        json_t *token = json_object_get(file, TOKEN_NAMES[i]);
        if (json_is_object(token)) token = json_object_get(token, "content");
        if (json_is_string(token) && !json_object_get(special, TOKEN_NAMES[i]))
            json_object_set(special, TOKEN_NAMES[i], token);
    }
}

// Opens an entry of chat_template: it is an object of templates by name, or a list of {name, template}.
static status open_entry(const json_t *templates, const char *entry, const char *file, jinja **out,
                         err *e)
{
    status result = OK;
    const json_t *source = json_object_get(templates, entry);
    for (size_t i = 0; i < json_array_size(templates) && !source; i++) {
        const json_t *one = json_array_get(templates, i);
        const char *name = json_string_value(json_object_get(one, "name"));
        if (name && strcmp(name, entry) == 0) source = json_object_get(one, "template");
    }
    if (json_is_string(source))
        TRY(jinja_open(file, json_string_value(source), json_string_length(source), out, e));
done:
    return result;
}

static status open_templates(chat_template *c, const json_t *config, const char *folder, err *e)
{
    status result = OK;
    text file = {0};
    size_t bytes = 0;
    const char *source = tokenizer_file(c->tokenizer, TOKENIZER_FILES - 1, &bytes);
    const json_t *entry = json_object_get(config, "chat_template");
    text_addf(&file, "%s/%s", folder,
              source ? tokenizer_file_name(TOKENIZER_FILES - 1)
                     : "tokenizer_config.json: chat_template");
    TRY(text_check(&file, e));
    if (source) {
        TRY(jinja_open(file.chars, source, bytes, &c->usual, e));
    } else if (json_is_string(entry)) {
        TRY(jinja_open(file.chars, json_string_value(entry), json_string_length(entry), &c->usual,
                       e));
    } else if (entry && !json_is_null(entry)) {
        TRY(open_entry(entry, "default", file.chars, &c->usual, e));
        TRY(open_entry(entry, "tool_use", file.chars, &c->with_tools, e));
        if (!c->usual)
            FAIL(E_USAGE, "%s: found no entry \"default\"; valid is a string, or a list with one",
                 file.chars);
    }
done:
    text_clear(&file);
    return result;
}

// Makes a template without a source, with the special tokens of the tokenizer.
static status make(const tokenizer *t, const char *folder, json_t **config, chat_template **out,
                   err *e)
{
    status result = OK;
    json_t *map = NULL;
    chat_template *c = NULL;
    TRY(alloc_zeroed(&c, 1, sizeof *c, "a chat template", e));
    c->tokenizer = t;
    c->special = json_object();
    TRY(load_side_file(t, folder, "tokenizer_config.json", config, e));
    TRY(load_side_file(t, folder, "special_tokens_map.json", &map, e));
    if (!c->special) FAIL(E_MEMORY, "no memory for a chat template");
    take_special_tokens(c->special, *config);
    take_special_tokens(c->special, map);
    *out = c;
    c = NULL;
done:
    chat_template_close(c);
    json_decref(map);
    return result;
}

status chat_template_open(const tokenizer *t, const char *name, chat_template **out, err *e)
{
    status result = OK;
    json_t *config = NULL;
    chat_template *c = NULL;
    TRY(make(t, name, &config, &c, e));
    TRY(open_templates(c, config, name, e));
    *out = c->usual ? c : NULL;
    if (c->usual) c = NULL;
done:
    chat_template_close(c);
    json_decref(config);
    return result;
}

status chat_template_open_text(const tokenizer *t, const char *name, const char *source,
                               size_t bytes, chat_template **out, err *e)
{
    status result = OK;
    json_t *config = NULL;
    chat_template *c = NULL;
    TRY(make(t, name, &config, &c, e));
    TRY(jinja_open(name, source, bytes, &c->usual, e));
    *out = c;
    c = NULL;
done:
    chat_template_close(c);
    json_decref(config);
    return result;
}

void chat_template_close(chat_template *c)
{
    if (!c) return;
    jinja_close(c->usual);
    jinja_close(c->with_tools);
    json_decref(c->special);
    free(c);
}
