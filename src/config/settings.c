// settings.c -- collects the values of each key from the job file, the command line and a program's
// calls. job.c calls it. It refuses unknown keys and does not know what values mean.
#include "config/settings.h"

#include "base/alloc.h"
#include "base/file.h"

#include <stdlib.h>
#include <string.h>

status settings_open(const char *file, job_values **out, err *e)
{
    status result = OK;
    job_values *v = NULL;
    TRY(alloc_zeroed(&v, 1, sizeof *v, "the job", e));
    TRY(alloc_zeroed(&v->rows, (size_t)JOB_KEY_COUNT, sizeof *v->rows, "the job", e));
    for (int i = 0; i < JOB_KEY_COUNT; i++) TRY(text_copy(JOB_KEYS[i].path, &v->rows[i].path, e));
    if (file) TRY(text_copy(file, &v->file, e));
    *out = v;
    v = NULL;
done:
    settings_free(v);
    return result;
}

void settings_free(job_values *v)
{
    if (!v) return;
    for (int i = 0; v->rows && i < JOB_KEY_COUNT; i++) free(v->rows[i].path);
    for (int i = 0; i < v->models; i++) free(v->model[i].path);
    for (int i = 0; i < v->trees_count; i++) yaml_node_free(v->trees[i]);
    translation_clear(&v->theirs);
    free(v->rows);
    free(v->model);
    free(v->trees);
    free(v->file);
    free(v);
}

const setting *settings_of(const job_values *v, const char *path)
{
    return &v->rows[key_index(path)];
}

bool setting_is_given(const setting *s)
{
    return s->value != NULL;
}

bool setting_is_auto(const setting *s)
{
    return !s->value || (s->value->kind == NODE_SCALAR && strcmp(s->value->scalar, "auto") == 0);
}

void setting_drop(setting *s)
{
    s->value = NULL;
    s->from = ORIGIN_DEFAULT;
    s->line = 0;
    s->yaml = 0;
}

static const char YAML_NAME[] = "yaml";

static const char *dashes(const job_values *v)
{
    return v->by_calls ? "" : "--";
}

void setting_place(const job_values *v, const setting *s, err *e)
{
    if (s->from == ORIGIN_FILE)
        err_prefix(e, "%s:%d: ", v->file, s->line);
    else if (s->yaml)
        err_prefix(e, "%s:%d: ", YAML_NAME, s->line);
    else if (s->from == ORIGIN_COMMAND_LINE)
        err_prefix(e, "%s", dashes(v));
    else if (s->from == ORIGIN_DIALECT && s->file)
        err_prefix(e, "%s: %s: ", s->file, s->who);
    else if ((s->from == ORIGIN_OTHER || s->from == ORIGIN_DIALECT) && s->who)
        err_prefix(e, "%s: ", s->who);
    else if (v->file)
        err_prefix(e, "%s: ", v->file);
}

void setting_place_first(const job_values *v, const char *const *paths, err *e)
{
    const setting *s = settings_of(v, *paths), *other = s;
    bool known = setting_is_given(s) && !setting_is_their_default(v, s);
    while (!known && *++paths) {
        other = settings_of(v, *paths);
        known = (other->from == ORIGIN_DIALECT && !setting_is_their_default(v, other)) ||
                other->from == ORIGIN_OTHER;
    }
    setting_place(v, known ? other : s, e);
}

void setting_prefix(const job_values *v, const setting *s, err *e)
{
    err_prefix(e, "%s: ", s->path);
    setting_place(v, s, e);
}

void setting_describe(const job_values *v, const setting *s, text *out)
{
    if (s->from == ORIGIN_FILE)
        text_addf(out, "%s:%d", v->file, s->line);
    else if (s->yaml)
        text_addf(out, "%s:%d", YAML_NAME, s->line);
    else if (s->from == ORIGIN_OTHER || s->from == ORIGIN_DIALECT)
        text_add(out, s->who);
    else
        text_add(out, s->from != ORIGIN_COMMAND_LINE ? "default"
                      : v->by_calls                  ? "program"
                                                     : "command line");
    if (s->note) text_addf(out, " (%s)", s->note);
}

// Owns the tree from now on, also on failure.
static status keep_tree(job_values *v, yaml_node *tree, err *e)
{
    const status result = alloc_grow(&v->trees, &v->trees_room, (size_t)v->trees_count + 1,
                                     sizeof *v->trees, "the job", e);
    if (result == OK)
        v->trees[v->trees_count++] = tree;
    else
        yaml_node_free(tree);
    return result;
}

