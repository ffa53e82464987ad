// groups.c -- the list `groups` of the job: reads its entries by the table GROUP_KEYS, checks them,
// writes them, and gives each group the settings that its entry leaves to the job. job.c,
// job_check.c, job_print.c, same.c and session/ call it. It does not know the tensors of a model;
// session/groups.c compares the patterns with them.
#include "config/private.h"
#include "config/values.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 160 }; // of "groups[1].lr_scale"

static unsigned bit_of(const job_key *k)
{
    return 1u << (k - GROUP_KEYS);
}

static bool gives(const job_group *g, const char *path)
{
    return g->given & bit_of(key_find_of_group(path));
}

// ---- Where an entry stands

static const yaml_node *entry_node(const job *j, int group)
{
    const yaml_node *n = settings_of(j->values, "groups")->value->first;
    while (group-- > 0) n = n->next;
    return n;
}

// The node of a key of an entry, in a section or with a dotted name; the entry where it lacks it.
static const yaml_node *key_node(const job *j, int group, const char *key)
{
    const yaml_node *entry = entry_node(j, group), *found = yaml_node_entry(entry, key);
    const char *dot = strchr(key, '.');
    for (const yaml_node *c = entry->first; !found && dot && c; c = c->next)
        if (strncmp(c->key, key, (size_t)(dot - key)) == 0 && !c->key[dot - key])
            found = yaml_node_entry(c, dot + 1);
    return found ? found : entry;
}

static void name_key(char out[NAME_BYTES], int group, const char *key)
{
    snprintf(out, NAME_BYTES, "groups[%d].%.*s", group, TEXT_CUT(key, 120));
}

static void place(const job *j, int group, const char *key, int line, err *e)
{
    char name[NAME_BYTES];
    name_key(name, group, key);
    const setting s = setting_item(settings_of(j->values, "groups"), group, line, name);
    setting_prefix(j->values, &s, e);
}

void job_place_group(const job *j, int group, const char *key, err *e)
{
    place(j, group, key, key_node(j, group, key)->line, e);
}

// Fails with E_USAGE and the place of an entry's key, in a function that has `j`, `i`, `e`,
// `result` and `done:`.
#define GROUP_ERROR(key, ...)                                                                      \
    do {                                                                                           \
        result = err_set(e, E_USAGE, __VA_ARGS__);                                                 \
        job_place_group(j, i, key, e);                                                             \
        goto done;                                                                                 \
    } while (0)

// ---- Reading

// Returns whether the path of an entry is a section, as "offload".
static bool is_section(const char *path)
{
    const size_t bytes = strlen(path);
    for (int i = 0; i < GROUP_KEY_COUNT; i++) {
        const char *key = key_in_entry(&GROUP_KEYS[i]);
        if (strncmp(key, path, bytes) == 0 && key[bytes] == '.') return true;
    }
    return false;
}

// Appends "weights, gradients": the keys below a section, or all of an entry for "".
static void list_keys(const char *section, text *out)
{
    const size_t bytes = strlen(section);
    const char *before = "";
    for (int i = 0; i < GROUP_KEY_COUNT; i++) {
        const char *key = key_in_entry(&GROUP_KEYS[i]);
        if (bytes && (strncmp(key, section, bytes) != 0 || key[bytes] != '.')) continue;
        text_addf(out, "%s%s", before, bytes ? key + bytes + 1 : key);
        before = ", ";
    }
}

static status refuse_section(const char *path, const yaml_node *n, err *e)
{
    status result = OK;
    text found = {0}, valid = {0};
    yaml_node_text(n, &found);
    list_keys(path, &valid);
    TRY(text_check(&found, e));
    TRY(text_check(&valid, e));
    result = err_set(e, E_USAGE, "found %.*s; valid: a section of %s", TEXT_CUT(found.chars, 200),
                     valid.chars);
done:
    text_clear(&found);
    text_clear(&valid);
    return result;
}

static status refuse_unknown(const char *path, err *e)
{
    status result = OK;
    const char *names[32];
    text valid = {0};
    for (int i = 0; i < GROUP_KEY_COUNT; i++) names[i] = key_in_entry(&GROUP_KEYS[i]);
    const char *near = text_nearest(path, names, (size_t)GROUP_KEY_COUNT);
    if (near) return err_set(e, E_USAGE, "unknown key; did you mean %s?", near);
    list_keys("", &valid);
    TRY(text_check(&valid, e));
    result = err_set(e, E_USAGE, "unknown key; valid: %s", valid.chars);
done:
    text_clear(&valid);
    return result;
}

