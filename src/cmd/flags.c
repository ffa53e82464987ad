// Flags: a command line against a table. Called by commands whose flags are not the keys of a job.
// It deliberately does not know any command.
#include "cmd/flags.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static status texts_add(flag_texts *t, const char *word, err *e)
{
    const char **grown = realloc(t->at, (t->count + 1) * sizeof *grown);
    if (!grown) return err_set(e, E_IO, "out of memory");
    t->at = grown;
    t->at[t->count++] = word;
    return OK;
}

void flag_texts_clear(flag_texts *t)
{
    free(t->at);
    *t = (flag_texts){0};
}

static bool same_name(const char *given, size_t bytes, const char *name)
{
    if (strlen(name) != bytes) return false;
    for (size_t i = 0; i < bytes; i++)
        if (given[i] != name[i] && !(i > 1 && given[i] == '_' && name[i] == '-')) return false;
    return true;
}

static const flag *flag_find(const flag *flags, size_t count, const char *given, size_t bytes)
{
    for (size_t i = 0; i < count; i++)
        if (same_name(given, bytes, flags[i].name)) return &flags[i];
    return NULL;
}

static status unknown(const flag *flags, size_t count, const char *given, size_t bytes, err *e)
{
    const char *names[128];
    size_t n = count < 128 ? count : 128;
    for (size_t i = 0; i < n; i++) names[i] = flags[i].name;
    char word[128];
    snprintf(word, sizeof word, "%.*s", (int)bytes, given);
    const char *near = text_nearest(word, names, n);
    if (near) return err_set(e, E_USAGE, "%s: unknown flag, did you mean %s?", word, near);
    return err_set(e, E_USAGE, "%s: unknown flag, --help lists those that are valid", word);
}

static status value_set(const flag *f, const char *word, void *at, err *e)
{
    switch (f->kind) {
    case FLAG_TEXT:
        *(const char **)at = word;
        return OK;
    case FLAG_TEXTS:
        return texts_add(at, word, e);
    case FLAG_COUNT:
        if (text_to_count(word, at) && *(int64_t *)at >= 0) return OK;
        return err_set(e, E_USAGE, "%s: found %s, valid is a whole number >= 0", f->name, word);
    default:
        if (text_to_double(word, at)) return OK;
        return err_set(e, E_USAGE, "%s: found %s, valid is a number", f->name, word);
    }
}

static bool is_flag(const char *word)
{
    return strncmp(word, "--", 2) == 0 && word[2];
}

// One flag and its values from argv[*i] on; *i ends at its last word.
static status flag_take(const flag *f, int argc, char **argv, int *i, void *values, err *e)
{
    status result = OK;
    void *at = (char *)values + f->offset;
    const char *equals = strchr(argv[*i], '=');
    if (f->kind == FLAG_SWITCH) {
        if (equals) FAIL(E_USAGE, "%s: takes no value", f->name);
        *(bool *)at = true;
        goto done;
    }
    if (equals) {
        TRY(value_set(f, equals + 1, at, e));
        goto done;
    }
    if (*i + 1 >= argc || is_flag(argv[*i + 1]))
        FAIL(E_USAGE, "%s: needs a value (%s)", f->name, f->value);
    do TRY(value_set(f, argv[++*i], at, e));
    while (f->kind == FLAG_TEXTS && *i + 1 < argc && !is_flag(argv[*i + 1]));
done:
    return result;
}

status flags_parse(const flag *flags, size_t count, int argc, char **argv, void *values,
                   flag_texts *rest, err *e)
{
    status result = OK;
    for (int i = 1; i < argc; i++) {
        const char *word = strcmp(argv[i], "-h") == 0 ? "--help" : argv[i];
        if (!is_flag(word)) {
            if (!rest) FAIL(E_USAGE, "%s: not a flag, --help lists those that are valid", word);
            TRY(texts_add(rest, word, e));
            continue;
        }
        size_t bytes = strcspn(word, "=");
        const flag *f = flag_find(flags, count, word, bytes);
        if (!f) {
            result = unknown(flags, count, word, bytes, e);
            goto done;
        }
        TRY(flag_take(f, argc, argv, &i, values, e));
    }
done:
    return result;
}

void flags_help(const flag *flags, size_t count, FILE *out)
{
    for (size_t i = 0; i < count; i++) {
        char left[64];
        snprintf(left, sizeof left, "%s%s%s%s", flags[i].name, flags[i].value ? " " : "",
                 flags[i].value ? flags[i].value : "", flags[i].kind == FLAG_TEXTS ? "..." : "");
        fprintf(out, "  %-32s %s\n", left, flags[i].help);
    }
}