// The setting of a path: that of a row, or of a model field, which is added at its first use. *out
// is NULL for an unknown key.
static status find_setting(job_values *v, const char *path, setting **out, err *e)
{
    status result = OK;
    const int row = key_index(path);
    *out = row >= 0 ? &v->rows[row] : NULL;
    if (row >= 0 || !key_is_model_field(path)) return OK;
    for (int i = 0; i < v->models; i++)
        if (strcmp(v->model[i].path, path) == 0) *out = &v->model[i];
    if (*out) return OK;
    TRY(alloc_grow(&v->model, &v->model_room, (size_t)v->models + 1, sizeof *v->model, "the job",
                   e));
    v->model[v->models] = (setting){.path = NULL};
    TRY(text_copy(path, &v->model[v->models].path, e));
    *out = &v->model[v->models++];
done:
    return result;
}

// The origin of a value that is being read, for messages.
static setting origin_of(const job_values *v, const char *path, const yaml_node *n,
                         setting_origin from)
{
    return (setting){.path = (char *)path, .from = from, .line = n->line, .yaml = v->reading};
}

static status set_value(const job_values *v, setting *s, const yaml_node *n, setting_origin from,
                        err *e)
{
    const setting now = origin_of(v, s->path, n, from);
    const bool same_text =
        from == ORIGIN_FILE ? s->from == ORIGIN_FILE : now.yaml && now.yaml == s->yaml;
    if (same_text) {
        err_set(e, E_USAGE, "given twice; the first is in line %d", s->line);
        setting_prefix(v, &now, e);
        return E_USAGE;
    }
    s->value = n;
    s->from = from;
    s->line = n->line;
    s->yaml = now.yaml;
    s->appended = 0;
    s->note = NULL;
    return OK;
}

static status unknown_key(const job_values *v, const char *path, const yaml_node *n,
                          setting_origin from, err *e)
{
    const setting now = origin_of(v, path, n, from);
    const bool key = from == ORIGIN_FILE || v->by_calls;
    text hint = {0};
    key_suggest(path, &hint);
    status result = text_check(&hint, e);
    if (result == OK)
        result = err_set(e, E_USAGE, "unknown %s%s", key ? "key" : "option", hint.chars);
    setting_prefix(v, &now, e);
    text_clear(&hint);
    return result;
}

static status not_a_section(const job_values *v, const char *path, const yaml_node *n,
                            setting_origin from, err *e)
{
    text found = {0}, below = {0};
    yaml_node_text(n, &found);
    key_list(path, &below);
    const setting now = origin_of(v, path, n, from);
    err_set(e, E_USAGE, "found %.*s; valid: a section of %s", TEXT_CUT(found.chars, 200),
            below.chars);
    setting_prefix(v, &now, e);
    text_clear(&found);
    text_clear(&below);
    return E_USAGE;
}

// Takes the value of a key, or all values below a section. Sections nest two deep.
static status take(job_values *v, const char *path, const yaml_node *n, setting_origin from, err *e)
{
    status result = OK;
    text below = {0};
    if (!key_is_section(path)) {
        setting *s;
        TRY(find_setting(v, path, &s, e));
        return s ? set_value(v, s, n, from, e) : unknown_key(v, path, n, from, e);
    }
    const job_key *bare = key_of_section(path);
    if (bare && n->kind == NODE_SCALAR && !yaml_node_is_null(n))
        return take(v, bare->path, n, from, e);
    if (yaml_node_is_null(n)) return OK;
    if (n->kind != NODE_MAP) return not_a_section(v, path, n, from, e);
    for (const yaml_node *c = n->first; c; c = c->next) {
        text_clear(&below);
        text_addf(&below, "%s.%s", path, c->key);
        TRY(text_check(&below, e));
        TRY(take(v, below.chars, c, from, e));
    }
done:
    text_clear(&below);
    return result;
}

// Takes all values of a text, which is a map of sections and keys.
static status take_text(job_values *v, const char *name, const char *content, size_t bytes,
                        setting_origin from, err *e)
{
    status result = OK;
    yaml_node *root = NULL;
    TRY(yaml_node_parse(name, content, bytes, &root, e));
    TRY(keep_tree(v, root, e));
    if (root->kind != NODE_MAP)
        FAIL(E_USAGE, "%s:%d: found a %s; valid: sections of keys, as train: {steps: 1000}", name,
             root->line, root->kind == NODE_LIST ? "list" : "word");
    for (const yaml_node *c = root->first; c; c = c->next) TRY(take(v, c->key, c, from, e));
done:
    return result;
}

