// variable_checks.c -- variables of the environment that are misnamed, have values that nobody reads, or slow a run. The facts
// are in facts.c. The table of this room calls the probes.
#include "doctor/environment/environment.h"

#include "base/text.h"
#include "doctor/doctor.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { NAME_BYTES = 128 };

bool environment_is_set(const doctor_context *c, const char *name, const char **value)
{
    *value = doctor_variable(c, name);
    return *value && **value;
}

bool environment_number(const doctor_context *c, const char *name, int64_t *out)
{
    const char *value;
    return environment_is_set(c, name, &value) && strspn(value, "0123456789") == strlen(value) &&
           text_to_count(value, out);
}

// Returns whether a list such as "LL, LL128" has the word of `bytes` bytes.
static bool has_word(const char *list, const char *word, size_t bytes, bool exact)
{
    while (*list) {
        const size_t length = strcspn(list, ",");
        if (length == bytes &&
            (exact ? strncmp(list, word, bytes) : strncasecmp(list, word, bytes)) == 0)
            return true;
        list += length;
        list += strspn(list, ", ");
    }
    return false;
}

// "^LL128;allreduce:LL,Simple": words between commas, of functions between semicolons.
static bool are_words(const char *list, const char *value)
{
    while (*value) {
        const size_t function = strcspn(value, ":;,");
        if (value[function] == ':') value += function + 1;
        value += *value == '^';
        const size_t bytes = strcspn(value, ",;");
        if (!has_word(list, value, bytes, false)) return false;
        value += bytes + (value[bytes] != 0);
    }
    return true;
}

static bool is_valid(const variable_fact *f, const char *value)
{
    int64_t number;
    switch (f->kind) {
    case VARIABLE_WORD:
    case VARIABLE_EXACT_WORD:
        return has_word(f->valid, value, strlen(value), f->kind == VARIABLE_EXACT_WORD);
    case VARIABLE_WORDS:
        return are_words(f->valid, value);
    case VARIABLE_NUMBER:
        return text_to_count(value, &number) && number >= f->least && number <= f->most;
    default:
        return true;
    }
}

status environment_probe_values(const doctor_context *c, doctor_findings *out, err *e)
{
    (void)e;
    const char *value;
    for (const variable_fact *f = VARIABLE_FACTS; f->code; f++)
        if (strcmp(f->code, out->check->code) == 0 && environment_is_set(c, f->name, &value) &&
            !is_valid(f, value))
            doctor_find_as(out, f->severity, "where", f->name, "value", value, "valid", f->valid,
                           "effect", f->effect, NULL);
    return OK;
}

// Returns whether the variable of a fact is on, or has the value that stands in its name: "NCCL_DEBUG=INFO".
static bool is_on(const doctor_context *c, const variable_fact *f, char name[NAME_BYTES],
                  const char **value)
{
    bool on = false;
    snprintf(name, NAME_BYTES, "%s", f->name);
    char *wanted = strchr(name, '=');
    if (wanted) *wanted++ = 0;
    if (!environment_is_set(c, name, value)) return false;
    if (wanted) return strcasecmp(*value, wanted) == 0;
    return f->kind == VARIABLE_SET || (text_to_bool(*value, &on) && on);
}

status environment_probe_on(const doctor_context *c, doctor_findings *out, err *e)
{
    (void)e;
    char name[NAME_BYTES];
    const char *value;
    for (const variable_fact *f = VARIABLE_FACTS; f->code; f++)
        if (strcmp(f->code, out->check->code) == 0 && is_on(c, f, name, &value))
            doctor_find_as(out, f->severity, "where", name, "value", value, "effect",
                           f->effect ? f->effect : "", NULL);
    return OK;
}

// ---- Names

typedef struct variable_names {
    const char *prefix;
    const char *const *names;
    const char *reader; // the program that reads them
} variable_names;

static const variable_names PREFIXES[] = {
    {"TORCH_NCCL_", TORCH_NCCL_NAMES, "PyTorch"},
    {"NCCL_", NCCL_NAMES, "NCCL"},
    {"TRIREME_", TRIREME_NAMES, "Trireme"},
};

static bool is_known(const char *name, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(name, *names) == 0) return true;
    return false;
}

