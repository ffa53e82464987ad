// lora.c -- matches names of tensors with the modules that adapters are for, as PEFT does. See lora.h.
#include "model/lora.h"

#include "base/text.h"
#include "model/model.h"

#include <ctype.h>
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATTERN_BYTES = 1024 };
static const char ALL_LINEAR[] = "all-linear";

static void free_names(char **names, size_t count)
{
    for (size_t i = 0; i < count; i++) free(names[i]);
    free(names);
}

static void free_numbers(model_lora_number *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) free(numbers[i].name);
    free(numbers);
}

void model_lora_clear(model_lora *l)
{
    free_names(l->targets, l->target_count);
    free_names(l->excluded, l->excluded_count);
    free_names(l->saved, l->saved_count);
    free_numbers(l->ranks, l->rank_count);
    free_numbers(l->alphas, l->alpha_count);
    free(l->layers);
    *l = (model_lora){.rank = 0};
}

// ---- Names and regular expressions

bool model_lora_is_regex(const char *s)
{
    return s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")] != 0;
}

// Python's expression as a POSIX one: groups that capture nothing, \d and \. mean the same in both. False: it has
// something that POSIX lacks, or is too long.
static bool translate(const char *s, const char *before, const char *after, char out[PATTERN_BYTES])
{
    size_t n = (size_t)snprintf(out, PATTERN_BYTES, "%s", before);
    for (; *s && n + strlen(after) + 8 < PATTERN_BYTES; s++) {
        if (strncmp(s, "(?:", 3) == 0) {
            out[n++] = '(';
            s += 2;
        } else if (strncmp(s, "(?", 2) == 0 || strncmp(s, "*?", 2) == 0 ||
                   strncmp(s, "+?", 2) == 0) {
            return false;
        } else if (strncmp(s, "\\d", 2) == 0) {
            n += (size_t)snprintf(out + n, PATTERN_BYTES - n, "[0-9]");
            s++;
        } else if (*s == '\\' && isalnum((unsigned char)s[1]) && s[1] != 'w') {
            return false;
        } else {
            out[n++] = *s;
            if (*s == '\\' && s[1]) out[n++] = *++s;
        }
    }
    snprintf(out + n, PATTERN_BYTES - n, "%s", after);
    return !*s;
}

// Compiles an expression; `ends` matches names of which it is the end behind a dot, too. The caller frees it.
static bool compile(const char *s, bool ends, regex_t *out)
{
    char pattern[PATTERN_BYTES];
    return translate(s, ends ? "^(.*\\.)?(" : "^(", ")$", pattern) &&
           regcomp(out, pattern, REG_EXTENDED | REG_NOSUB) == 0;
}

static bool regex_matches(const char *s, bool ends, const char *module)
{
    regex_t r;
    if (!compile(s, ends, &r)) return false;
    const bool found = regexec(&r, module, 0, NULL, 0) == 0;
    regfree(&r);
    return found;
}

static bool name_matches(const char *name, const char *module)
{
    const size_t n = strlen(module), k = strlen(name);
    return k > 0 && n >= k && strcmp(module + n - k, name) == 0 &&
           (n == k || module[n - k - 1] == '.');
}

static bool any_matches(char *const *names, size_t count, const char *module)
{
    if (count == 1 && model_lora_is_regex(names[0])) return regex_matches(names[0], false, module);
    for (size_t i = 0; i < count; i++)
        if (name_matches(names[i], module)) return true;
    return false;
}

// The name of the tensor's module; false: it is of no module's weight.
static bool module_of(const char *tensor, char out[PARAM_NAME_BYTES])
{
    const size_t bytes = strlen(tensor), end = strlen(".weight");
    if (bytes <= end || bytes >= PARAM_NAME_BYTES || strcmp(tensor + bytes - end, ".weight") != 0)
        return false;
    memcpy(out, tensor, bytes - end);
    out[bytes - end] = 0;
    return true;
}

// Is the tensor of the module, or of one inside it?
static bool is_inside(const char *name, const char *tensor)
{
    char prefix[PARAM_NAME_BYTES];
    for (const char *dot = strchr(tensor, '.'); dot; dot = strchr(dot + 1, '.')) {
        const size_t bytes = (size_t)(dot - tensor);
        if (bytes >= sizeof prefix) break;
        memcpy(prefix, tensor, bytes);
        prefix[bytes] = 0;
        if (name_matches(name, prefix)) return true;
    }
    return false;
}

static bool is_saved(const model_lora *l, const char *tensor)
{
    for (size_t i = 0; i < l->saved_count; i++)
        if (is_inside(l->saved[i], tensor)) return true;
    return false;
}

