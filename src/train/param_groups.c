// param_groups.c -- which parameter group each parameter belongs to. See param_groups.h.
#include "train/param_groups.h"

#include "base/alloc.h"

bool param_groups_is_frozen(const void *groups, const char *tensor)
{
    const param_groups *all = groups;
    const int found = param_group_find(all->items, all->count, tensor);
    return found >= 0 && all->items[found].frozen;
}

dtype param_groups_type_of(const void *groups, const char *tensor)
{
    const param_groups *g = groups;
    return g->items[param_group_find(g->items, g->count, tensor)].precision;
}

int param_groups_entry(const param_groups *groups, int index)
{
    // A group of packed weights stands before the group of its entry.
    int own = 0, entry = 0;
    for (int i = 0; i < index; i++) entry += groups->items[i].storage != STORAGE_NF4;
    for (int i = 0; groups->items[i].match; i++) own += groups->items[i].storage != STORAGE_NF4;
    return entry % (own + 1) < own ? entry % (own + 1) : -1;
}

int param_groups_entries(const param_groups *groups)
{
    int most = -1;
    for (int i = 0; i < groups->count; i++) {
        const int entry = param_groups_entry(groups, i);
        if (entry > most) most = entry;
    }
    return most + 2;
}

void param_groups_describe(const param_groups *groups, int index, text *out)
{
    const int entry = param_groups_entry(groups, index);
    if (entry < 0)
        text_add(out, "no group");
    else
        text_addf(out, "groups[%d] (%s)", entry, groups->items[index].match);
}

static status refuse(const model_param *q, const param_groups *groups, const char *const tensor[2],
                     const int group[2], err *e)
{
    status result = OK;
    text where[2] = {{0}};
    for (int i = 0; i < 2; i++) param_groups_describe(groups, group[i], &where[i]);
    for (int i = 0; i < 2; i++) TRY(text_check(&where[i], e));
    FAIL(E_USAGE,
         "groups: %s is in %s and %s in %s, but they are rows of one parameter (%s); valid: "
         "patterns that put them in one group",
         tensor[0], where[0].chars, tensor[1], where[1].chars, q->name);
done:
    for (int i = 0; i < 2; i++) text_clear(&where[i]);
    return result;
}

status param_groups_split(const param_groups *groups, param_groups *out, err *e)
{
    param_group *items;
    int count = 0;
    const status result =
        alloc_array(&items, 2 * (size_t)groups->count, sizeof *items, "the parameter groups", e);
    if (result != OK) return result;
    for (int i = 0; i < groups->count; i++) {
        items[count] = groups->items[i];
        items[count].storage = STORAGE_NF4;
        count += groups->items[i].frozen;
        items[count++] = groups->items[i];
    }
    *out = (param_groups){.items = items, .count = count};
    return OK;
}

// `linear`: the tensor is the weight of a linear layer.
static int find_group(const param_groups *groups, const char *name, bool linear)
{
    const int found = param_group_find(groups->items, groups->count, name);
    return groups->items[found].storage == STORAGE_NF4 && !linear ? found + 1 : found;
}

static status assign(const model_param *q, bool linear, const param_groups *groups, int *out,
                     err *e)
{
    char first[PARAM_NAME_BYTES], name[PARAM_NAME_BYTES];
    for (int i = 0; i < q->decl->pieces; i++) {
        model_param_name_expand(i == 0 ? first : name, q->decl->piece[i].name, q->layer);
        const int group = find_group(groups, i == 0 ? first : name, linear);
        if (i == 0) *out = group;
        if (group != *out)
            return refuse(q, groups, (const char *const[]){first, name}, (const int[]){*out, group},
                          e);
    }
    return OK;
}

status param_groups_assign(const model *m, const param_groups *groups, int *out, err *e)
{
    status result = OK;
    for (int p = 0; groups->count == 1 && p < m->params; p++) out[p] = 0;
    for (int p = 0; groups->count > 1 && p < m->params; p++)
        TRY(assign(&m->param[p], model_param_is_linear(m, p), groups, &out[p], e));
done:
    return result;
}
