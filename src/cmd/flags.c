// flags.c -- parses a command line by a table of flags. See flags.h. Called by every command that
// has flags of its own. Deliberately knows no command.
#include "cmd/flags.h"

#include "base/alloc.h"
#include "base/text.h"
#include "cmd/help.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static status texts_add(flag_texts *t, const char *word, err *e)
{
    const status result =
        alloc_grow(&t->items, &t->room, t->count + 1, sizeof *t->items, "the arguments", e);
    if (result == OK) t->items[t->count++] = word;
    return result;
}

void flag_texts_clear(flag_texts *t)
{
    free(t->items);
    *t = (flag_texts){0};
}

// Returns whether the name, of at least so many characters, begins with these of `given`.
static bool same_begin(const char *given, size_t bytes, const char *name)
{
    for (size_t i = 0; i < bytes; i++)
        if (given[i] != name[i] && !(i > 1 && given[i] == '_' && name[i] == '-')) return false;
    return true;
}

static bool same_name(const char *given, size_t bytes, const char *name)
{
    return strlen(name) == bytes && same_begin(given, bytes, name);
}

static bool has_letter(const flag *f)
{
    return f->name[1] != '-';
}

const char *flag_long_name(const flag *f)
{
    return f->name + (has_letter(f) ? strlen("-x, ") : 0);
}

const flag *flag_find(const flag *flags, size_t count, const char *word)
{
    if (word[0] != '-' || !word[1]) return NULL;
    for (size_t i = 0; i < count; i++) {
        if (word[1] != '-' && has_letter(&flags[i]) && flags[i].name[1] == word[1])
            return &flags[i];
        if (word[1] == '-' && same_name(word, strcspn(word, "="), flag_long_name(&flags[i])))
            return &flags[i];
    }
    return NULL;
}

// argparse's rule: the beginning of a long name stands for the name where no other flag begins so. A null *out: none does.
static status find_abbreviated(const flag *flags, size_t count, const char *word, const flag **out,
                               err *e)
{
    status result = OK;
    text names = {0};
    size_t found = 0;
    const size_t bytes = strcspn(word, "=");
    *out = flag_find(flags, count, word);
    if (*out || word[1] != '-' || bytes <= 2) return OK;
    for (size_t i = 0; i < count; i++) {
        const char *name = flag_long_name(&flags[i]);
        if (strlen(name) < bytes || !same_begin(word, bytes, name)) continue;
        text_addf(&names, "%s%s", found++ ? ", " : "", name);
        *out = &flags[i];
    }
    TRY(text_check(&names, e));
    if (found > 1) FAIL(E_USAGE, "%.*s: it may be %s", (int)bytes, word, names.chars);
done:
    text_clear(&names);
    return result;
}

static status unknown(const flag *flags, size_t count, const char *given, err *e)
{
    const char *names[128];
    size_t n = count < 128 ? count : 128;
    for (size_t i = 0; i < n; i++) names[i] = flag_long_name(&flags[i]);
    char word[128];
    snprintf(word, sizeof word, "%.*s", (int)strcspn(given, "="), given);
    const char *near = text_nearest(word, names, n);
    if (near) return err_set(e, E_USAGE, "%s: unknown flag, did you mean %s?", word, near);
    return err_set(e, E_USAGE, "%s: unknown flag, --help lists those that are valid", word);
}

static status value_set(const flag *f, const char *word, void *value, err *e)
{
    switch (f->kind) {
    case FLAG_TEXT:
        *(const char **)value = word;
        return OK;
    case FLAG_TEXTS:
        return texts_add(value, word, e);
    case FLAG_COUNT:
        if (text_to_count(word, value) && *(int64_t *)value >= 0) return OK;
        return err_set(e, E_USAGE, "%s: found %s, valid is a whole number from 0 to %lld",
                       flag_long_name(f), word, (long long)INT64_MAX);
    default:
        if (text_to_double(word, value)) return OK;
        return err_set(e, E_USAGE, "%s: found %s, valid is a number", flag_long_name(f), word);
    }
}

static bool is_flag(const char *word)
{
    return strncmp(word, "--", 2) == 0 && word[2];
}