// ---- Adapters

// The first number of a name behind a dot and another name: that of the layer; -1: none.
static int layer_of(const char *module)
{
    for (const char *dot = strchr(module, '.'); dot; dot = strchr(dot + 1, '.')) {
        const size_t digits = strspn(dot + 1, "0123456789");
        if (digits > 0 && digits < 9 && dot[1 + digits] == '.') return atoi(dot + 1);
    }
    return -1;
}

static bool is_of_layers(const model_lora *l, const char *module)
{
    const int layer = layer_of(module);
    for (size_t i = 0; i < l->layer_count; i++)
        if (l->layers[i] == layer) return true;
    return l->layer_count == 0;
}

static bool is_target(const model_lora *l, const char *module)
{
    const bool all = l->target_count == 1 && strcmp(l->targets[0], ALL_LINEAR) == 0;
    return all || any_matches(l->targets, l->target_count, module);
}

static double number_of(const model_lora_number *numbers, size_t count, const char *module,
                        double otherwise)
{
    for (size_t i = 0; i < count; i++)
        if (model_lora_is_regex(numbers[i].name) ? regex_matches(numbers[i].name, true, module)
                                                 : name_matches(numbers[i].name, module))
            return numbers[i].value;
    return otherwise;
}

graph_adapter model_lora_find(const void *lora, const char *tensor)
{
    const model_lora *l = lora;
    char module[PARAM_NAME_BYTES];
    graph_adapter a = {.rank = 0};
    if (l->rank == 0 || !module_of(tensor, module) || is_saved(l, tensor) ||
        any_matches(l->excluded, l->excluded_count, module) || !is_target(l, module) ||
        !is_of_layers(l, module))
        return a;
    const double rank = number_of(l->ranks, l->rank_count, module, (double)l->rank),
                 alpha = number_of(l->alphas, l->alpha_count, module,
                                   l->alpha > 0 ? l->alpha : (double)l->rank);
    a.rank = (int64_t)rank;
    a.scale = (float)(alpha / (l->rslora ? sqrt(rank) : rank));
    a.dropout = (float)l->dropout;
    return a;
}

bool model_lora_trains(const void *lora, const char *tensor)
{
    const model_lora *l = lora;
    return strstr(tensor, ".lora_A.") || strstr(tensor, ".lora_B.") || is_saved(l, tensor);
}

bool model_lora_trains_param(const model_lora *l, const model_param *p)
{
    char name[PARAM_NAME_BYTES];
    model_param_name_expand(name, p->decl->piece[0].name, p->layer);
    return model_lora_trains(l, name);
}

// ---- Checks

static status check_regex(const char *s, bool ends, err *e)
{
    regex_t r;
    if (!model_lora_is_regex(s)) return OK;
    if (!compile(s, ends, &r))
        return err_set(e, E_USAGE,
                       "found %.*s, which is no regular expression without look-around, lazy "
                       "repeats and classes but \\d and \\w; valid: such an expression, or names",
                       TEXT_CUT(s, 200));
    regfree(&r);
    return OK;
}

static status check_numbers(const model_lora_number *numbers, size_t count, double least, err *e)
{
    status result = OK;
    for (size_t i = 0; i < count; i++) {
        TRY(check_regex(numbers[i].name, true, e));
        if (!(numbers[i].value >= least) ||
            (least == 1 &&
             (numbers[i].value != floor(numbers[i].value) || numbers[i].value > 65536)))
            FAIL(E_USAGE, "%.*s: found %g; valid: %s", TEXT_CUT(numbers[i].name, 100),
                 numbers[i].value, least == 1 ? "a whole number from 1 to 65536" : "a number >= 0");
    }
done:
    return result;
}

status model_lora_check(const model_lora *l, const char **key, err *e)
{
    status result = OK;
    *key = "target_modules";
    if (l->target_count == 0)
        FAIL(E_USAGE, "found no name; valid: all-linear, or names of linear layers, as q_proj");
    if (l->target_count == 1) TRY(check_regex(l->targets[0], false, e));
    if (l->target_count == 1 && model_lora_is_regex(l->targets[0]) && l->layer_count > 0)
        FAIL(E_USAGE, "found an expression beside layers_to_transform; valid: one of the two");
    *key = "exclude_modules";
    if (l->excluded_count == 1) TRY(check_regex(l->excluded[0], false, e));
    *key = "rank_pattern";
    TRY(check_numbers(l->ranks, l->rank_count, 1, e));
    *key = "alpha_pattern";
    TRY(check_numbers(l->alphas, l->alpha_count, 0, e));
done:
    return result;
}

