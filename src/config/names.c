// names.c -- values that are lists of names, and maps of names to numbers: read, written and freed. values.c and format.c
// call it for the keys of those types. It does not know what the names are of.
#include "config/values.h"

#include "base/alloc.h"

#include <stdlib.h>

static size_t *count_of(void *owner, const job_key *k)
{
    return (size_t *)((char *)owner + k->count_offset);
}

static char ***names_of(void *owner, const job_key *k)
{
    return (char ***)((char *)owner + k->offset);
}

static model_lora_number **numbers_of(void *owner, const job_key *k)
{
    return (model_lora_number **)((char *)owner + k->offset);
}

void names_free(void *owner, const job_key *k)
{
    size_t *count = count_of(owner, k);
    char **names = k->type == KEY_NAMES ? *names_of(owner, k) : NULL;
    model_lora_number *numbers = k->type == KEY_NUMBERS ? *numbers_of(owner, k) : NULL;
    for (size_t i = 0; i < *count; i++) free(names ? names[i] : numbers[i].name);
    if (k->type == KEY_NAMES)
        *names_of(owner, k) = NULL;
    else
        *numbers_of(owner, k) = NULL;
    free(names);
    free(numbers);
    *count = 0;
}

bool names_are_set(const void *owner, const job_key *k)
{
    return *(const size_t *)((const char *)owner + k->count_offset) > 0;
}

static bool is_name(const yaml_node *n)
{
    return n->kind == NODE_SCALAR && !yaml_node_is_null(n) && n->scalar[0];
}

static size_t count_children(const yaml_node *n)
{
    size_t count = 0;
    for (const yaml_node *c = n->first; c; c = c->next) count++;
    return count;
}

static status set_names(void *owner, const job_key *k, const yaml_node *n, err *e)
{
    status result = OK;
    const bool is_list = n->kind == NODE_LIST;
    const size_t items = is_list ? count_children(n) : 1;
    const yaml_node *c = is_list ? n->first : n;
    char **names = NULL;
    if (!is_list && !is_name(n)) return E_USAGE;
    TRY(alloc_zeroed(&names, items + 1, sizeof *names, "a list of names", e));
    names_free(owner, k);
    *names_of(owner, k) = names;
    for (size_t i = 0; i < items; i++, c = c->next) {
        if (!is_name(c)) return E_USAGE;
        TRY(text_copy(c->scalar, &names[i], e));
        (*count_of(owner, k))++;
    }
done:
    return result;
}

static status set_numbers(void *owner, const job_key *k, const yaml_node *n, err *e)
{
    status result = OK;
    model_lora_number *numbers = NULL;
    if (n->kind != NODE_MAP) return E_USAGE;
    TRY(alloc_zeroed(&numbers, count_children(n) + 1, sizeof *numbers, "a map of numbers", e));
    names_free(owner, k);
    *numbers_of(owner, k) = numbers;
    for (const yaml_node *c = n->first; c; c = c->next) {
        model_lora_number *x = &numbers[*count_of(owner, k)];
        if (!is_name(c) || !text_to_double(c->scalar, &x->value)) return E_USAGE;
        TRY(text_copy(c->key, &x->name, e));
        (*count_of(owner, k))++;
    }
done:
    return result;
}

status names_set(void *owner, const job_key *k, const yaml_node *n, err *e)
{
    return (k->type == KEY_NAMES ? set_names : set_numbers)(owner, k, n, e);
}

void names_format(const void *owner, const job_key *k, text *out)
{
    const size_t count = *(const size_t *)((const char *)owner + k->count_offset);
    const void *items = (const char *)owner + k->offset;
    const bool is_list = k->type == KEY_NAMES;
    char *const *names = is_list ? *(char **const *)items : NULL;
    const model_lora_number *numbers = is_list ? NULL : *(model_lora_number *const *)items;
    if (is_list && count == 1) {
        yaml_node_quote(names[0], out);
        return;
    }
    text_add(out, is_list ? "[" : "{");
    for (size_t i = 0; i < count; i++) {
        text_add(out, i ? ", " : "");
        yaml_node_quote(is_list ? names[i] : numbers[i].name, out);
        if (is_list) continue;
        text_add(out, ": ");
        text_add_number(out, numbers[i].value);
    }
    text_add(out, is_list ? "]" : "}");
}