// Reads the flag argv[*i] and its values, and moves *i to its last word. With values NULL the
// values are dropped.
static status flag_take(const flag *f, int argc, char **argv, int *i, void *values, err *e)
{
    status result = OK;
    union {
        const char *word;
        int64_t count;
        double number;
        bool on;
    } unused;
    flag_texts texts = {0};
    void *nowhere = f->kind == FLAG_TEXTS ? (void *)&texts : (void *)&unused;
    void *value = values ? (char *)values + f->offset : nowhere;
    const bool letter = argv[*i][1] != '-';
    const char *given = letter ? argv[*i] + 2 : strchr(argv[*i], '=');
    if (f->kind == FLAG_SWITCH) {
        if (given && *given) FAIL(E_USAGE, "%s: takes no value", flag_long_name(f));
        *(bool *)value = true;
        goto done;
    }
    if (given && (*given || !letter)) {
        TRY(value_set(f, given + (letter ? 0 : 1), value, e));
        goto done;
    }
    if (*i + 1 >= argc || is_flag(argv[*i + 1]))
        FAIL(E_USAGE, "%s: needs a value (%s)", flag_long_name(f), f->value);
    do TRY(value_set(f, argv[++*i], value, e));
    while (f->kind == FLAG_TEXTS && *i + 1 < argc && !is_flag(argv[*i + 1]));
done:
    flag_texts_clear(&texts);
    return result;
}

status flags_parse(const flag *flags, size_t count, int argc, char **argv, void *values,
                   flag_texts *rest, err *e)
{
    status result = OK;
    for (int i = 1; i < argc; i++) {
        const flag *f = flag_find(flags, count, argv[i]);
        if (!f && is_flag(argv[i])) {
            result = unknown(flags, count, argv[i], e);
            goto done;
        }
        if (f) {
            TRY(flag_take(f, argc, argv, &i, values, e));
        } else {
            if (!rest) FAIL(E_USAGE, "%s: not a flag, --help lists those that are valid", argv[i]);
            TRY(texts_add(rest, argv[i], e));
        }
    }
done:
    return result;
}

status flags_parse_leading(const flag *flags, size_t count, int argc, char **argv, void *values,
                           int *first, err *e)
{
    status result = OK;
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        const flag *f = NULL;
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        TRY(find_abbreviated(flags, count, argv[i], &f, e));
        if (!f) {
            result = unknown(flags, count, argv[i], e);
            goto done;
        }
        TRY(flag_take(f, argc, argv, &i, values, e));
    }
    *first = i;
done:
    return result;
}

status flags_read_environment(const flag *flags, size_t count, const char *prefix, void *values,
                              err *e)
{
    status result = OK;
    text name = {0};
    for (size_t i = 0; i < count; i++) {
        text_clear(&name);
        text_add(&name, prefix);
        for (const char *c = flag_long_name(&flags[i]) + 2; *c; c++) {
            const char upper = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
            text_add_bytes(&name, &upper, 1);
        }
        TRY(text_check(&name, e));
        const char *given = getenv(name.chars);
        if (!given || !*given) continue;
        void *value = (char *)values + flags[i].offset;
        if (flags[i].kind != FLAG_SWITCH)
            result = value_set(&flags[i], given, value, e);
        else if (!text_to_bool(given, value))
            result = err_set(e, E_USAGE, "found %s, valid are true and false", given);
        if (result != OK) {
            err_prefix(e, "%s: ", name.chars);
            goto done;
        }
    }
done:
    text_clear(&name);
    return result;
}

status flags_take(const flag *flags, size_t count, int *argc, char **argv, void *values, err *e)
{
    status result = OK;
    int rest = 1;
    for (int i = 1; i < *argc; i++) {
        const flag *f = flag_find(flags, count, argv[i]);
        if (f)
            TRY(flag_take(f, *argc, argv, &i, values, e));
        else
            argv[rest++] = argv[i];
    }
    *argc = rest;
done:
    return result;
}

void flags_help(const flag *flags, size_t count, FILE *out)
{
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "  %s%s%s%s\n", flags[i].name, flags[i].value ? " " : "",
                flags[i].value ? flags[i].value : "", flags[i].kind == FLAG_TEXTS ? "..." : "");
        help_wrap(flags[i].help, 8, out);
    }
}

status flags_read_word(const char *name, const char *word, const char *const *words, int *out,
                       err *e)
{
    text valid = {0};
    *out = 0;
    if (!word) return OK;
    for (int i = 0; words[i]; i++) {
        text_addf(&valid, "%s%s", i ? ", " : "", words[i]);
        if (strcmp(word, words[i]) != 0) continue;
        *out = i;
        text_clear(&valid);
        return OK;
    }
    err_set(e, E_USAGE, "%s: found %.*s; valid: %s", name, TEXT_CUT(word, 60),
            valid.chars ? valid.chars : "");
    text_clear(&valid);
    return E_USAGE;
}