// What a name matches in a model.
typedef struct model_lora_found {
    bool adapter, linear, other;
} model_lora_found;

static model_lora_found look_for(const model *m, const char *name)
{
    model_lora_found f = {.adapter = false};
    char tensor[PARAM_NAME_BYTES], module[PARAM_NAME_BYTES];
    for (int p = 0; p < m->params; p++)
        for (int i = 0; i < m->param[p].decl->pieces; i++) {
            const graph_piece *k = &m->param[p].decl->piece[i];
            if (m->param[p].decl->is_adapter) continue;
            model_param_name_expand(tensor, k->name, m->param[p].layer);
            if (!module_of(tensor, module)) continue;
            const bool matches = model_lora_is_regex(name) ? regex_matches(name, false, module)
                                                           : name_matches(name, module);
            f.adapter |= matches && k->adapter.rank > 0;
            f.linear |= matches && k->takes_adapter;
            f.other |= matches && !k->takes_adapter;
        }
    return f;
}

static const char *last_word(const char *tensor, char module[PARAM_NAME_BYTES])
{
    const char *dot = module_of(tensor, module) ? strrchr(module, '.') : NULL;
    return dot ? dot + 1 : tensor;
}

// Appends the last words of the names of linear layers, each once.
static void list_linears(const model *m, text *out)
{
    char seen[2048] = ",", module[PARAM_NAME_BYTES], entry[PARAM_NAME_BYTES + 2];
    for (int p = 0; p < m->params; p++)
        for (int i = 0; i < m->param[p].decl->pieces; i++) {
            const graph_piece *k = &m->param[p].decl->piece[i];
            if (!k->takes_adapter) continue;
            const char *word = last_word(k->name, module);
            snprintf(entry, sizeof entry, ",%s,", word);
            if (strstr(seen, entry) || strlen(seen) + strlen(entry) >= sizeof seen) continue;
            strcat(seen, entry + 1);
            text_addf(out, "%s%s", out->bytes ? ", " : "", word);
        }
}

static status check_target(const model *m, const char *name, err *e)
{
    status result = OK;
    text valid = {0};
    const model_lora_found f = look_for(m, name);
    if (f.adapter) return OK;
    list_linears(m, &valid);
    TRY(text_check(&valid, e));
    if (f.linear)
        FAIL(E_USAGE,
             "%.*s: exclude_modules, modules_to_save or layers_to_transform leave none of these "
             "layers an adapter",
             TEXT_CUT(name, 100));
    FAIL(E_USAGE, "found %.*s, which %s; valid for a %s: all-linear, or some of %s",
         TEXT_CUT(name, 100),
         f.other ? "is no linear layer inside a block" : "matches no layer of the model",
         m->family->name, valid.chars ? valid.chars : "none");
done:
    text_clear(&valid);
    return result;
}

static status check_saved(const model *m, const char *name, err *e)
{
    char tensor[PARAM_NAME_BYTES];
    bool found = false;
    for (int p = 0; p < m->params; p++) {
        if (m->param[p].decl->is_adapter) continue;
        model_param_name_expand(tensor, m->param[p].decl->piece[0].name, m->param[p].layer);
        const bool inside = is_inside(name, tensor);
        found = found || inside;
        if (inside && m->param[p].block != m->param[p].last_block)
            return err_set(e, E_USAGE,
                           "found %.*s, whose weight is tied to another layer's; valid: modules "
                           "with weights of their own",
                           TEXT_CUT(name, 100));
    }
    return found ? OK
                 : err_set(e, E_USAGE, "found %.*s, which matches no module of the model",
                           TEXT_CUT(name, 100));
}

status model_lora_check_model(const model_lora *l, const model *m, const char **key, err *e)
{
    status result = OK;
    bool any = false;
    *key = "target_modules";
    const bool all = l->target_count == 1 && strcmp(l->targets[0], ALL_LINEAR) == 0;
    for (size_t i = 0; i < l->target_count && !all; i++) TRY(check_target(m, l->targets[i], e));
    for (int p = 0; p < m->params; p++) any = any || m->param[p].decl->is_adapter;
    if (!any)
        FAIL(E_USAGE, "no layer of a %s has an adapter; valid: a model with linear layers",
             m->family->name);
    *key = "modules_to_save";
    for (size_t i = 0; i < l->saved_count; i++) TRY(check_saved(m, l->saved[i], e));
done:
    return result;
}
