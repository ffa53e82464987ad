// axolotl_data.c -- the data sets of axolotl's files: which are JSONL files here, in which of our formats, and which of
// their tokens have labels. See axolotl.h.
#include "config/dialect/tuning/axolotl.h"

#include <string.h>
#include <strings.h>

// A text of an entry, or else its default.
static const char *text_of(const yaml_node *entry, const char *key, const char *otherwise)
{
    const yaml_node *n = yaml_node_entry(entry, key);
    return n && n->kind == NODE_SCALAR && !yaml_node_is_null(n) ? n->scalar : otherwise;
}

static bool begins(const char *s, const char *with)
{
    return strncasecmp(s, with, strlen(with)) == 0;
}

// The name of a message's field, which message_property_mappings or an older key gives.
static const char *field_of(const yaml_node *entry, const char *word, const char *older)
{
    const yaml_node *map = yaml_node_entry(entry, "message_property_mappings");
    const char *name = map && map->kind == NODE_MAP ? text_of(map, word, NULL) : NULL;
    return name ? name : text_of(entry, older, word);
}

// The format of conversations: by the names of their fields.
static const char *chat_format(const yaml_node *entry)
{
    const char *list = text_of(entry, "field_messages", "messages");
    const char *role = field_of(entry, "role", "message_field_role");
    const char *content = field_of(entry, "content", "message_field_content");
    if (strcmp(role, "from") == 0 && strcmp(content, "value") == 0)
        return strcmp(list, "conversations") == 0 ? "sharegpt" : NULL;
    if (strcmp(role, "role") == 0 && strcmp(content, "content") == 0)
        return strcmp(list, "messages") == 0 ? "messages" : NULL;
    return NULL;
}

// Our format of an entry of the list `datasets`; NULL: none.
static const char *format_of(const dialect_reader *r, const yaml_node *entry)
{
    const yaml_node *n = yaml_node_entry(entry, "type");
    const char *type = n && n->kind == NODE_SCALAR && !yaml_node_is_null(n) ? n->scalar : NULL;
    const char *rl = dialect_text(r, "rl");
    if (n && n->kind != NODE_SCALAR) return NULL; // a prompt of the user's own
    if (rl && strcasecmp(rl, "kto") == 0) return NULL;
    if (rl) return !type || begins(type, "chat_template") ? "preference" : NULL;
    if (!type || begins(type, "chat_template")) return chat_format(entry);
    if (begins(type, "sharegpt")) return "sharegpt";
    if (strcasecmp(type, "alpaca") == 0) return "alpaca";
    if (begins(type, "completion") || begins(type, "pretrain")) return "text";
    return NULL;
}

// Roles that are trained: the assistant's alone is ours.
static bool trains_others(const yaml_node *entry)
{
    const yaml_node *roles = yaml_node_entry(entry, "roles_to_train");
    for (const yaml_node *n = roles && roles->kind == NODE_LIST ? roles->first : NULL; n;
         n = n->next)
        if (n->kind != NODE_SCALAR ||
            (strcmp(n->scalar, "assistant") != 0 && strcmp(n->scalar, "gpt") != 0))
            return true;
    const char *ends = text_of(entry, "train_on_eos", "turn");
    return strcasecmp(ends, "turn") != 0 && strcasecmp(ends, "last") != 0;
}

// The file of an entry: data_files, or the path.
static const char *file_of(const yaml_node *entry)
{
    const yaml_node *files = yaml_node_entry(entry, "data_files");
    if (files && files->kind == NODE_LIST) files = files->first;
    if (files && files->kind == NODE_SCALAR && !yaml_node_is_null(files)) return files->scalar;
    return text_of(entry, "path", NULL);
}

