// groups.c -- see groups.h. inputs.c checks the groups when it has traced the model, and
// explain_job.c prints them. It does not know what the settings of a group do.
#include "session/groups.h"

#include "base/alloc.h"
#include "train/param_groups.h"

#include <stdlib.h>
#include <string.h>

// ---- The nearest name of a pattern that matches none

// The smallest number of characters to change so that the pattern matches the name. "*" stands for
// any characters. Longer texts are compared up to PARAM_NAME_BYTES.
static int distance(const char *pattern, const char *name)
{
    int row[PARAM_NAME_BYTES], columns = (int)strlen(name);
    if (columns >= PARAM_NAME_BYTES) columns = PARAM_NAME_BYTES - 1;
    for (int c = 0; c <= columns; c++) row[c] = c;
    for (const char *p = pattern; *p; p++) {
        const bool any = *p == '*';
        int diagonal = row[0];
        if (!any) row[0]++;
        for (int c = 1; c <= columns; c++) {
            const int above = row[c];
            const int replaced = diagonal + (any || *p != name[c - 1]);
            const int removed = above + !any, added = row[c - 1] + !any;
            row[c] = replaced < removed ? replaced : removed;
            if (added < row[c]) row[c] = added;
            diagonal = above;
        }
    }
    return row[columns];
}

static const char *nearest(const model_param_files *f, const char *pattern)
{
    const char *best = f->file[0].name;
    int least = distance(pattern, best);
    for (int i = 1; i < f->count; i++) {
        const int d = distance(pattern, f->file[i].name);
        if (d >= least) continue;
        best = f->file[i].name;
        least = d;
    }
    return best;
}

// ---- Checks

static bool matches_any(const model_param_files *f, const char *pattern)
{
    for (int i = 0; i < f->count; i++)
        if (param_group_matches(pattern, f->file[i].name)) return true;
    return false;
}

// Names the pattern with stars around it, or the nearest tensor.
static status refuse_pattern(const model_param_files *f, const char *pattern, err *e)
{
    status result = OK;
    text inside = {0};
    text_addf(&inside, "*%s*", pattern);
    TRY(text_check(&inside, e));
    const bool meant = matches_any(f, inside.chars);
    FAIL(E_USAGE, "found %.*s, which matches no tensor of the model; %s %.*s%s",
         TEXT_CUT(pattern, 200), meant ? "did you mean" : "the nearest is",
         TEXT_CUT(meant ? inside.chars : nearest(f, pattern), 200), meant ? "?" : "");
done:
    text_clear(&inside);
    return result;
}

static bool has_member(const model *m, const param_groups *groups, const int *of, int entry)
{
    for (int p = 0; p < m->params; p++)
        if (param_groups_entry(groups, of[p]) == entry) return true;
    return false;
}

// The job's groups, and the index of each parameter's group. The caller frees groups->items and *of.
static status find(const job *j, const model *m, param_groups *groups, int **of, err *e)
{
    status result = OK;
    param_group *items = NULL;
    int count;
    TRY(job_solve_groups(j, &items, &count, e));
    *groups = (param_groups){.items = items, .count = count};
    TRY(alloc_zeroed(of, (size_t)m->params, sizeof **of, "the parameter groups", e));
    TRY(param_groups_assign(m, groups, *of, e));
done:
    return result;
}

// Warns of the first few groups without a parameter, and counts the others.
static void warn_of_empty(const job *j, const model *m, const param_groups *groups, const int *of,
                          text *warnings)
{
    enum { WARNED_MOST = 5 };
    int empty = 0;
    for (int i = 0; i < j->groups; i++)
        if (!has_member(m, groups, of, i) && ++empty <= WARNED_MOST)
            text_addf(warnings,
                      "groups[%d] has no effect, because earlier entries match all tensors that "
                      "%s matches\n",
                      i, groups->items[i].match);
    if (empty > WARNED_MOST)
        text_addf(warnings, "groups: the same is true of %d other entries\n", empty - WARNED_MOST);
}

status session_check_groups(const job *j, const model *m, text *warnings, err *e)
{
    status result = OK;
    model_param_files f = {.count = 0};
    param_groups groups = {.items = NULL};
    int *of = NULL;
    if (!j->groups) return OK;
    TRY(model_param_files_make(m, F32, &f, e));
    for (int i = 0; i < j->groups; i++) {
        if (matches_any(&f, j->group[i].value.match)) continue;
        result = refuse_pattern(&f, j->group[i].value.match, e);
        job_place_group(j, i, "match", e);
        goto done;
    }
    TRY(find(j, m, &groups, &of, e));
    warn_of_empty(j, m, &groups, of, warnings);
done:
    model_param_files_clear(&f);
    free((param_group *)groups.items);
    free(of);
    return result;
}

