// format.c -- writes values of struct job as text for explain, job.yaml, help and errors. values.c
// reads each form back to the same value. See values.h.
#include "base/spans.h"
#include "config/private.h"
#include "config/values.h"

#include <stdlib.h>
#include <string.h>

static const void *value_of(const void *owner, const job_key *k)
{
    return (const char *)owner + k->offset;
}

static int64_t whole_of(const void *owner, const job_key *k)
{
    int64_t value;
    if (k->type == KEY_INT) return *(const int *)value_of(owner, k);
    memcpy(&value, value_of(owner, k), sizeof value);
    return value;
}

// Returns whether the value is the one that k->special names.
static bool is_special(const void *owner, const job_key *k)
{
    const void *value = value_of(owner, k);
    if (k->type == KEY_NUMBER) return *(const double *)value == k->special_value;
    if (k->type == KEY_STEPS) return *(const int64_t *)value == 0;
    if (k->type == KEY_PATH || k->type == KEY_SERVER) return *(char *const *)value == NULL;
    return k->type < KEY_NUMBER && (double)whole_of(owner, k) == k->special_value;
}

bool value_is_set(const void *owner, const job_key *k)
{
    if (!(k->flags & KEY_OPTIONAL)) return true;
    switch (k->type) {
    case KEY_PATH:
        return *(char *const *)value_of(owner, k) != NULL;
    case KEY_PARTS:
        return *(dataset_source *const *)value_of(owner, k) != NULL;
    case KEY_GROUPS:
        return *(job_group *const *)value_of(owner, k) != NULL;
    case KEY_NAMES:
    case KEY_NUMBERS:
        return names_are_set(owner, k);
    default:
        return !is_special(owner, k);
    }
}

static void format_unit(int64_t value, int64_t unit, const char *with, const char *without,
                        text *out)
{
    if (value % unit == 0)
        text_addf(out, "%lld%s", (long long)(value / unit), with);
    else
        text_addf(out, "%lld%s", (long long)value, without);
}

static void format_parts(const void *owner, const job_key *k, text *out)
{
    const dataset_source *parts = *(dataset_source *const *)value_of(owner, k);
    size_t count = *(const size_t *)((const char *)owner + k->count_offset);
    bool plain = true;
    for (size_t i = 0; i < count; i++)
        plain = plain && parts[i].weight == 1 && parts[i].to == 0 && parts[i].format == 0;
    bool bare = count == 1 && plain;
    text_add(out, bare ? "" : "[");
    for (size_t i = 0; i < count; i++) {
        text_add(out, i ? ", " : "");
        text_add(out, plain ? "" : "{path: ");
        yaml_node_quote(parts[i].path, out);
        if (plain) continue;
        text_add(out, ", weight: ");
        text_add_number(out, parts[i].weight);
        if (parts[i].to > 0) {
            text_add(out, ", documents: [");
            text_add_number(out, parts[i].from);
            text_add(out, ", ");
            text_add_number(out, parts[i].to);
            text_add(out, "]");
        }
        if (parts[i].format) text_addf(out, ", format: %s", SAMPLES_FORMAT_NAMES[parts[i].format]);
        text_add(out, "}");
    }
    text_add(out, bare ? "" : "]");
}

static void format_word(const void *owner, const job_key *k, text *out)
{
    unsigned value;
    if (k->type == KEY_BOOL) {
        const bool stored = *(const bool *)value_of(owner, k);
        text_add(out, k->words[k->flags & KEY_INVERTED ? !stored : stored]);
    } else if (k->type == KEY_SWITCH) {
        const int number = *(const int *)value_of(owner, k);
        if (number < 2)
            text_add(out, k->words[number]);
        else
            text_addf(out, "%d", number);
    } else if (k->type == KEY_ENUM) {
        memcpy(&value, value_of(owner, k), sizeof value);
        text_add(out, k->words[value]);
    } else {
        text_add(out, *(char *const *)value_of(owner, k));
    }
}

static void format_betas(const double *beta, text *out)
{
    text_add(out, "[");
    text_add_number(out, beta[0]);
    text_add(out, ", ");
    text_add_number(out, beta[1]);
    text_add(out, "]");
}

static void format_policies(const policies *p, text *out)
{
    bool one = strcmp(p->outer.name, "ddp") == 0;
    if (one)
        text_add(out, p->inner.name);
    else
        text_addf(out, "[%s, %s]", p->outer.name, p->inner.name);
}

static void format_sizes(const void *owner, const job_key *k, text *out)
{
    const int *sizes = *(int *const *)value_of(owner, k);
    size_t count = *(const size_t *)((const char *)owner + k->count_offset);
    if (k->words && count == 1 && sizes[0] == 0) {
        text_add(out, k->words[0]);
        return;
    }
    text_add(out, count ? "[" : k->special);
    for (size_t i = 0; i < count; i++) text_addf(out, i ? ", %d" : "%d", sizes[i]);
    text_add(out, count ? "]" : "");
}

static void format_steps(const int64_t *step, text *out)
{
    text_addf(out, step[0] == step[1] ? "%lld" : "%lld-%lld", (long long)step[0],
              (long long)step[1]);
}

