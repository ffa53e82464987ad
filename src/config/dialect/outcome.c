// outcome.c -- what reading a file gives: settings of our keys, remarks, and errors, each at the place that it comes from.
// dialect.c and the dialects call it. See dialect.h.
#include "config/dialect/private.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void translation_clear(translation *t)
{
    for (size_t i = 0; i < t->settings; i++) {
        free(t->setting[i].key);
        free(t->setting[i].value);
        free(t->setting[i].from);
        free(t->setting[i].file);
        free(t->setting[i].note);
    }
    for (size_t i = 0; i < t->remarks; i++) free(t->remark[i].text);
    free(t->setting);
    free(t->remark);
    text_clear(&t->autos);
    json_decref(t->effective);
    *t = (translation){.setting = NULL};
}

// ---- messages ----

// The line of a key, or of the section that it would stand in; 0: none.
int dialect_line_of(const dialect_reader *r, const char *theirs)
{
    text path = {0};
    int line = 0;
    text_add(&path, theirs);
    while (!line && path.bytes) {
        const yaml_node *n = dialect_node(r->root, path.chars);
        if (n) line = n->line;
        char *dot = strrchr(path.chars, '.');
        if (!dot) break;
        path.bytes = (size_t)(dot - path.chars);
        *dot = 0;
    }
    text_clear(&path);
    return line;
}

void dialect_add_option(const char *option, text *out)
{
    text_add(out, "--");
    for (; *option; option++) text_add_bytes(out, *option == '_' ? "-" : option, 1);
}

void dialect_add_key(const dialect *d, const char *theirs, text *out)
{
    const char *dot = strrchr(theirs, '.');
    if (d->is_arguments)
        dialect_add_option(dot ? dot + 1 : theirs, out);
    else
        text_add(out, theirs);
}

// Appends a key that a file may have made long.
static void add_key_cut(const dialect_reader *r, bool is_option, const char *theirs, text *out)
{
    enum { MOST = 160 };
    text key = {0};
    if (is_option)
        text_add(&key, theirs);
    else
        dialect_add_key(r->of, theirs, &key);
    const char *s = key.chars ? key.chars : "";
    text_addf(out, "%.*s%s", TEXT_CUT(s, MOST), strlen(s) > MOST ? "…" : "");
    text_clear(&key);
}

// Appends "ds.json:12: zero_optimization.stage", or "--zero_stage" for arguments.
static void add_place(const dialect_reader *r, int line, const char *theirs, text *out)
{
    const dialect_row *row = dialect_row_of_key(r->of, theirs);
    const bool is_option = line == LINE_OPTION;
    if (is_option && row && row->option) {
        dialect_add_option(row->option, out);
        return;
    }
    if (r->runs && !r->file && !is_option) {
        text_addf(out, "%s's %s", r->of->system, theirs);
        return;
    }
    if (is_option)
        text_addf(out, "--%s.", r->of->name);
    else if (r->file && line > 0)
        text_addf(out, "%s:%d: ", r->file, line);
    else if (r->file)
        text_addf(out, "%s: ", r->file);
    if (!is_option && !r->file && !r->of->is_arguments) text_add(out, "--");
    add_key_cut(r, is_option, theirs, out);
}

void dialect_make_printable(err *e)
{
    text line = {0};
    if (!e) return;
    text_add_printable(&line, e->text, strlen(e->text), "");
    if (line.chars && !line.failed) snprintf(e->text, sizeof e->text, "%s", line.chars);
    text_clear(&line);
}

status dialect_refuse_at(const dialect_reader *r, int line, const char *theirs, err *e)
{
    text place = {0};
    add_place(r, line, theirs, &place);
    err_prefix(e, "%s: ", place.chars ? place.chars : theirs);
    text_clear(&place);
    return E_USAGE;
}

status dialect_refuse(const dialect_reader *r, const char *theirs, err *e, const char *format, ...)
{
    text why = {0};
    va_list args;
    va_start(args, format);
    text_addv(&why, format, args);
    va_end(args);
    err_set(e, E_USAGE, "%.*s", TEXT_CUT(why.chars ? why.chars : "", 700));
    text_clear(&why);
    return dialect_refuse_at(r, dialect_line_of(r, theirs), theirs, e);
}