static status read_section(job *j, int group, const char *section, const yaml_node *map, err *e);

static status read_value(job *j, int group, const char *path, const yaml_node *n, err *e)
{
    status result = OK;
    job_group *g = &j->group[group];
    text full = {0};
    text_addf(&full, "groups.%s", path);
    TRY(text_check(&full, e));
    const job_key *k = key_find_of_group(full.chars);
    if (!k && is_section(path) && n->kind == NODE_MAP) {
        result = read_section(j, group, path, n, e);
        goto done;
    }
    if (!k)
        result = is_section(path) ? refuse_section(path, n, e) : refuse_unknown(path, e);
    else if (g->given & bit_of(k))
        result = err_set(e, E_USAGE, "given twice in one entry");
    else
        result = value_set(&g->value, k, n, e);
    if (result != OK)
        place(j, group, path, n->line, e);
    else
        g->given |= bit_of(k);
done:
    text_clear(&full);
    return result;
}

static status read_section(job *j, int group, const char *section, const yaml_node *map, err *e)
{
    status result = OK;
    text path = {0};
    for (const yaml_node *c = map->first; c; c = c->next) {
        text_clear(&path);
        text_addf(&path, "%s%s%s", section, *section ? "." : "", c->key);
        TRY(text_check(&path, e));
        TRY(read_value(j, group, path.chars, c, e));
    }
done:
    text_clear(&path);
    return result;
}

// Each parameter is compared with each group, and each group with others.
enum { GROUPS_MOST = 1024 };

status groups_set(job *j, const yaml_node *list, err *e)
{
    status result = OK;
    text found = {0};
    int count = 0, i = 0;
    groups_free(j);
    for (const yaml_node *c = list->first; c; c = c->next) count++;
    if (!count) return OK;
    if (count > GROUPS_MOST) {
        err_set(e, E_USAGE, "found %d entries; valid: up to %d", count, GROUPS_MOST);
        setting_prefix(j->values, settings_of(j->values, "groups"), e);
        return E_USAGE;
    }
    TRY(alloc_zeroed(&j->group, (size_t)count, sizeof *j->group, "the parameter groups", e));
    j->groups = count;
    for (const yaml_node *c = list->first; c; c = c->next, i++) {
        if (c->kind != NODE_MAP) {
            yaml_node_text(c, &found);
            TRY(text_check(&found, e));
            GROUP_ERROR("match", "found the entry %.*s; valid: keys, as {match: \"*.bias\"}",
                        TEXT_CUT(found.chars, 200));
        }
        TRY(read_section(j, i, "", c, e));
        if (!gives(&j->group[i], "groups.match"))
            GROUP_ERROR("match", "not given; valid: a pattern of tensor names, as \"*.bias\"");
    }
done:
    text_clear(&found);
    return result;
}

void groups_free(job *j)
{
    for (int i = 0; i < j->groups; i++) free((char *)j->group[i].value.match);
    free(j->group);
    j->group = NULL;
    j->groups = 0;
}

// ---- The settings that hold

static size_t bytes_of(key_type type)
{
    switch (type) {
    case KEY_BOOL:
        return sizeof(bool);
    case KEY_NUMBER:
        return sizeof(double);
    case KEY_BETAS:
        return 2 * sizeof(double);
    case KEY_POLICIES:
        return sizeof(policies);
    case KEY_TEXT:
        return sizeof(char *);
    default:
        return sizeof(unsigned); // an enum
    }
}

static bool has_other_rule(const job *j, const job_group *g)
{
    return gives(g, "groups.optimizer") && g->value.optimizer.rule != j->optimizer.rule;
}

// The settings of group i; those of the job for i = groups.
static param_group solve(const job *j, int i)
{
    param_group out = {.dp = j->strategy.dp,
                       .over = POLICY_AXES,
                       .precision = job_dtype(j),
                       .optimizer = j->optimizer,
                       .lr_scale = 1};
    const job_group *g = &j->group[i];
    memcpy(out.tier, j->strategy.offload.tier, sizeof out.tier);
    if (i == j->groups) return out;
    if (has_other_rule(j, g)) {
        out.optimizer.rule = g->value.optimizer.rule;
        optimizer_set_defaults(&out.optimizer);
    }
    if (gives(g, "groups.weight_decay")) out.optimizer.decay_all = true;
    for (int r = 0; r < GROUP_KEY_COUNT; r++) {
        const job_key *k = &GROUP_KEYS[r];
        if (g->given & bit_of(k))
            memcpy((char *)&out + k->offset, (const char *)&g->value + k->offset,
                   bytes_of(k->type));
    }
    return out;
}