static void look_at_name(doctor_findings *out, const variable_names *p, const char *name)
{
    char shown[NAME_BYTES], nearest[2 * NAME_BYTES] = "";
    const size_t bytes = strlen(p->prefix), length = strcspn(name, "=");
    snprintf(shown, sizeof shown, "%.*s", (int)(length < sizeof shown ? length : sizeof shown - 1),
             name);
    if (length <= bytes || is_known(shown + bytes, p->names)) return;
    if (strncmp(shown, "TRIREME_STAND_IN_", 17) == 0) return; // of tests; none is misspelt
    size_t count = 0;
    while (p->names[count]) count++;
    const char *near = text_nearest(shown + bytes, p->names, count);
    if (near) snprintf(nearest, sizeof nearest, "; did you mean %s%s?", p->prefix, near);
    doctor_find(out, "where", shown, "reader", p->reader, "nearest", nearest, NULL);
}

status environment_probe_unknown(const doctor_context *c, doctor_findings *out, err *e)
{
    (void)e;
    enum { COUNT = sizeof PREFIXES / sizeof *PREFIXES };
    for (char *const *v = c->environment; v && *v; v++)
        for (int i = 0; i < COUNT; i++)
            if (strncmp(*v, PREFIXES[i].prefix, strlen(PREFIXES[i].prefix)) == 0) {
                look_at_name(out, &PREFIXES[i], *v);
                break;
            }
    return OK;
}

status environment_probe_renamed(const doctor_context *c, doctor_findings *out, err *e)
{
    (void)e;
    const char *value;
    for (const variable_rename *r = VARIABLE_RENAMES; r->before; r++)
        if (environment_is_set(c, r->before, &value))
            doctor_find(out, "where", r->before, "now", r->now, NULL);
    return OK;
}

// A file of variables, as of docker --env-file, keeps the quotes that a shell removes.
status environment_probe_quotes(const doctor_context *c, doctor_findings *out, err *e)
{
    (void)e;
    static const char *const prefixes[] = {"NCCL_", "GLOO_",   "TORCH_", "CUDA_",
                                           "UCX_",  "MASTER_", "OMP_",   "TRIREME_"};
    char name[NAME_BYTES];
    for (char *const *v = c->environment; v && *v; v++)
        for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
            const char *value = strchr(*v, '=');
            if (!value || strncmp(*v, prefixes[i], strlen(prefixes[i])) != 0) continue;
            const size_t bytes = strlen(++value);
            if (!bytes ||
                (!strchr("\"' \t", value[0]) && !isspace((unsigned char)value[bytes - 1])))
                continue;
            snprintf(name, sizeof name, "%.*s", (int)strcspn(*v, "="), *v);
            doctor_find(out, "where", name, "value", value, NULL);
        }
    return OK;
}

status environment_probe_files(const doctor_context *c, doctor_findings *out, err *e)
{
    static const char *const variables[] = {"NCCL_CONF_FILE", "NCCL_TOPO_FILE", "NCCL_GRAPH_FILE",
                                            "TRIREME_SECRET_FILE"};
    status result = OK;
    char *content = NULL;
    bool denied;
    const char *value;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        if (!environment_is_set(c, variables[i], &value)) continue;
        TRY(doctor_read(c, value, &content, &denied, e));
        if (!content)
            doctor_find_as(
                out, strncmp(variables[i], "TRIREME_", 8) == 0 ? DOCTOR_ERROR : DOCTOR_WARNING,
                "where", variables[i], "file", value, "problem",
                denied ? "may not be read by this user" : "cannot be read", NULL);
        free(content);
        content = NULL;
    }
done:
    return result;
}

// The first line that sets a variable: NAME=VALUE.
static bool find_setting(char *content, char name[NAME_BYTES])
{
    for (char *rest = content, *line; rest && (line = strsep(&rest, "\n"));)
        if (*line != '#' && strchr(line, '=')) {
            snprintf(name, NAME_BYTES, "%.*s", (int)strcspn(line, "="), line);
            return true;
        }
    return false;
}

status environment_probe_conf(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char own[300], name[NAME_BYTES], *content = NULL;
    bool denied;
    const char *home = doctor_variable(c, "HOME");
    snprintf(own, sizeof own, "%s/.nccl.conf", home ? home : "");
    const char *const files[] = {"/etc/nccl.conf", own};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        TRY(doctor_read(c, files[i], &content, &denied, e));
        if (content && find_setting(content, name))
            doctor_find(out, "where", files[i], "name", name, NULL);
        free(content);
        content = NULL;
    }
done:
    return result;
}