status dialect_add_remark(const dialect_reader *r, int line, const char *theirs, bool lost,
                          const char *what, err *e)
{
    status result = OK;
    translation *t = r->out;
    text line_text = {0};
    add_place(r, line, theirs, &line_text);
    text_add(&line_text, ": ");
    text_add_printable(&line_text, what, strlen(what), "");
    TRY(alloc_grow(&t->remark, &t->remark_room, t->remarks + 1, sizeof *t->remark, "a dialect", e));
    t->remark[t->remarks] = (dialect_remark){.lost = lost};
    TRY(text_take(&line_text, &t->remark[t->remarks].text, e));
    t->remarks++;
done:
    text_clear(&line_text);
    return result;
}

status dialect_remark_on(const dialect_reader *r, const char *theirs, bool lost, err *e,
                         const char *format, ...)
{
    text what = {0};
    va_list args;
    va_start(args, format);
    text_addv(&what, format, args);
    va_end(args);
    status result = text_check(&what, e);
    if (result == OK)
        result = dialect_add_remark(r, dialect_line_of(r, theirs), theirs, lost, what.chars, e);
    text_clear(&what);
    return result;
}

// ---- settings ----

static void setting_clear(dialect_setting *s)
{
    free(s->key);
    free(s->value);
    free(s->from);
    free(s->file);
    free(s->note);
    *s = (dialect_setting){.key = NULL};
}

// Returns whether a file gives the key, and no default of a system does.
static bool is_given(const translation *t, const char *key)
{
    for (size_t i = 0; i < t->settings; i++)
        if (strcmp(t->setting[i].key, key) == 0) return !t->setting[i].is_default;
    return false;
}

// The setting of a key, empty; a new one where there is none.
static status setting_for(translation *t, const char *key, dialect_setting **out, err *e)
{
    status result = OK;
    for (size_t i = 0; i < t->settings; i++) {
        if (strcmp(t->setting[i].key, key) != 0) continue;
        setting_clear(&t->setting[i]);
        memmove(&t->setting[i], &t->setting[i + 1], (t->settings - i - 1) * sizeof *t->setting);
        t->settings--;
        break;
    }
    TRY(alloc_grow(&t->setting, &t->setting_room, t->settings + 1, sizeof *t->setting, "a dialect",
                   e));
    t->setting[t->settings] = (dialect_setting){.key = NULL};
    TRY(text_copy(key, &t->setting[t->settings].key, e));
    *out = &t->setting[t->settings++];
done:
    return result;
}

status dialect_put_setting(const dialect_reader *r, const char *key, const char *value,
                           const char *theirs, const char *note, bool is_default, err *e)
{
    status result = OK;
    dialect_setting *s = NULL;
    text from = {0};
    if (is_default && is_given(r->out, key)) return OK;
    TRY(setting_for(r->out, key, &s, e));
    s->is_default = is_default;
    if (is_default && r->file) TRY(text_copy(r->file, &s->file, e));
    if (is_default) {
        text_addf(&from, "%s's default of ", r->of->system);
        dialect_add_key(r->of, theirs, &from);
    } else {
        add_place(r, dialect_line_of(r, theirs), theirs, &from);
    }
    TRY(text_copy(value, &s->value, e));
    TRY(text_take(&from, &s->from, e));
    if (note) TRY(text_copy(note, &s->note, e));
done:
    if (result != OK && s) { // A setting without a value or an origin is none.
        setting_clear(s);
        r->out->settings--;
    }
    text_clear(&from);
    return result;
}

status dialect_set(const dialect_reader *r, const char *key, const char *value, const char *theirs,
                   const char *note, err *e)
{
    return dialect_put_setting(r, key, value, theirs, note, !dialect_value(r, theirs), e);
}

status dialect_set_number(const dialect_reader *r, const char *key, double value,
                          const char *theirs, const char *note, err *e)
{
    text s = {0};
    text_add_number(&s, value);
    status result = text_check(&s, e);
    if (result == OK) result = dialect_set(r, key, s.chars, theirs, note, e);
    text_clear(&s);
    return result;
}

status dialect_set_count(const dialect_reader *r, const char *key, int64_t value,
                         const char *theirs, const char *note, err *e)
{
    char word[24];
    snprintf(word, sizeof word, "%lld", (long long)value);
    return dialect_set(r, key, word, theirs, note, e);
}

status dialect_default(const dialect_reader *r, const char *key, const char *value,
                       const char *theirs, const char *note, err *e)
{
    if (dialect_value(r, theirs) || dialect_is_auto(r, theirs)) return OK;
    return dialect_put_setting(r, key, value, theirs, note, true, e);
}

status dialect_effective(const dialect_reader *r, const char *theirs, json_t *value, err *e)
{
    if (json_object_set_new(r->out->effective, theirs, value) == 0) return OK;
    return err_set(e, E_MEMORY, "no memory for a dialect");
}
