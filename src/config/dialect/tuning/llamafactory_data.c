// llamafactory_data.c -- the data sets of LLaMA-Factory by their names: dataset_info.json in the folder dataset_dir says
// which file each is, and in which form. See llamafactory.h.
#include "config/dialect/tuning/llamafactory.h"

#include "base/file.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// The data sets of one key.
typedef struct data_reader {
    const dialect_reader *r;
    const char *key;    // dataset, or eval_dataset
    const json_t *info; // dataset_info.json; NULL: none here
    const char *folder;
    tuning_sources all;
    const yaml_node *share; // of interleave_probs, at the data set; NULL: none
} data_reader;

static const char *text_at(const json_t *entry, const char *section, const char *key,
                           const char *otherwise)
{
    const json_t *of = section ? json_object_get(entry, section) : entry;
    const json_t *s = json_object_get(of, key);
    return json_is_string(s) ? json_string_value(s) : otherwise;
}

// Returns whether the columns or tags of an entry have other names than our format's.
static bool renames(const json_t *entry, const char *section, const char *const (*names)[2])
{
    const json_t *of = json_object_get(entry, section);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)of, key, value)
    {
        bool same = false;
        for (int i = 0; names[i][0]; i++)
            same = same || (strcmp(names[i][0], key) == 0 && json_is_string(value) &&
                            strcmp(names[i][1], json_string_value(value)) == 0);
        if (!same) return true;
    }
    return false;
}

// Our format of an entry; NULL: none.
static const char *format_of(const json_t *entry, bool is_text)
{
    static const char *const ALPACA[][2] = {{"prompt", "instruction"}, {"query", "input"},
                                            {"response", "output"},    {"system", "system"},
                                            {"history", "history"},    {NULL, NULL}};
    static const char *const SHAREGPT[][2] = {
        {"messages", "conversations"}, {"system", "system"}, {"tools", "tools"}, {NULL, NULL}};
    static const char *const MESSAGES[][2] = {
        {"messages", "messages"}, {"tools", "tools"}, {NULL, NULL}};
    static const char *const TAGS[][2] = {{"role_tag", "from"},
                                          {"content_tag", "value"},
                                          {"user_tag", "human"},
                                          {"assistant_tag", "gpt"},
                                          {"observation_tag", "observation"},
                                          {"function_tag", "function_call"},
                                          {"system_tag", "system"},
                                          {NULL, NULL}};
    static const char *const ROLES[][2] = {
        {"role_tag", "role"},     {"content_tag", "content"},     {"user_tag", "user"},
        {"system_tag", "system"}, {"assistant_tag", "assistant"}, {NULL, NULL}};
    static const char *const TEXT[][2] = {{"prompt", "text"}, {NULL, NULL}};
    const char *form = text_at(entry, NULL, "formatting", "alpaca");
    if (json_is_true(json_object_get(entry, "ranking"))) return NULL;
    if (is_text) return renames(entry, "columns", TEXT) ? NULL : "text";
    if (strcmp(form, "alpaca") == 0) return renames(entry, "columns", ALPACA) ? NULL : "alpaca";
    const bool openai = strcmp(form, "openai") == 0;
    if (!openai && !renames(entry, "columns", SHAREGPT) && !renames(entry, "tags", TAGS))
        return "sharegpt";
    if (strcmp(text_at(entry, "columns", "messages", openai ? "messages" : ""), "messages") == 0 &&
        !renames(entry, "columns", MESSAGES) && !renames(entry, "tags", ROLES) &&
        (openai || json_object_get(entry, "tags")))
        return "messages";
    return NULL;
}

// Takes the file of an entry.
static status take_file(data_reader *d, const char *name, const char *file, const char *format,
                        err *e)
{
    status result = OK;
    double weight = 0;
    text path = {0};
    if (d->share && d->share->kind == NODE_SCALAR) (void)text_to_double(d->share->scalar, &weight);
    TRY(tuning_find_file(d->r, file, d->folder, &path, e));
    const size_t bytes = path.bytes;
    if (bytes > 6 && strcmp(path.chars + bytes - 6, ".jsonl") == 0) {
        if (format)
            TRY(tuning_sources_add(&d->all, path.chars, format, weight, e));
        else
            TRY(dialect_remark_on(
                d->r, d->key, true, e,
                "found %.*s, whose columns or tags have other names than a format "
                "of data.format; valid: a copy with those names",
                TEXT_CUT(name, 100)));
    } else if (bytes > 5 && strcmp(path.chars + bytes - 5, ".json") == 0) {
        TRY(dialect_remark_on(d->r, d->key, true, e,
                              "found %.*s, whose file %.*s is one list; valid: a sample on each "
                              "line: jq -c '.[]' FILE.json >FILE.jsonl",
                              TEXT_CUT(name, 100), TEXT_CUT(file, 100)));
    } else {
        TRY(tuning_no_data(d->r, d->key, file, e));
    }
done:
    text_clear(&path);
    return result;
}

