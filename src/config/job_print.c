// job_print.c -- writes a job as text: its values with their origins, and the job.yaml of a run.
// See job_explain and job_write_yaml in job.h.
#include "base/alloc.h"
#include "config/private.h"
#include "config/values.h"
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

// One line of explain, or one entry of its JSON.
typedef struct line {
    char *path, *value, *from;
} line;

typedef struct lines {
    line *items;
    size_t count, room;
    bool failed; // memory lacked
} lines;

static void line_free(line *x)
{
    free(x->path);
    free(x->value);
    free(x->from);
}

// Takes the three texts.
static void add_line(lines *all, text path, text value, text from)
{
    line x = {NULL, NULL, NULL};
    bool good = text_take(&path, &x.path, NULL) == OK;
    good &= text_take(&value, &x.value, NULL) == OK;
    good &= text_take(&from, &x.from, NULL) == OK;
    if (good &&
        alloc_grow(&all->items, &all->room, all->count + 1, sizeof *all->items, "", NULL) == OK) {
        all->items[all->count++] = x;
        return;
    }
    all->failed = true;
    line_free(&x);
}

static void add_model_fields(const job *j, lines *all)
{
    const model_field *fields[MODEL_FIELDS];
    if (j->own.model) return;
    const int count = model_fields_list(j->model.config.family, fields);
    for (int i = j->model.path ? -1 : 0; i < count; i++) {
        if (i >= 0 && !model_field_is_read(&j->model.config, fields[i])) continue;
        text path = {0}, value = {0}, from = {0};
        text_add(&path, i < 0 ? "model.family" : fields[i]->key);
        if (i < 0)
            text_add(&value, j->model.config.family->name), text_add(&from, "config.json");
        else
            model_field_explain(j, fields[i], &value, &from);
        add_line(all, path, value, from);
    }
}

// Appends the effective value: the policies and the mesh resolve parallel.no_sync auto.
static void format_effective(const job *j, const job_key *k, text *out)
{
    mesh m;
    const bool follows =
        strcmp(k->path, "parallel.no_sync") == 0 && j->strategy.no_sync == NO_SYNC_AUTO;
    if (follows && job_solve_mesh(j, j->launch.ranks, &m, NULL) == OK)
        text_add(out, k->words[strategy_resolve(&j->strategy, &m).no_sync]);
    else
        value_format(j, k, out);
}

static void add_row(const job *j, const job_key *k, lines *all)
{
    const setting *s = settings_of(j->values, k->path);
    text path = {0}, value = {0}, from = {0};
    text_add(&path, k->path);
    format_effective(j, k, &value);
    setting_describe(j->values, s, &from);
    bool can_be_auto = k->special ? strcmp(k->special, "auto") == 0
                                  : k->fallback && strcmp(k->fallback, "auto") == 0;
    if (can_be_auto && setting_is_auto(s) && strcmp(value.chars, "auto") != 0)
        text_add(&from, " (auto)");
    if (strcmp(k->path, "launch.device") == 0 && j->launch.passed)
        text_addf(&from, "; %s", j->launch.passed);
    add_line(all, path, value, from);
}

// The micro-batches of a rank in a step, which follow from the batch, once the micro-batch is known.
static void add_accumulation(const job *j, const job_key *k, lines *all)
{
    mesh m;
    const setting *s = settings_of(j->values, k->path);
    int64_t given = 0;
    text path = {0}, value = {0}, from = {0};
    if (j->train.micro_batch < 1 || job_solve_mesh(j, j->launch.ranks, &m, NULL) != OK) return;
    const int64_t times = job_micro_batches(j, &m);
    const bool is_given =
        s->value && s->value->kind == NODE_SCALAR && text_to_count(s->value->scalar, &given);
    text_add(&path, k->path);
    text_addf(&value, "%lld", (long long)times);
    if (is_given && given == times)
        setting_describe(j->values, s, &from);
    else
        text_add(&from, job_batch_split(j, &m).of
                            ? "train.global_batch / the sum of parallel.batch_split"
                            : "train.global_batch / (train.micro_batch x data-parallel ranks)");
    add_line(all, path, value, from);
}

static void add_groups(const job *j, lines *all)
{
    for (int i = 0; i < j->groups * GROUP_KEY_COUNT; i++) {
        text path = {0}, value = {0}, from = {0};
        if (group_line_at(j, i / GROUP_KEY_COUNT, i % GROUP_KEY_COUNT, &path, &value, &from))
            add_line(all, path, value, from);
    }
}

