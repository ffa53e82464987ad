// help.c -- the text about keys that help, the manual and completion print. They do not know the
// table of keys. See job_help_each in job.h.
#include "config/private.h"
#include "config/values.h"
#include "model/model.h"

#include "base/text.h"

#include <string.h>

static const char *const TYPES[] = {
    [KEY_COUNT] = "whole number",
    [KEY_INT] = "whole number",
    [KEY_BYTES] = "size",
    [KEY_DURATION] = "duration",
    [KEY_NUMBER] = "number",
    [KEY_BOOL] = "word",
    [KEY_SWITCH] = "word or whole number",
    [KEY_ENUM] = "word",
    [KEY_WORD] = "word",
    [KEY_PATH] = "path",
    [KEY_TEXT] = "text",
    [KEY_PARTS] = "path or list",
    [KEY_BETAS] = "list of two numbers",
    [KEY_POLICIES] = "word or list of two words",
    [KEY_SIZES] = "list of whole numbers",
    [KEY_GROUPS] = "list of entries",
    [KEY_STEPS] = "range of steps",
    [KEY_SERVER] = "address",
    [KEY_NAMES] = "word or list of words",
    [KEY_NUMBERS] = "map of names to numbers",
};

// Appends "optimizer.name adamw or adam": the words of `key` whose bits are set.
static void add_choices(unsigned bits, const char *key, text *out)
{
    const char *const *words = (key_find(key) ? key_find(key) : key_find_of_group(key))->words;
    if (!bits) return;
    text_addf(out, "%s%s", out->bytes ? ", " : "", key);
    const char *before = " ";
    for (int i = 0; words[i]; i++) {
        if (!(bits >> i & 1u)) continue;
        text_addf(out, "%s%s", before, words[i]);
        before = " or ";
    }
}

static void describe_key(const job_key *k, key_help *out)
{
    out->path = k->path;
    out->help = k->help;
    out->type = TYPES[k->type];
    out->unit = k->unit;
    out->words = k->words;
    out->special = k->special;
    out->may_change = k->flags & KEY_MAY_CHANGE;
    value_describe_valid(k, &out->valid);
    for (int i = 0; k->also && k->also[i][0]; i++)
        text_addf(&out->also, "%s%s = %s", i ? ", " : "", k->also[i][0], k->also[i][1]);
}

static void describe_row(const job *j, const job_key *k, key_help *out)
{
    describe_key(k, out);
    if (strcmp(k->path, "train.out") == 0)
        text_add(&out->fallback, "runs/NAME");
    else if (strcmp(k->path, "model.family") == 0 || !value_is_set(j, k))
        text_add(&out->fallback, "-");
    else
        value_format(j, k, &out->fallback);
    add_choices(k->rules, "optimizer.name", &out->read_with);
    add_choices(k->schedules, "lr_schedule.name", &out->read_with);
    add_choices(k->hooks, "parallel.hook.name", &out->read_with);
    add_choices(k->precisions, "train.precision", &out->read_with);
}

// A key of an entry of `groups`; its default is the value of another key.
static void describe_group_row(const job_key *k, key_help *out)
{
    describe_key(k, out);
    out->of_entry = true;
    text_add(&out->fallback, k->inherits ? k->inherits : k->fallback ? k->fallback : "-");
    add_choices(k->rules, "groups.optimizer", &out->read_with);
}

static void visit_and_clear(key_help *k, void (*visit)(const key_help *k, void *arg), void *arg)
{
    visit(k, arg);
    text_clear(&k->fallback);
    text_clear(&k->valid);
    text_clear(&k->read_with);
    text_clear(&k->also);
}

enum { HELP_FAMILIES = 64 }; // at most

// Writes the family's default of the field.
static void add_default(const model_family *of, const model_field *f, text *out)
{
    model_config c;
    model_config_defaults_of_job(of, &c);
    model_field_add(&c, f, false, out);
    const bool given = f->type != FIELD_INTEGER || out->failed || strcmp(out->chars, "0") != 0;
    if (given) return;
    text_clear(out);
    text_add(out, f->flags & (FIELD_NULLABLE | FIELD_OF_WIDTH) ? "from the others" : "none");
}

// Returns whether two families have the field with the same default.
static bool is_same(const text *a, const text *b)
{
    return a->bytes && b->bytes && strcmp(a->chars, b->chars) == 0;
}

// Appends "gpt2, mlp: 4" for the families that share the default of family `one`, or "all but gpt2, mlp: 4" where they
// are more than the others.
static void add_group(const text *value, int families, int one, text *out)
{
    int alike = 0;
    for (int i = 0; i < families; i++) alike += is_same(&value[i], &value[one]);
    const bool others = 2 * alike > families;
    text_addf(out, "%s%s", out->bytes ? "; " : "", others ? "all but " : "");
    const char *before = "";
    for (int i = 0; i < families; i++) {
        if (is_same(&value[i], &value[one]) == others) continue;
        text_addf(out, "%s%s", before, MODEL_FAMILY_NAMES[i]);
        before = ", ";
    }
    text_addf(out, ": %s", value[one].chars);
}

// Appends the defaults of a field, each once with its families.
static void add_defaults(const model_field *f, text *out)
{
    text value[HELP_FAMILIES] = {{0}}; // empty: the family lacks the field
    int families = 0;
    for (; MODEL_FAMILIES[families] && families < HELP_FAMILIES; families++) {
        const model_field *row = model_field_named(MODEL_FAMILIES[families], f->name);
        if (row) add_default(MODEL_FAMILIES[families], row, &value[families]);
    }
    for (int i = 0; i < families; i++) {
        int first = 0;
        while (first < i && !is_same(&value[first], &value[i])) first++;
        if (value[i].failed) text_fail(out);
        if (value[i].bytes && first == i) add_group(value, families, i, out);
    }
    for (int i = 0; i < families; i++) text_clear(&value[i]);
}