static status take_entry(const dialect_reader *r, const yaml_node *entry, const char *key,
                         tuning_sources *all, err *e)
{
    status result = OK;
    const char *name = entry->kind == NODE_MAP ? file_of(entry) : NULL;
    const char *format = entry->kind == NODE_MAP ? format_of(r, entry) : NULL;
    text path = {0};
    if (!name)
        return dialect_refuse(r, key, e, "found an entry without path; valid: {path: FILE.jsonl}");
    TRY(tuning_find_file(r, name, NULL, &path, e));
    if (path.bytes < 6 || strcmp(path.chars + path.bytes - 6, ".jsonl") != 0) {
        TRY(tuning_no_data(r, key, name, e));
        goto done;
    }
    if (!format || trains_others(entry)) {
        TRY(dialect_remark_on(r, key, true, e,
                              "found %.*s in a form which Trireme does not read, or with other "
                              "labels; valid: data.train with data.format messages, "
                              "prompt_completion, alpaca, sharegpt, text or preference",
                              TEXT_CUT(name, 200)));
        goto done;
    }
    TRY(tuning_sources_add(all, path.chars, format, 0, e));
    if (strcmp(format, "alpaca") == 0)
        TRY(dialect_remark_on(r, key, true, e,
                              "axolotl writes Alpaca's prompt around %.*s; here it is written by "
                              "the model's chat template",
                              TEXT_CUT(name, 200)));
done:
    text_clear(&path);
    return result;
}

static status take_list(const dialect_reader *r, const char *key, const char *ours, bool *any,
                        err *e)
{
    status result = OK;
    tuning_sources all = {.item = NULL};
    const yaml_node *list = dialect_value(r, key);
    for (const yaml_node *n = list ? list->first : NULL; n; n = n->next)
        TRY(take_entry(r, n, key, &all, e));
    TRY(tuning_sources_set(r, &all, ours, key, e));
    *any = all.count > 0;
done:
    tuning_sources_clear(&all);
    return result;
}

static status finish_rows(const dialect_reader *r, err *e)
{
    status result = OK;
    static const char PACKS[] = "sample_packing", ORDER[] = "sample_packing_sequentially";
    const bool packs = dialect_is_on(r, PACKS), in_order = packs && dialect_is_on(r, ORDER);
    TRY(dialect_set(r, "data.packing",
                    in_order ? "next_fit"
                    : packs  ? "bfd"
                             : "none",
                    in_order ? ORDER : PACKS, NULL, e));
    TRY(dialect_set(r, "data.truncate", dialect_our_word(r, "excess_length_strategy"),
                    "excess_length_strategy", NULL, e));
    TRY(dialect_set(
        r, "data.order", dialect_is_on(r, "curriculum_sampling") ? "sequential" : "torch",
        "curriculum_sampling", packs ? "axolotl packs samples in another order" : NULL, e));
    TRY(dialect_set(r, "data.train_on", dialect_is_on(r, "train_on_inputs") ? "all" : "assistant",
                    "train_on_inputs", NULL, e));
done:
    return result;
}

// The template, where it has another name than the one of the model's folder.
static status finish_template(const dialect_reader *r, err *e)
{
    const char *name = dialect_text(r, "chat_template");
    if (!name || begins(name, "tokenizer_default")) return OK;
    return tuning_template(r, "chat_template", "base_model", e);
}

status axolotl_finish_data(const dialect_reader *r, err *e)
{
    status result = OK;
    bool trains = false, tests = false;
    const double split = tuning_number(r, "val_set_size", 0);
    TRY(take_list(r, "datasets", "data.train", &trains, e));
    TRY(take_list(r, "test_datasets", "data.valid", &tests, e));
    if (dialect_value(r, "pretraining_dataset"))
        TRY(dialect_remark_on(r, "pretraining_dataset", true, e,
                              "texts are not streamed from a hub; valid: data.train: PREFIX of "
                              "token shards, which trireme data prepare writes"));
    if (split > 0 && !tests)
        TRY(dialect_remark_on(r, "val_set_size", true, e,
                              "found %g; valid: data.valid, a file with lines that data.train has "
                              "not",
                              split));
    if (!dialect_value(r, "datasets") && !dialect_value(r, "pretraining_dataset"))
        return dialect_refuse(r, "datasets", e, "not given; valid: a list of data sets");
    TRY(finish_rows(r, e));
    TRY(finish_template(r, e));
done:
    return result;
}