void value_format(const void *owner, const job_key *k, text *out)
{
    if (k->offset == KEY_UNSTORED) {
        text_add(out, k->fallback);
        return;
    }
    if (k->special && is_special(owner, k)) {
        text_add(out, k->special);
        return;
    }
    switch (k->type) {
    case KEY_COUNT:
    case KEY_INT:
        text_addf(out, "%lld", (long long)whole_of(owner, k));
        break;
    case KEY_BYTES:
        format_unit(whole_of(owner, k), 1 << 20, "Mi", "", out);
        break;
    case KEY_DURATION:
        format_unit(whole_of(owner, k), 1000, "s", "ms", out);
        break;
    case KEY_NUMBER:
        text_add_number(out, *(const double *)value_of(owner, k));
        break;
    case KEY_PATH:
    case KEY_TEXT:
    case KEY_SERVER:
        yaml_node_quote(*(char *const *)value_of(owner, k), out);
        break;
    case KEY_PARTS:
        format_parts(owner, k, out);
        break;
    case KEY_BETAS:
        format_betas(value_of(owner, k), out);
        break;
    case KEY_POLICIES:
        format_policies(value_of(owner, k), out);
        break;
    case KEY_SIZES:
        format_sizes(owner, k, out);
        break;
    case KEY_GROUPS:
        groups_format(owner, out);
        break;
    case KEY_NAMES:
    case KEY_NUMBERS:
        names_format(owner, k, out);
        break;
    case KEY_STEPS:
        format_steps(value_of(owner, k), out);
        break;
    default:
        format_word(owner, k, out);
    }
}

void value_free(void *owner, const job_key *k)
{
    if (k->offset == KEY_UNSTORED) return;
    if (k->type == KEY_GROUPS) {
        groups_free(owner);
    } else if (k->type == KEY_NAMES || k->type == KEY_NUMBERS) {
        names_free(owner, k);
    } else if (k->type == KEY_WORD || k->type == KEY_PATH || k->type == KEY_TEXT ||
               k->type == KEY_SERVER) {
        char **s = (char **)((char *)owner + k->offset);
        free(*s);
        *s = NULL;
    } else if (k->type == KEY_PARTS) {
        dataset_source **parts = (dataset_source **)((char *)owner + k->offset);
        size_t *count = (size_t *)((char *)owner + k->count_offset);
        for (size_t i = 0; i < *count; i++) free((char *)(*parts)[i].path);
        free(*parts);
        *parts = NULL;
        *count = 0;
    } else if (k->type == KEY_SIZES) {
        int **sizes = (int **)((char *)owner + k->offset);
        free(*sizes);
        *sizes = NULL;
        *(size_t *)((char *)owner + k->count_offset) = 0;
    }
}

static void describe_whole(const job_key *k, text *out)
{
    const double most = key_most(k);
    const long long high = most < 9.2e18 ? (long long)most : INT64_MAX;
    text_addf(out, "a whole number from %lld to %lld", (long long)k->low, high);
}

static void describe_number(const job_key *k, text *out)
{
    const bool above = k->flags & KEY_POSITIVE, bounded = k->high < 1e308;
    text_add(out, above ? "a number > " : bounded ? "a number from " : "a number >= ");
    text_add_number(out, k->low);
    if (!bounded) return;
    text_add(out, above ? ", at most " : " to ");
    text_add_number(out, k->high);
}

void value_describe_valid(const job_key *k, text *out)
{
    if (k->special) text_addf(out, "%s, or ", k->special);
    switch (k->type) {
    case KEY_COUNT:
    case KEY_INT:
    case KEY_BYTES:
        describe_whole(k, out);
        break;
    case KEY_DURATION:
        text_addf(out, "a duration such as 30s or 500ms, at most %.0fs, 0 for off",
                  key_most(k) * 1e-3);
        break;
    case KEY_NUMBER:
        describe_number(k, out);
        break;
    case KEY_PATH:
        text_add(out, "a path");
        break;
    case KEY_TEXT:
        text_add(out, "a pattern of tensor names, as \"*.bias\"");
        break;
    case KEY_GROUPS:
        text_add(out, "a list of parameter groups, as [{match: \"*.bias\", weight_decay: 0}]");
        break;
    case KEY_PARTS:
        text_add(out, "a path, mock, or a list of paths or {path, weight, documents, format}");
        break;
    case KEY_BETAS:
        text_add(out, "two numbers from 0 to below 1, as [0.9, 0.95]");
        break;
    case KEY_SIZES:
        if (k->words) text_addf(out, "%s, or ", k->words[0]);
        text_addf(out, "a list of whole numbers from %.0f to %.0f, as [6, 6]", k->low, k->high);
        break;
    case KEY_NAMES:
        text_add(out,
                 k->fallback
                     ? "all-linear, a list of names as [q_proj, v_proj], or one regular expression"
                     : "a list of names, as [lm_head]");
        break;
    case KEY_NUMBERS:
        text_add(out, "a map of names to numbers, as {down_proj: 32}");
        break;
    case KEY_STEPS:
        text_addf(out, "a step as 10, or a range as 10-12 of at most %d steps", SPANS_STEPS);
        break;
    case KEY_SERVER:
        text_add(out, "PORT or ADDRESS:PORT with a port from 0 to 65535");
        break;
    case KEY_SWITCH:
        text_addf(out, "%s, %s, or ", k->words[0], k->words[1]);
        describe_whole(k, out);
        break;
    default:
        for (int i = 0; k->words[i]; i++) text_addf(out, i ? ", %s" : "%s", k->words[i]);
        if (k->type == KEY_POLICIES) text_add(out, ", or two of them as [OUTER, INNER]");
    }
}