bool setting_is_their_default(const job_values *v, const setting *s)
{
    for (size_t i = 0; s->from == ORIGIN_DIALECT && i < v->theirs.settings; i++)
        if (strcmp(v->theirs.setting[i].key, s->path) == 0) return v->theirs.setting[i].is_default;
    return false;
}

status settings_read_file(job_values *v, err *e)
{
    status result = OK;
    char *content = NULL;
    size_t bytes;
    TRY(file_read_small(v->file, FILE_MOST_CONFIG, &content, &bytes, e));
    TRY(take_text(v, v->file, content, bytes, ORIGIN_FILE, e));
done:
    free(content);
    return result;
}

status settings_read_yaml(job_values *v, const char *yaml, err *e)
{
    v->reading = ++v->yamls;
    const status result = take_text(v, YAML_NAME, yaml, strlen(yaml), ORIGIN_COMMAND_LINE, e);
    v->reading = 0;
    return result;
}

status settings_add_group(job_values *v, const char *yaml, err *e)
{
    status result = OK;
    setting *s = &v->rows[key_index("groups")];
    const bool more = s->value && s->value->kind == NODE_LIST;
    yaml_node *list = NULL, *entry = NULL;
    if (more)
        TRY(yaml_node_copy(s->value, &list, e));
    else
        TRY(yaml_node_list(0, &list, e));
    TRY(yaml_node_parse(s->path, yaml, strlen(yaml), &entry, e));
    yaml_node_append(list, entry);
    entry = list;
    list = NULL;
    TRY(keep_tree(v, entry, e));
    s->value = entry;
    s->appended = more ? s->appended + 1 : 0;
    if (!more) s->from = ORIGIN_COMMAND_LINE;
done:
    yaml_node_free(list);
    return result;
}

setting setting_item(const setting *list, int item, int line, char *path)
{
    setting out = {.path = path, .from = list->from, .line = line, .yaml = list->yaml};
    int items = 0;
    for (const yaml_node *c = list->value->first; c; c = c->next) items++;
    if (item >= items - list->appended) out.from = ORIGIN_COMMAND_LINE, out.yaml = 0;
    return out;
}

// "a,b" as a list; the caller owns it.
static status split_list(const char *s, yaml_node **out, err *e)
{
    status result = OK;
    text one = {0};
    yaml_node *list = NULL, *item;
    TRY(yaml_node_list(0, &list, e));
    for (;; s++) {
        const size_t bytes = strcspn(s, ",");
        text_clear(&one);
        text_add_bytes(&one, s, bytes);
        TRY(text_check(&one, e));
        TRY(yaml_node_scalar(one.chars, 0, &item, e));
        yaml_node_append(list, item);
        s += bytes;
        if (!*s) break;
    }
    *out = list;
    list = NULL;
done:
    yaml_node_free(list);
    text_clear(&one);
    return result;
}

static status value_node(const job_values *v, const char *path, const char *value, yaml_node **out,
                         err *e)
{
    const job_key *k = key_find(path);
    bool lists = k && (k->type == KEY_PARTS || k->type == KEY_BETAS || k->type == KEY_POLICIES ||
                       k->type == KEY_SIZES || k->type == KEY_NAMES);
    const bool is_address = k && k->type == KEY_SERVER; // [IPv6]:PORT is no list
    text name = {0};
    status result = OK;
    if (!is_address && (value[0] == '[' || value[0] == '{')) {
        text_addf(&name, "%s%s", dashes(v), path); // for messages alone
        result = yaml_node_parse(name.chars, value, strlen(value), out, e);
    } else if (lists && strchr(value, ',')) {
        result = split_list(value, out, e);
    } else {
        result = yaml_node_scalar(value, 0, out, e);
    }
    text_clear(&name);
    return result;
}

// Returns whether the option has no value: it is a flag, and the next argument is an option.
static bool stands_alone(const char *path, const char *next)
{
    const job_key *k = key_find(path);
    const bool flag = k && (k->type == KEY_BOOL || (k->type == KEY_ENUM && key_is_flag(k)));
    return flag && (!next || strncmp(next, "--", 2) == 0);
}

static status read_option(job_values *v, const char *path, const char *value, err *e)
{
    status result = OK;
    yaml_node *n = NULL;
    size_t bad_offset;
    if (!text_is_utf8(value, strlen(value), &bad_offset))
        FAIL(E_USAGE, "%s%s: the value is not UTF-8 at byte %zu", dashes(v), path, bad_offset);
    TRY(value_node(v, path, value, &n, e));
    TRY(keep_tree(v, n, e));
    TRY(take(v, path, n, ORIGIN_COMMAND_LINE, e));
done:
    return result;
}