// For explain each key of a parameter group has a line, and so has train.accumulation, which follows from other keys. In
// a job file the whole list has one.
static lines lines_of(const job *j, bool explains)
{
    lines all = {0};
    for (int i = 0; i < JOB_KEY_COUNT; i++) {
        const job_key *k = &JOB_KEYS[i];
        if (k->type == KEY_GROUPS && explains)
            add_groups(j, &all);
        else if (explains && strcmp(k->path, "train.accumulation") == 0)
            add_accumulation(j, k, &all);
        else if (value_is_set(j, k) && key_applies(k, j))
            add_row(j, k, &all);
        if (strcmp(k->path, "model.family") == 0) add_model_fields(j, &all);
    }
    return all;
}

static void lines_free(lines *all)
{
    for (size_t i = 0; i < all->count; i++) line_free(&all->items[i]);
    free(all->items);
}

static size_t longest(size_t so_far, const char *s, size_t limit)
{
    size_t n = strlen(s);
    return n > so_far && n <= limit ? n : so_far;
}

// A value's text is flow YAML; this reads it as JSON. Without memory the text *fails fails.
static json_t *json_of(const char *value, text *fails)
{
    text wrapped = {0};
    yaml_node *list = NULL;
    json_t *out = NULL;
    text_addf(&wrapped, "[%s]", value);
    const status parsed = yaml_node_parse("value", wrapped.chars, wrapped.bytes, &list, NULL);
    if (wrapped.failed || parsed == E_MEMORY) text_fail(fails);
    if (parsed == OK && list->first) out = yaml_node_json(list->first);
    yaml_node_free(list);
    text_clear(&wrapped);
    return out ? out : json_string(value);
}

static void explain_json(const lines *all, text *out)
{
    json_t *root = json_object();
    for (size_t i = 0; i < all->count; i++)
        json_object_set_new(root, all->items[i].path,
                            json_pack("{s:o, s:s}", "value", json_of(all->items[i].value, out),
                                      "origin", all->items[i].from));
    char *s = json_dumps(root, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    if (!s) text_fail(out);
    text_add(out, s ? s : "");
    text_add(out, "\n");
    free(s);
    json_decref(root);
}

void job_explain(const job *j, bool json, text *out)
{
    lines all = lines_of(j, true);
    size_t paths = 0, values = 0;
    for (size_t i = 0; i < all.count; i++) {
        paths = longest(paths, all.items[i].path, 48);
        values = longest(values, all.items[i].value, 40);
    }
    if (json) explain_json(&all, out);
    for (size_t i = 0; !json && i < all.count; i++)
        text_addf(out, "%-*s  %-*s  %s\n", (int)paths, all.items[i].path, (int)values,
                  all.items[i].value, all.items[i].from);
    if (all.failed) text_fail(out);
    lines_free(&all);
}

const char *job_enter_sections(const char *path, text *open, int *depth, text *out)
{
    const char *word = path;
    *depth = 0;
    for (const char *dot = strchr(path, '.'); dot; dot = strchr(word, '.')) {
        size_t upto = (size_t)(dot - path);
        bool is_open = open->bytes >= upto && strncmp(open->chars, path, upto) == 0 &&
                       (open->chars[upto] == '.' || !open->chars[upto]);
        if (!is_open) text_addf(out, "%*s%.*s:\n", 2 * *depth, "", (int)(dot - word), word);
        word = dot + 1;
        ++*depth;
    }
    text_clear(open);
    if (word > path) text_add_bytes(open, path, (size_t)(word - path) - 1);
    return word;
}

void job_write_yaml(const job *j, text *out)
{
    lines all = lines_of(j, false);
    text open = {0};
    text_add(out, "# The effective job of this run.\n");
    for (size_t i = 0; i < all.count; i++) {
        const char *path = all.items[i].path;
        const job_key *k = key_find(path);
        bool of_folder = !k || strcmp(path, "model.family") == 0;
        if (j->model.path && of_folder) continue; // config.json holds it
        bool keep =
            k && (k->flags & KEY_KEEP_AUTO) && setting_is_auto(settings_of(j->values, path));
        int depth;
        const char *word = job_enter_sections(path, &open, &depth, out);
        if (open.failed) text_fail(out);
        text_addf(out, "%*s%s: %s\n", 2 * depth, "", word, keep ? "auto" : all.items[i].value);
    }
    if (all.failed) text_fail(out);
    text_clear(&open);
    lines_free(&all);
}

bool job_find_value(const job *j, const char *path, text *value, text *from)
{
    lines all = lines_of(j, false);
    bool found = false;
    if (key_find_of_group(path)) path = "groups";
    for (size_t i = 0; i < all.count && !found; i++) {
        found = strcmp(all.items[i].path, path) == 0;
        if (!found) continue;
        text_add(value, all.items[i].value);
        text_add(from, all.items[i].from);
    }
    if (all.failed) text_fail(value);
    lines_free(&all);
    return found;
}