static status take_name(data_reader *d, const char *name, err *e)
{
    const json_t *entry = json_object_get(d->info, name);
    const char *file = text_at(entry, NULL, "file_name", NULL);
    if (d->info && !entry)
        return dialect_refuse(d->r, d->key, e, "found %.*s, which dataset_info.json does not have",
                              TEXT_CUT(name, 100));
    if (!file || json_object_get(entry, "hf_hub_url")) return tuning_no_data(d->r, d->key, name, e);
    return take_file(d, name, file,
                     format_of(entry, strcasecmp(dialect_text(d->r, "stage"), "pt") == 0), e);
}

// Takes the names of a list, or of a text with commas.
static status take_names(data_reader *d, const yaml_node *n, err *e)
{
    status result = OK;
    text name = {0};
    const yaml_node *shares = dialect_value(d->r, "interleave_probs");
    d->share = shares && shares->kind == NODE_LIST ? shares->first : NULL;
    for (const yaml_node *one = n->kind == NODE_LIST ? n->first : NULL; one; one = one->next) {
        if (one->kind == NODE_SCALAR) TRY(take_name(d, one->scalar, e));
        d->share = d->share ? d->share->next : NULL;
    }
    for (const char *s = n->kind == NODE_SCALAR ? n->scalar : ""; *s; s += *s == ',') {
        s += strspn(s, " ");
        const char *end = s + strcspn(s, ",");
        size_t bytes = (size_t)(end - s);
        while (bytes && s[bytes - 1] == ' ') bytes--;
        text_clear(&name);
        text_add_bytes(&name, s, bytes);
        TRY(text_check(&name, e));
        if (bytes) TRY(take_name(d, name.chars, e));
        d->share = d->share ? d->share->next : NULL;
        s = end;
    }
done:
    text_clear(&name);
    return result;
}

// Reads dataset_info.json, where it is here.
static status read_info(const dialect_reader *r, json_t **out, text *folder, err *e)
{
    status result = OK;
    const char *given = dialect_text(r, "dataset_dir");
    text path = {0};
    char *content = NULL;
    size_t bytes = 0;
    json_error_t why;
    TRY(tuning_find_file(r, "dataset_info.json", given, &path, e));
    if (!path.bytes) goto done;
    text_add_bytes(folder, path.chars, (size_t)(strrchr(path.chars, '/') - path.chars));
    TRY(text_check(folder, e));
    TRY(file_read_small(path.chars, FILE_MOST_CONFIG, &content, &bytes, e));
    *out = json_loadb(content, bytes, 0, &why);
    if (!json_is_object(*out))
        result = dialect_refuse(r, "dataset_dir", e, "found %.*s, which is no JSON object",
                                TEXT_CUT(path.chars, 200));
done:
    free(content);
    text_clear(&path);
    return result;
}

static status finish_key(const dialect_reader *r, const char *key, const char *ours,
                         const json_t *info, const char *folder, err *e)
{
    status result = OK;
    const yaml_node *n = dialect_value(r, key);
    data_reader d = {.r = r, .key = key, .info = info, .folder = folder};
    if (!n) return OK;
    d.all.repeats = strcasecmp(dialect_text(r, "mix_strategy"), "interleave_over") == 0;
    TRY(take_names(&d, n, e));
    TRY(tuning_sources_set(r, &d.all, ours, key, e));
done:
    tuning_sources_clear(&d.all);
    return result;
}

status llamafactory_finish_data(const dialect_reader *r, err *e)
{
    status result = OK;
    json_t *info = NULL;
    text folder = {0};
    TRY(read_info(r, &info, &folder, e));
    TRY(finish_key(r, "dataset", "data.train", info, folder.chars, e));
    TRY(finish_key(r, "eval_dataset", "data.valid", info, folder.chars, e));
done:
    json_decref(info);
    text_clear(&folder);
    return result;
}
