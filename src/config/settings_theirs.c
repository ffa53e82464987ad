// settings_theirs.c -- reads the configurations of other systems that options name: "--deepspeed FILE", and values of
// theirs, "--deepspeed.gradient_clipping 1.0". job.c and translate.c call it. It does not know what their keys mean.
#include "config/settings.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

// An option of another system's configuration.
typedef struct dialect_entry {
    const dialect *of;
    const char *key; // of theirs [key_bytes]; NULL: it names a file
    size_t key_bytes;
    const char *value; // NULL: missing
} dialect_entry;

// Returns whether argv[i] is one.
static bool read_option(int argc, char *const *argv, int i, dialect_entry *out)
{
    const char *name = strncmp(argv[i], "--", 2) == 0 ? argv[i] + 2 : "";
    const size_t bytes = strcspn(name, "="), system = strcspn(name, ".=");
    *out = (dialect_entry){.of = NULL};
    for (int d = 0; DIALECTS[d] && !out->of; d++)
        if (strlen(DIALECTS[d]->name) == system && strncmp(DIALECTS[d]->name, name, system) == 0)
            out->of = DIALECTS[d];
    if (bytes > system) {
        out->key = name + system + 1;
        out->key_bytes = bytes - system - 1;
    }
    out->value = name[bytes] ? name + bytes + 1 : i + 1 < argc ? argv[i + 1] : NULL;
    return out->of != NULL;
}

bool settings_is_theirs(const char *argument)
{
    char *const argv[] = {(char *)argument};
    dialect_entry o;
    return read_option(1, argv, 0, &o);
}

// The key is copied.
static status add_given(const dialect_entry *o, dialect_given *out, err *e)
{
    char *path = NULL;
    text key = {0};
    text_add_bytes(&key, o->key, o->key_bytes);
    const status result = text_take(&key, &path, e);
    *out = (dialect_given){.theirs = path, .value = o->value};
    text_clear(&key);
    return result;
}

status settings_read_dialect(job_values *v, const dialect *d, const char *file, int argc,
                             char *const *argv, err *e)
{
    status result = OK;
    dialect_given *given = NULL;
    dialect_entry o;
    size_t count = 0;
    TRY(alloc_zeroed(&given, (size_t)argc + 1, sizeof *given, "the arguments", e));
    for (int i = 0; i < argc; i++) {
        if (!read_option(argc, argv, i, &o) || o.of != d || !o.key) continue;
        if (!o.value) FAIL(E_USAGE, "--%s.%.*s: needs a value", d->name, (int)o.key_bytes, o.key);
        TRY(add_given(&o, &given[count++], e));
    }
    TRY(dialect_read_given(d, file, given, count, &v->theirs, e));
done:
    for (size_t i = 0; i < count; i++) free((char *)given[i].theirs);
    free(given);
    return result;
}

// The index of the first argument that names a file of the system, or else gives a value of it; -1: none.
static int first_of(const dialect *d, bool file, int argc, char *const *argv)
{
    dialect_entry o;
    for (int i = 0; i < argc; i++)
        if (read_option(argc, argv, i, &o) && o.of == d && !o.key == file) return i;
    return -1;
}

status settings_read_dialect_text(job_values *v, char *argument, err *e)
{
    dialect_entry o;
    if (read_option(1, &argument, 0, &o) && o.value)
        return dialect_read_text(o.of, o.value, &v->theirs, e);
    return err_set(e, E_INTERNAL, "%.*s names no system", TEXT_CUT(argument, 100));
}

status settings_read_dialects(job_values *v, int argc, char *const *argv, err *e)
{
    status result = OK;
    dialect_entry o;
    for (int i = 0; i < argc; i++) {
        if (!read_option(argc, argv, i, &o) || o.key) continue;
        if (!o.value || !*o.value)
            FAIL(E_USAGE, "--%s: needs a file of %s", o.of->name, o.of->system);
        const bool first = first_of(o.of, true, argc, argv) == i; // given values win over it
        TRY(settings_read_dialect(v, o.of, o.value, first ? argc : 0, argv, e));
    }
    for (int i = 0; DIALECTS[i]; i++)
        if (first_of(DIALECTS[i], true, argc, argv) < 0 &&
            first_of(DIALECTS[i], false, argc, argv) >= 0)
            TRY(settings_read_dialect(v, DIALECTS[i], NULL, argc, argv, e));
done:
    return result;
}