// ---- Text

// "[99, 32]" as in the file.
static void add_shape(const safetensors_tensor *t, text *out)
{
    text_addf(out, "[%lld", (long long)t->dim[0]);
    if (t->dims == 2) text_addf(out, ", %lld", (long long)t->dim[1]);
    text_add(out, "]");
}

// Is a parameter kept as NF4?
static bool is_packed(const job *j, const model *m, const param_group *of, int param)
{
    return j->model.storage == STORAGE_NF4 && of->frozen && model_param_is_linear(m, param);
}

static void print_json(const job *j, const model *m, const model_param_files *f,
                       const param_groups *groups, const int *of, text *out)
{
    json_t *all = json_array();
    for (int i = 0; i < f->count; i++) {
        const safetensors_tensor *t = &f->info[i];
        const int g = of[f->file[i].param], entry = param_groups_entry(groups, g);
        json_t *shape = json_array(), *number = entry >= 0 ? json_integer(entry) : json_null();
        for (int d = 0; d < t->dims; d++) json_array_append_new(shape, json_integer(t->dim[d]));
        json_t *one = json_pack("{s:s, s:o, s:o, s:s?, s:b}", "name", f->file[i].name, "shape",
                                shape, "group", number, "match", groups->items[g].match,
                                "trainable", !groups->items[g].frozen);
        if (is_packed(j, m, &groups->items[g], f->file[i].param) &&
            json_object_set_new(one, "storage", json_string("nf4")) != 0)
            text_fail(out);
        if (json_array_append_new(all, one) != 0) text_fail(out);
    }
    char *s = json_dumps(all, JSON_COMPACT | JSON_PRESERVE_ORDER);
    if (!s) text_fail(out);
    text_addf(out, ",\"parameters\":%s", s ? s : "");
    free(s);
    json_decref(all);
}

// Takes the text of a cell; *width becomes its length where it is longer.
static void measure(text *cell, int *width, text *fails)
{
    if ((int)cell->bytes > *width) *width = (int)cell->bytes;
    if (cell->failed) text_fail(fails);
    text_clear(cell);
}

static void add_cell(text *cell, int width, text *out)
{
    text_addf(out, "%-*s  ", width, cell->chars ? cell->chars : "");
    if (cell->failed) text_fail(out);
    text_clear(cell);
}

static void print_table(const job *j, const model *m, const model_param_files *f,
                        const param_groups *groups, const int *of, text *out)
{
    text cell = {0};
    int name = 0, shape = 0, group = 0;
    for (int i = 0; i < f->count; i++) {
        text_add(&cell, f->file[i].name);
        measure(&cell, &name, out);
        add_shape(&f->info[i], &cell);
        measure(&cell, &shape, out);
    }
    for (int g = 0; g < groups->count; g++) {
        param_groups_describe(groups, g, &cell);
        measure(&cell, &group, out);
    }
    text_add(out, "\nparameters:\n");
    for (int i = 0; i < f->count; i++) {
        const int g = of[f->file[i].param];
        text_addf(out, "  %-*s  ", name, f->file[i].name);
        add_shape(&f->info[i], &cell);
        add_cell(&cell, shape, out);
        param_groups_describe(groups, g, &cell);
        add_cell(&cell, group, out);
        text_addf(out, "%s%s\n", groups->items[g].frozen ? "frozen" : "trainable",
                  is_packed(j, m, &groups->items[g], f->file[i].param) ? ", NF4" : "");
    }
}

static void print_trainable(const model *m, const param_groups *groups, const int *of, text *out)
{
    uint64_t trains = 0;
    for (int p = 0; p < m->params; p++)
        if (!groups->items[of[p]].frozen) trains += (uint64_t)m->param[p].count;
    text_addf(out, "trainable: %llu of %llu parameters\n", (unsigned long long)trains,
              (unsigned long long)model_param_count(m));
}

status session_print_groups(const job *j, const model *m, bool json, text *out, err *e)
{
    status result = OK;
    model_param_files f = {.count = 0};
    param_groups groups = {.items = NULL};
    int *of = NULL;
    TRY(model_param_files_make(m, F32, &f, e));
    TRY(find(j, m, &groups, &of, e));
    (json ? print_json : print_table)(j, m, &f, &groups, of, out);
    if (!json) print_trainable(m, &groups, of, out);
done:
    model_param_files_clear(&f);
    free((param_group *)groups.items);
    free(of);
    return result;
}