status job_solve_groups(const job *j, param_group **out, int *count, err *e)
{
    const int own = j->groups + 1;
    const bool adapts = j->lora.how.rank > 0;
    *count = adapts ? 2 * own : own;
    const status result =
        alloc_zeroed(out, (size_t)*count, sizeof **out, "the parameter groups", e);
    for (int i = 0; result == OK && i < *count; i++) {
        param_group *g = &(*out)[i];
        *g = solve(j, i % own);
        if (!adapts) continue;
        g->trains = model_lora_trains, g->trains_arg = &j->lora.how;
        g->of_base = i >= own;
        g->frozen = g->frozen || g->of_base;
    }
    return result;
}

static bool rule_has(const job_key *k, const param_group *g)
{
    return !k->rules || k->rules >> g->optimizer.rule & 1u;
}

// Returns whether job.yaml has the setting: it is given, or an optimizer's own default, which another
// version could change, or it follows from a given weight_decay.
static bool is_written(const job *j, int i, const job_key *k)
{
    const job_group *g = &j->group[i];
    const param_group values = solve(j, i);
    const bool of_rule = k->inherits && strncmp(k->inherits, "optimizer.", 10) == 0;
    const bool decays = strcmp(k->path, "groups.decay") == 0 && gives(g, "groups.weight_decay");
    const bool pinned = of_rule && has_other_rule(j, g) && rule_has(k, &values);
    return g->given & bit_of(k) || (!values.frozen && (decays || pinned));
}

// ---- Checks

static status check_optimizer(job *j, int i, err *e)
{
    status result = OK;
    const job_group *g = &j->group[i];
    const param_group values = solve(j, i);
    for (int r = 0; r < GROUP_KEY_COUNT; r++) {
        const job_key *k = &GROUP_KEYS[r];
        const char *key = key_in_entry(k);
        if (!(g->given & bit_of(k))) continue;
        if (!rule_has(k, &values) && gives(g, "groups.optimizer"))
            GROUP_ERROR(key, "not a parameter of the optimizer %s (groups[%d].optimizer)",
                        OPTIM_NAMES[values.optimizer.rule], i);
        if (!rule_has(k, &values))
            GROUP_ERROR(key, "not a parameter of the optimizer %s (optimizer.name)",
                        OPTIM_NAMES[values.optimizer.rule]);
        if (values.frozen && k->flags & KEY_OF_UPDATE)
            text_addf(&j->warnings,
                      "groups[%d].%s has no effect, because groups[%d].trainable is false; valid: "
                      "with trainable true\n",
                      i, key, i);
    }
done:
    return result;
}

static status check_layout(const job *j, int i, err *e)
{
    status result = OK;
    const job_group *g = &j->group[i];
    const dtype own = job_dtype(j);
    static const char *const tiers[PLAN_STATES] = {"offload.weights", "offload.gradients",
                                                   "offload.optimizer"};
    if (gives(g, "groups.dtype") && g->value.precision != F32 && g->value.precision != own)
        GROUP_ERROR("dtype", "found %s; valid: %s%s", dtype_name(g->value.precision),
                    own == F32 ? "" : "fp32 or ",
                    own == F32 ? "fp32, as train.precision" : dtype_name(own));
    if (gives(g, "groups.dp")) {
        result = policies_check_value(j, key_node(j, i, "dp"), &g->value.dp, e);
        if (result != OK) job_place_group(j, i, "dp", e);
        if (result != OK) goto done;
    }
    for (int t = 0; t < PLAN_STATES; t++)
        if (g->value.tier[t] == TIER_FILE && !j->strategy.offload.path)
            GROUP_ERROR(tiers[t], "found file; it needs parallel.offload.path, a folder");
done:
    return result;
}

status job_check_groups(job *j, err *e)
{
    status result = OK;
    for (int i = 0; i < j->groups; i++) {
        TRY(check_optimizer(j, i, e));
        TRY(check_layout(j, i, e));
    }
done:
    return result;
}