// A field of the model: its default in each family that has it, and its names in config.json.
static void describe_field(const model_field *f, key_help *out)
{
    const char *names[MODEL_FIELDS];
    const int count = model_field_synonyms(f->name, names);
    out->path = f->key;
    out->help = f->help;
    out->type = "field of the model";
    add_defaults(f, &out->fallback);
    model_field_describe(f, &out->valid);
    for (int i = 0; i < count; i++) text_addf(&out->also, "%smodel.%s", i ? ", " : "", names[i]);
}

static void visit_fields(void (*visit)(const key_help *k, void *arg), void *arg)
{
    const model_field *fields[MODEL_FIELDS];
    const int count = model_fields_list(NULL, fields);
    for (int i = 0; i < count; i++) {
        key_help k = {.path = NULL};
        describe_field(fields[i], &k);
        visit_and_clear(&k, visit, arg);
    }
}

static void visit_group_keys(void (*visit)(const key_help *k, void *arg), void *arg)
{
    for (int i = 0; i < GROUP_KEY_COUNT; i++) {
        key_help k = {.path = NULL};
        describe_group_row(&GROUP_KEYS[i], &k);
        visit_and_clear(&k, visit, arg);
    }
}

void job_help_each(void (*visit)(const key_help *k, void *arg), void *arg)
{
    job *j = NULL;
    if (job_new(NULL, &j, NULL) != OK) return;
    for (int i = 0; i < JOB_KEY_COUNT; i++) {
        key_help k = {.path = NULL};
        describe_row(j, &JOB_KEYS[i], &k);
        visit_and_clear(&k, visit, arg);
        if (strcmp(JOB_KEYS[i].path, "model.family") == 0) visit_fields(visit, arg);
        if (JOB_KEYS[i].type == KEY_GROUPS) visit_group_keys(visit, arg);
    }
    job_close(j);
}

// The state of job_help while it lists keys.
typedef struct help_listing {
    text *out;
    char section[32]; // of the last key
    const char *only; // list this section; NULL: all
} help_listing;

static bool is_in(const char *path, const char *section)
{
    const size_t bytes = strlen(section);
    return strncmp(path, section, bytes) == 0 && path[bytes] == '.';
}

static void add_to_list(const key_help *k, void *arg)
{
    help_listing *l = arg;
    const size_t bytes = strcspn(k->path, ".");
    if (l->only && !is_in(k->path, l->only)) return;
    if (strncmp(l->section, k->path, bytes) != 0 || l->section[bytes]) {
        memcpy(l->section, k->path, bytes);
        l->section[bytes] = 0;
        text_addf(l->out, "\n%s\n", l->section);
    }
    text_addf(l->out, "  %-38s%-12s  valid: %s\n", k->path, k->fallback.chars, k->valid.chars);
    text_addf(l->out, "      %s\n", k->help);
}

void job_help(text *out)
{
    help_listing l = {.out = out};
    text_add(out,
             "Keys of the job file, each with its default; on the command line: --key value or "
             "--key=value.\n");
    job_help_each(add_to_list, &l);
}

static void add_line(const char *name, const char *value, text *out)
{
    if (value && *value) text_addf(out, "  %-10s %s\n", name, value);
}

// The key that job_help_topic prints.
typedef struct help_topic {
    const char *path;
    text *out;
} help_topic;

static void add_topic(const key_help *k, void *arg)
{
    const help_topic *t = arg;
    if (strcmp(k->path, t->path) != 0) return;
    text_addf(t->out, "%s\n  %s\n\n", k->path, k->help);
    add_line("type", k->type, t->out);
    add_line("unit", k->unit, t->out);
    add_line("default", k->fallback.chars, t->out);
    add_line("valid", k->valid.chars, t->out);
    add_line("also", k->also.chars, t->out);
    add_line("read with", k->read_with.chars, t->out);
    if (!is_in(k->path, "model"))
        add_line("resuming", k->may_change ? "may change" : "must stay as it was", t->out);
    if (!k->of_entry) text_addf(t->out, "  %-10s --%s VALUE\n", "flag", k->path);
}

// Returns the key of the field that any family has by this name; NULL: none.
static const char *find_field(const char *name)
{
    for (int i = 0; MODEL_FAMILIES[i]; i++) {
        const model_field *f = model_field_find(MODEL_FAMILIES[i], name);
        if (f && f->key) return f->key;
    }
    return NULL;
}

const char *job_help_find(const char *word)
{
    if (key_find(word)) return key_find(word)->path;
    if (key_find_of_group(word)) return key_find_of_group(word)->path;
    if (key_is_model_field(word) && find_field(word + strlen("model.")))
        return find_field(word + strlen("model."));
    return key_is_section(word) ? word : NULL;
}

status job_help_topic(const char *word, text *out, err *e)
{
    const char *path = job_help_find(word);
    text hint = {0};
    if (path && !key_is_section(path)) {
        job_help_each(add_topic, &(help_topic){.path = path, .out = out});
        job_help_each(add_to_list, &(help_listing){.out = out, .only = path});
        return OK;
    }
    if (path) {
        job_help_each(add_to_list, &(help_listing){.out = out, .only = path});
        return OK;
    }
    key_suggest(word, &hint);
    err_set(e, E_USAGE, "--help: %.*s: unknown key%s", TEXT_CUT(word, 100),
            hint.chars ? hint.chars : "");
    text_clear(&hint);
    return E_USAGE;
}
