// values.c -- reads one value by the type of its key. See values.h. job.c calls it for every row of
// the table. It does not know the origin of a value nor other keys. format.c writes values.
#include "config/values.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/spans.h"
#include "net/address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

status value_absolute(const char *path, char **out, err *e)
{
    status result = OK;
    const char *home = getenv("HOME");
    if (path[0] == '/') return text_copy(path, out, e);
    if (strncmp(path, "~/", 2) == 0 && home) return file_join(home, path + 2, out, e);
    while (strncmp(path, "./", 2) == 0) path += 2;
    char *here = getcwd(NULL, 0);
    if (!here)
        TRY(text_copy(path, out, e));
    else if (strcmp(path, ".") == 0)
        TRY(text_copy(here, out, e));
    else
        TRY(file_join(here, path, out, e));
done:
    free(here);
    return result;
}

// Fails with "found …; valid: …", and with the nearest of the key's words.
static status refuse(const job_key *k, const yaml_node *n, err *e)
{
    text found = {0}, valid = {0};
    const char *near = NULL;
    bool planned = false;
    for (int i = 0; k->planned && n->kind == NODE_SCALAR && k->planned[i]; i++)
        planned = planned || value_same_word(k->planned[i], n->scalar);
    if (yaml_node_is_null(n))
        text_add(&found, "nothing");
    else
        yaml_node_text(n, &found);
    value_describe_valid(k, &valid);
    if (k->words && n->kind == NODE_SCALAR && !planned) {
        size_t count = 0;
        while (k->words[count]) count++;
        near = text_nearest(n->scalar, k->words, count);
    }
    status result = text_check(&found, e);
    if (result == OK) result = text_check(&valid, e);
    if (result == OK)
        result = err_set(e, E_USAGE, "found %.*s%s; valid: %s%s%s%s", TEXT_CUT(found.chars, 200),
                         planned ? ", which is planned, not written yet" : "", valid.chars,
                         near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    text_clear(&found);
    text_clear(&valid);
    return result;
}

bool value_same_word(const char *a, const char *b)
{
    for (; *a && *b; a++, b++) {
        char x = *a == '-' ? '_' : *a, y = *b == '-' ? '_' : *b;
        if (strncasecmp(&x, &y, 1) != 0) return false;
    }
    return *a == *b;
}

// Index of the word that `s` is or is another name of; -1: none.
static int find_word(const job_key *k, const char *s)
{
    for (int i = 0; k->words[i]; i++)
        if (value_same_word(k->words[i], s)) return i;
    for (int a = 0; k->also && k->also[a][0]; a++) {
        if (!value_same_word(k->also[a][0], s)) continue;
        for (int i = 0; k->words[i]; i++)
            if (strcmp(k->words[i], k->also[a][1]) == 0) return i;
    }
    bool flag;
    if ((k->type == KEY_BOOL || key_is_flag(k)) && text_to_bool(s, &flag)) return flag;
    return -1;
}

static status set_word(void *out, const job_key *k, const yaml_node *n, err *e)
{
    status result = OK;
    int i = find_word(k, n->scalar);
    if (i < 0) return refuse(k, n, e);
    if (!out) return OK;
    if (k->type == KEY_BOOL) {
        *(bool *)out = (i == 1) != ((k->flags & KEY_INVERTED) != 0);
    } else if (k->type == KEY_ENUM) {
        unsigned value = (unsigned)i;
        memcpy(out, &value, sizeof value);
    } else {
        free(*(char **)out);
        *(char **)out = NULL;
        TRY(text_copy(k->words[i], (char **)out, e));
    }
done:
    return result;
}

static bool in_range(const job_key *k, double value)
{
    if (value < k->low || value > key_most(k)) return false;
    return !(k->flags & KEY_POSITIVE) || value > k->low;
}

static void store_whole(void *out, const job_key *k, int64_t value)
{
    if (!out) return;
    if (k->type == KEY_INT || k->type == KEY_SWITCH)
        *(int *)out = (int)value;
    else
        memcpy(out, &value, sizeof value);
}

// Reads a size, which may end in B: 25MiB, 25MB.
static bool read_bytes(const char *s, int64_t *out)
{
    char bare[32];
    size_t length = strlen(s);
    bool unit = length > 1 && length < sizeof bare && s[length - 1] == 'B' &&
                strchr("kKMGTi", s[length - 2]);
    if (!unit) return text_to_count(s, out);
    memcpy(bare, s, length);
    bare[length - 1] = 0;
    return text_to_count(bare, out);
}

static status set_whole(void *out, const job_key *k, const yaml_node *n, err *e)
{
    int64_t value;
    bool good = k->type == KEY_DURATION ? text_to_duration_ms(n->scalar, &value)
                : k->type == KEY_BYTES  ? read_bytes(n->scalar, &value)
                                        : text_to_count(n->scalar, &value);
    if (!good || !in_range(k, (double)value)) return refuse(k, n, e);
    store_whole(out, k, value);
    return OK;
}

static status set_special(void *owner, void *out, const job_key *k)
{
    if (k->type == KEY_NUMBER)
        *(double *)out = k->special_value;
    else if (k->type == KEY_PATH || k->type == KEY_SERVER)
        value_free(owner, k);
    else if (k->type == KEY_STEPS)
        memset(out, 0, 2 * sizeof(int64_t));
    else
        store_whole(out, k, (int64_t)k->special_value);
    return OK;
}

static status set_text(char **out, const job_key *k, const yaml_node *n, err *e)
{
    if (!n->scalar[0]) return refuse(k, n, e);
    free(*out);
    *out = NULL;
    return k->type == KEY_PATH ? value_absolute(n->scalar, out, e) : text_copy(n->scalar, out, e);
}

static status set_betas(double *out, const job_key *k, const yaml_node *n, err *e)
{
    const yaml_node *first = n->kind == NODE_LIST ? n->first : NULL;
    const yaml_node *pair[2] = {first, first ? first->next : NULL};
    if (!pair[0] || !pair[1] || pair[1]->next) return refuse(k, n, e);
    double beta[2];
    for (int i = 0; i < 2; i++)
        if (pair[i]->kind != NODE_SCALAR || !text_to_double(pair[i]->scalar, &beta[i]) ||
            beta[i] < 0 || beta[i] >= 1)
            return refuse(k, n, e);
    memcpy(out, beta, sizeof beta);
    return OK;
}

// Reads [from, to], shares of a shard's documents.
static status read_documents(const yaml_node *n, dataset_source *out, err *e)
{
    const yaml_node *from = n->kind == NODE_LIST ? n->first : NULL, *to = from ? from->next : NULL;
    if (to && !to->next && from->kind == NODE_SCALAR && to->kind == NODE_SCALAR &&
        text_to_double(from->scalar, &out->from) && text_to_double(to->scalar, &out->to) &&
        out->from >= 0 && out->from < out->to && out->to <= 1)
        return OK;
    text found = {0};
    yaml_node_text(n, &found);
    err_set(e, E_USAGE,
            "found documents %.*s; valid: [from, to], shares of the documents from 0 to 1",
            TEXT_CUT(found.chars ? found.chars : "", 60));
    text_clear(&found);
    return E_USAGE;
}

// Reads a word of data.format.
static status read_format(const yaml_node *n, int *out, err *e)
{
    const char *word = n->kind == NODE_SCALAR ? n->scalar : NULL;
    for (int i = 0; word && SAMPLES_FORMAT_NAMES[i]; i++)
        if (strcmp(word, SAMPLES_FORMAT_NAMES[i]) == 0) {
            *out = i;
            return OK;
        }
    text valid = {0};
    for (int i = 0; SAMPLES_FORMAT_NAMES[i]; i++)
        text_addf(&valid, "%s%s", i ? ", " : "", SAMPLES_FORMAT_NAMES[i]);
    err_set(e, E_USAGE, "found format %.*s; valid: %s",
            TEXT_CUT(word ? word : "that is no word", 60), valid.chars ? valid.chars : "");
    text_clear(&valid);
    return E_USAGE;
}

// Reads one entry of data.train: a path, or {path, weight, documents, format}.
static status read_part(const job_key *k, const yaml_node *n, dataset_source *out, err *e)
{
    const yaml_node *path = n, *weight = NULL, *documents = NULL, *format = NULL;
    out->weight = 1;
    if (n->kind == NODE_MAP) {
        path = yaml_node_entry(n, "path");
        weight = yaml_node_entry(n, "weight");
        documents = yaml_node_entry(n, "documents");
        format = yaml_node_entry(n, "format");
        for (const yaml_node *c = n->first; c; c = c->next)
            if (c != path && c != weight && c != documents && c != format)
                return err_set(e, E_USAGE, "found key %s; valid: path, weight, documents, format",
                               c->key);
    }
    if (!path || path->kind != NODE_SCALAR || yaml_node_is_null(path) || !path->scalar[0])
        return refuse(k, n, e);
    if (weight && (weight->kind != NODE_SCALAR || !text_to_double(weight->scalar, &out->weight) ||
                   out->weight <= 0))
        return err_set(e, E_USAGE, "found weight %.*s; valid: a number > 0",
                       TEXT_CUT(weight->scalar ? weight->scalar : "that is no number", 60));
    if (documents && read_documents(documents, out, e) != OK) return E_USAGE;
    if (format && read_format(format, &out->format, e) != OK) return E_USAGE;
    bool mock = strcmp(path->scalar, "mock") == 0; // a file of that name is ./mock
    return mock ? text_copy("mock", (char **)&out->path, e)
                : value_absolute(path->scalar, (char **)&out->path, e);
}

static status set_parts(void *owner, const job_key *k, const yaml_node *n, err *e)
{
    status result = OK;
    const yaml_node *first = n->kind == NODE_LIST ? n->first : n;
    size_t count = 0;
    dataset_source *parts = NULL;
    if (!first) return refuse(k, n, e);
    for (const yaml_node *c = first; c; c = n->kind == NODE_LIST ? c->next : NULL) count++;
    TRY(alloc_zeroed(&parts, count, sizeof *parts, "the parts of data", e));
    const yaml_node *c = first;
    for (size_t i = 0; i < count; i++, c = c->next) {
        TRY(read_part(k, c, &parts[i], e));
        if (count > 1 && strcmp(parts[i].path, "mock") == 0)
            FAIL(E_USAGE, "found mock among other parts; valid: mock alone");
    }
    value_free(owner, k);
    *(dataset_source **)((char *)owner + k->offset) = parts;
    *(size_t *)((char *)owner + k->count_offset) = count;
    return OK;
done:
    for (size_t i = 0; parts && i < count; i++) free((char *)parts[i].path);
    free(parts);
    return result;
}

static status set_number(double *out, const job_key *k, const yaml_node *n, err *e)
{
    double value;
    if (!text_to_double(n->scalar, &value) || !in_range(k, value)) return refuse(k, n, e);
    *out = value;
    return OK;
}

// Reads a step, or the first and the last of several: "10-12".
static status set_steps(int64_t *out, const job_key *k, const yaml_node *n, err *e)
{
    status result = OK;
    text first = {0};
    const char *dash = strchr(n->scalar, '-');
    int64_t from = 0, to = 0;
    text_add_bytes(&first, n->scalar, dash ? (size_t)(dash - n->scalar) : strlen(n->scalar));
    TRY(text_check(&first, e));
    if (!text_to_count(first.chars, &from) || !in_range(k, (double)from) ||
        !text_to_count(dash ? dash + 1 : first.chars, &to) || !in_range(k, (double)to) ||
        from > to || to - from >= SPANS_STEPS) {
        result = refuse(k, n, e);
        goto done;
    }
    out[0] = from;
    out[1] = to;
done:
    text_clear(&first);
    return result;
}

static status set_server(char **out, const job_key *k, const yaml_node *n, err *e)
{
    net_endpoint unused;
    if (net_endpoint_parse_server(n->scalar, &unused, NULL) != OK) return refuse(k, n, e);
    return set_text(out, k, n, e);
}

static status read_policy(const job_key *k, const yaml_node *n, policy *out, err *e)
{
    int i = n->kind == NODE_SCALAR && !yaml_node_is_null(n) ? find_word(k, n->scalar) : -1;
    if (i < 0) return refuse(k, n, e);
    *out = *policy_find(k->words[i]);
    return OK;
}

// Reads one word for dp_shard, or a list of two words.
static status set_policies(policies *out, const job_key *k, const yaml_node *n, err *e)
{
    status result = OK;
    const yaml_node *first = n->kind == NODE_LIST ? n->first : n;
    policies both = {.outer = *policy_find("ddp")};
    const yaml_node *second = n->kind == NODE_LIST && first ? first->next : NULL;
    if (!first || (second && second->next)) return refuse(k, n, e);
    if (second) TRY(read_policy(k, first, &both.outer, e));
    TRY(read_policy(k, second ? second : first, &both.inner, e));
    *out = both;
done:
    return result;
}

static bool is_word(const yaml_node *n, const char *word)
{
    return n->kind == NODE_SCALAR && !yaml_node_is_null(n) && value_same_word(n->scalar, word);
}

// Reads the special word, the key's word, or a list of whole numbers.
static status set_sizes(void *owner, const job_key *k, const yaml_node *n, err *e)
{
    const yaml_node *first = n->kind == NODE_LIST ? n->first : n;
    size_t count = 0;
    int64_t size;
    const bool named = k->words && is_word(n, k->words[0]);
    if (is_word(n, k->special)) {
        value_free(owner, k);
        return OK;
    }
    for (const yaml_node *c = first; c; c = n->kind == NODE_LIST ? c->next : NULL, count++)
        if (!named && (c->kind != NODE_SCALAR || !text_to_count(c->scalar, &size) ||
                       !in_range(k, (double)size)))
            return refuse(k, n, e);
    if (!count) return refuse(k, n, e);
    int *sizes = NULL;
    const status result = alloc_zeroed(&sizes, count, sizeof *sizes, "a list of sizes", e);
    if (result != OK) return result;
    const yaml_node *c = first;
    for (size_t i = 0; i < count; i++, c = c->next) {
        sizes[i] = 0;
        if (named) continue;
        text_to_count(c->scalar, &size);
        sizes[i] = (int)size;
    }
    value_free(owner, k);
    *(int **)((char *)owner + k->offset) = sizes;
    *(size_t *)((char *)owner + k->count_offset) = count;
    return OK;
}

status value_set(void *owner, const job_key *k, const yaml_node *n, err *e)
{
    void *out = k->offset == KEY_UNSTORED ? NULL : (char *)owner + k->offset;
    if (k->type == KEY_PARTS) return set_parts(owner, k, n, e);
    if (k->type == KEY_BETAS) return set_betas(out, k, n, e);
    if (k->type == KEY_POLICIES) return set_policies(out, k, n, e);
    if (k->type == KEY_SIZES) return set_sizes(owner, k, n, e);
    if (k->type == KEY_NAMES || k->type == KEY_NUMBERS) {
        const status result = names_set(owner, k, n, e);
        return result == E_USAGE ? refuse(k, n, e) : result;
    }
    if (k->type == KEY_GROUPS) return refuse(k, n, e); // groups_set reads lists
    if (n->kind != NODE_SCALAR) return refuse(k, n, e);
    bool nothing = yaml_node_is_null(n);
    if (k->special && value_same_word(k->special, nothing ? "null" : n->scalar))
        return set_special(owner, out, k);
    if (nothing) return refuse(k, n, e);
    switch (k->type) {
    case KEY_COUNT:
    case KEY_INT:
    case KEY_BYTES:
    case KEY_DURATION:
        return set_whole(out, k, n, e);
    case KEY_NUMBER:
        return set_number(out, k, n, e);
    case KEY_PATH:
    case KEY_TEXT:
        return set_text(out, k, n, e);
    case KEY_STEPS:
        return set_steps(out, k, n, e);
    case KEY_SERVER:
        return set_server(out, k, n, e);
    case KEY_SWITCH:
        if (find_word(k, n->scalar) < 0) return set_whole(out, k, n, e);
        store_whole(out, k, find_word(k, n->scalar));
        return OK;
    default:
        return set_word(out, k, n, e);
    }
}