// ---- Text

void job_write_group(const char *match, const char *settings, text *out)
{
    text_add(out, "{match: ");
    yaml_node_quote(match, out);
    if (settings && *settings) text_addf(out, ", %s", settings);
    text_add(out, "}");
}

void groups_format(const job *j, text *out)
{
    text_add(out, "[");
    for (int i = 0; i < j->groups; i++) {
        const param_group values = solve(j, i);
        const char *before = i ? ", {" : "{", *open = "";
        size_t open_bytes = 0;
        for (int r = 0; r < GROUP_KEY_COUNT; r++) {
            const char *key = key_in_entry(&GROUP_KEYS[r]), *dot = strchr(key, '.');
            const size_t bytes = dot ? (size_t)(dot - key) : 0;
            if (!is_written(j, i, &GROUP_KEYS[r])) continue;
            const bool same = bytes && bytes == open_bytes && strncmp(key, open, bytes) == 0;
            if (open_bytes && !same) text_add(out, "}");
            text_add(out, before);
            if (bytes && !same) text_addf(out, "%.*s: {", (int)bytes, key);
            text_addf(out, "%s: ", dot ? dot + 1 : key);
            value_format(&values, &GROUP_KEYS[r], out);
            open = key, open_bytes = bytes, before = ", ";
        }
        text_add(out, open_bytes ? "}}" : "}");
    }
    text_add(out, "]");
}

// Appends the origin of an effective value.
static void describe_origin(const job *j, int i, const job_key *k, text *from)
{
    const job_group *g = &j->group[i];
    const char *key = key_in_entry(k);
    const bool of_rule = k->inherits && strncmp(k->inherits, "optimizer.", 10) == 0;
    const yaml_node *n = key_node(j, i, key);
    const setting s = setting_item(settings_of(j->values, "groups"), i, n->line, NULL);
    if (g->given & bit_of(k))
        setting_describe(j->values, &s, from);
    else if (strcmp(key, "decay") == 0 && gives(g, "groups.weight_decay"))
        text_add(from, "weight_decay");
    else if (!k->inherits || (of_rule && has_other_rule(j, g) && strcmp(key, "decay") != 0))
        text_add(from, "default");
    else
        text_add(from, k->inherits);
}

bool group_line_at(const job *j, int group, int row, text *path, text *value, text *from)
{
    const job_key *k = &GROUP_KEYS[row];
    const param_group values = solve(j, group);
    if (!rule_has(k, &values) || (values.frozen && k->flags & KEY_OF_UPDATE)) return false;
    text_addf(path, "groups[%d].%s", group, key_in_entry(k));
    value_format(&values, k, value);
    describe_origin(j, group, k, from);
    return true;
}

// Returns whether all keys of an entry that are `key`, or below the section `key`, may change.
static bool may_change(const char *key)
{
    const size_t bytes = strlen(key);
    bool known = false;
    for (int i = 0; i < GROUP_KEY_COUNT; i++) {
        const char *row = key_in_entry(&GROUP_KEYS[i]);
        if (strncmp(row, key, bytes) != 0 || (row[bytes] && row[bytes] != '.')) continue;
        if (!(GROUP_KEYS[i].flags & KEY_MAY_CHANGE)) return false;
        known = true;
    }
    return known;
}

void groups_identity(const yaml_node *list, text *out)
{
    text pending = {0}; // entries that are written only where one with settings follows
    for (const yaml_node *entry = list->first; entry; entry = entry->next) {
        const char *before = "{";
        bool has_settings = entry->kind != NODE_MAP;
        if (has_settings) yaml_node_text(entry, &pending);
        for (const yaml_node *c = has_settings ? NULL : entry->first; c; c = c->next) {
            if (may_change(c->key)) continue;
            text_add(&pending, before);
            yaml_node_quote(c->key, &pending);
            text_add(&pending, ": ");
            yaml_node_text(c, &pending);
            has_settings = has_settings || strcmp(c->key, "match") != 0;
            before = ", ";
        }
        text_add(&pending, entry->kind == NODE_MAP ? "}\n" : "\n");
        if (pending.failed) text_fail(out);
        if (!has_settings) continue;
        text_add(out, pending.chars ? pending.chars : "");
        text_clear(&pending);
    }
    text_clear(&pending);
}