// The value of option argv[*i]: the text after '=', or the next argument, to which *i then moves.
static status find_value(const job_values *v, const char *path, const char *equals, int argc,
                         char *const *argv, int *i, const char **out, err *e)
{
    const char *next = *i + 1 < argc ? argv[*i + 1] : NULL;
    if (equals) {
        *out = equals + 1;
    } else if (stands_alone(path, next)) {
        *out = "true";
    } else if (next && strncmp(next, "--", 2) != 0) {
        *out = next;
        (*i)++;
    } else {
        yaml_node none = {.kind = NODE_SCALAR};
        bool known = strcmp(path, "resume") == 0 || strcmp(path, "profile") == 0 ||
                     key_find(path) || key_is_section(path) || key_is_model_field(path);
        if (!known) return unknown_key(v, path, &none, ORIGIN_COMMAND_LINE, e);
        return err_set(e, E_USAGE, "%s%s: needs a value", dashes(v), path);
    }
    return OK;
}

status settings_take_dialects(job_values *v, bool defaults, err *e)
{
    status result = OK;
    for (size_t i = 0; i < v->theirs.settings; i++) {
        const dialect_setting *x = &v->theirs.setting[i];
        yaml_node *n = NULL;
        setting *s = NULL;
        if (x->is_default != defaults) continue;
        // A key that stands twice in a value is refused with the value.
        result = yaml_node_parse_repeats(x->from, x->value, strlen(x->value), &n, e);
        if (result == E_USAGE) // such as a map with a key of thousands of characters
            FAIL(E_USAGE, "%s: found %.*s, which is no value of %s", x->from,
                 TEXT_CUT(x->value, 200), x->key);
        TRY(result);
        TRY(keep_tree(v, n, e));
        TRY(take(v, x->key, n, ORIGIN_DIALECT, e));
        TRY(find_setting(v, x->key, &s, e));
        s->who = x->from;
        s->file = x->file;
        s->note = x->note;
    }
done:
    return result;
}

// The switch of --quiet, --overwrite or --json; NULL for another name.
static bool *find_switch(setting_flags *flags, const char *name)
{
    if (strcmp(name, "quiet") == 0) return &flags->quiet;
    if (strcmp(name, "json") == 0) return &flags->json;
    return strcmp(name, "overwrite") == 0 ? &flags->overwrite : NULL;
}

// --profile steps=10-12 is another form of --observe.trace_steps 10-12.
static status read_profile(job_values *v, const char *value, err *e)
{
    static const char word[] = "steps=";
    if (strncmp(value, word, sizeof word - 1) != 0)
        return err_set(e, E_USAGE, "--profile: found %.*s; valid: steps=10, or steps=10-12",
                       TEXT_CUT(value, 100));
    return read_option(v, "observe.trace_steps", value + sizeof word - 1, e);
}

status settings_read_args(job_values *v, int argc, char *const *argv, setting_flags *flags, err *e)
{
    status result = OK;
    text path = {0};
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) != 0 || !argv[i][2])
            FAIL(E_USAGE, "found argument %.*s; valid: --key value or --key=value",
                 TEXT_CUT(argv[i], 200));
        const char *name = argv[i] + 2, *equals = strchr(name, '='), *value = NULL;
        if (settings_is_theirs(argv[i])) { // settings_read_dialects has read it
            i += equals ? 0 : 1;
            continue;
        }
        text_clear(&path);
        text_add_bytes(&path, name, equals ? (size_t)(equals - name) : strlen(name));
        TRY(text_check(&path, e));
        bool *flag = find_switch(flags, path.chars);
        if (flag && equals) FAIL(E_USAGE, "--%s: takes no value", path.chars);
        if (flag) {
            *flag = true;
            continue;
        }
        TRY(find_value(v, path.chars, equals, argc, argv, &i, &value, e));
        if (strcmp(path.chars, "resume") == 0)
            flags->resume = value;
        else if (strcmp(path.chars, "profile") == 0)
            TRY(read_profile(v, value, e));
        else
            TRY(read_option(v, path.chars, value, e));
    }
done:
    text_clear(&path);
    return result;
}

status settings_change(job_values *v, const char *path, const char *value, const char *who, err *e)
{
    status result = OK;
    setting *s = &v->rows[key_index(path)];
    TRY(read_option(v, path, value, e));
    s->from = ORIGIN_OTHER;
    s->who = who;
done:
    return result;
}
