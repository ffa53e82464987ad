// dialect.c -- reads a file of another system by its dialect's table: finds each key's row, checks the value's type and
// does what the row says. See dialect.h. settings.c and the command translate call it. It knows no system's keys.
// LONG: the walk over a file and what each column of a row does, in the order in which a value passes through them.
#include "config/dialect/dialect.h"

#include "base/alloc.h"
#include "base/file.h"
#include "config/dialect/private.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { INCLUDES_MAX = 4 };

void translation_clear(translation *t)
{
    for (size_t i = 0; i < t->settings; i++) {
        free(t->setting[i].key);
        free(t->setting[i].value);
        free(t->setting[i].from);
        free(t->setting[i].note);
    }
    for (size_t i = 0; i < t->remarks; i++) free(t->remark[i].text);
    free(t->setting);
    free(t->remark);
    text_clear(&t->autos);
    json_decref(t->effective);
    *t = (translation){.setting = NULL};
}

// ---- rows ----

// Returns whether `path` is a row's, in which * stands for one word.
static bool matches(const char *row, const char *path)
{
    while (*row && *path) {
        if (*row == '*') {
            row++;
            path += strcspn(path, ".");
        } else if (*row++ != *path++) {
            return false;
        }
    }
    return *row == *path;
}

static const dialect_row *find_row(const dialect *d, const char *path)
{
    for (const dialect_row *x = d->rows; x < d->rows + d->row_count; x++)
        if (matches(x->theirs, path)) return x;
    return NULL;
}

// Returns whether a row stands directly below a section, which is "" at the top. *word is its last word.
static bool is_below(const dialect_row *x, const char *section, const char **word)
{
    const char *dot = strrchr(x->theirs, '.');
    const size_t bytes = dot ? (size_t)(dot - x->theirs) : 0;
    *word = dot ? dot + 1 : x->theirs;
    if (strlen(section) != bytes) return false;
    return strncmp(x->theirs, section, bytes) == 0;
}

// Appends "; did you mean stage?", or the section's keys where none is near.
static status suggest(const dialect *d, const char *section, const char *word, text *out, err *e)
{
    status result = OK;
    const char **words = NULL, *one;
    size_t count = 0;
    TRY(alloc_array(&words, (size_t)d->row_count, sizeof *words, "a dialect", e));
    for (int i = 0; i < d->row_count; i++)
        if (is_below(&d->rows[i], section, &one) && !strchr(one, '*')) words[count++] = one;
    const char *near = text_nearest(word, words, count);
    if (near) text_addf(out, "; did you mean %s?", near);
    if (!near && *section) text_addf(out, "; valid:");
    for (size_t i = 0; !near && *section && i < count; i++)
        text_addf(out, "%s %s", i ? "," : "", words[i]);
done:
    free(words);
    return result;
}

// ---- values ----

static const yaml_node *find_node(const yaml_node *map, const char *path)
{
    for (const yaml_node *n = map->kind == NODE_MAP ? map->first : NULL; n; n = n->next) {
        const size_t bytes = strlen(n->key);
        if (strncmp(n->key, path, bytes) != 0) continue;
        if (!path[bytes]) return n;
        if (path[bytes] == '.' && n->kind == NODE_MAP) return find_node(n, path + bytes + 1);
    }
    return NULL;
}

static bool is_auto(const yaml_node *n)
{
    return n->kind == NODE_SCALAR && strcasecmp(n->scalar, "auto") == 0;
}

const yaml_node *dialect_value(const dialect_reader *r, const char *theirs)
{
    const yaml_node *n = find_node(r->root, theirs);
    return n && !yaml_node_is_null(n) && !is_auto(n) ? n : NULL;
}

bool dialect_is_auto(const dialect_reader *r, const char *theirs)
{
    const yaml_node *n = find_node(r->root, theirs);
    return n && is_auto(n);
}

const char *dialect_text(const dialect_reader *r, const char *theirs)
{
    const yaml_node *n = dialect_value(r, theirs);
    const dialect_row *row = find_row(r->of, theirs);
    if (n && n->kind == NODE_SCALAR) return n->scalar;
    return n || !row ? NULL : row->fallback;
}

bool dialect_is_on(const dialect_reader *r, const char *theirs)
{
    const char *s = dialect_text(r, theirs);
    bool on = false;
    return s && text_to_bool(s, &on) && on;
}

bool dialect_count(const dialect_reader *r, const char *theirs, int64_t *out)
{
    const char *s = dialect_text(r, theirs);
    return s && text_to_count(s, out);
}

bool dialect_number(const dialect_reader *r, const char *theirs, double *out)
{
    const char *s = dialect_text(r, theirs);
    return s && text_to_double(s, out);
}

// ---- messages ----

// The line of a key, or of the section that it would stand in; 0: none.
static int line_of(const dialect_reader *r, const char *theirs)
{
    text path = {0};
    int line = 0;
    text_add(&path, theirs);
    while (!line && path.bytes) {
        const yaml_node *n = find_node(r->root, path.chars);
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

// Appends "ds.json:12: zero_optimization.stage", or "--zero_stage" for arguments.
static void add_place(const dialect_reader *r, int line, const char *theirs, text *out)
{
    const dialect_row *row = find_row(r->of, theirs);
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
    text_addf(out, "%s%s", !is_option && (r->of->is_arguments || !r->file) ? "--" : "", theirs);
}

static status refuse_at(const dialect_reader *r, int line, const char *theirs, err *e)
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
    return refuse_at(r, line_of(r, theirs), theirs, e);
}

static status add_remark(const dialect_reader *r, int line, const char *theirs, bool lost,
                         const char *what, err *e)
{
    status result = OK;
    translation *t = r->out;
    text line_text = {0};
    add_place(r, line, theirs, &line_text);
    text_addf(&line_text, ": %s", what);
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
    if (result == OK) result = add_remark(r, line_of(r, theirs), theirs, lost, what.chars, e);
    text_clear(&what);
    return result;
}

// ---- settings ----

static void setting_clear(dialect_setting *s)
{
    free(s->key);
    free(s->value);
    free(s->from);
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

static status set(const dialect_reader *r, const char *key, const char *value, const char *theirs,
                  const char *note, bool is_default, err *e)
{
    status result = OK;
    dialect_setting *s = NULL;
    text from = {0};
    if (is_default && is_given(r->out, key)) return OK;
    TRY(setting_for(r->out, key, &s, e));
    s->is_default = is_default;
    if (is_default)
        text_addf(&from, "%s's default of %s", r->of->system, theirs);
    else
        add_place(r, line_of(r, theirs), theirs, &from);
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
    return set(r, key, value, theirs, note, !dialect_value(r, theirs), e);
}

status dialect_default(const dialect_reader *r, const char *key, const char *value,
                       const char *theirs, const char *note, err *e)
{
    if (dialect_value(r, theirs) || dialect_is_auto(r, theirs)) return OK;
    return set(r, key, value, theirs, note, true, e);
}

status dialect_effective(const dialect_reader *r, const char *theirs, json_t *value, err *e)
{
    if (json_object_set_new(r->out->effective, theirs, value) == 0) return OK;
    return err_set(e, E_MEMORY, "no memory for a dialect");
}

// ---- one value ----

static const char *const TYPE_WORDS[] = {
    [DIALECT_BOOL] = "true or false", [DIALECT_WHOLE] = "a whole number",
    [DIALECT_NUMBER] = "a number",    [DIALECT_WORD] = "a word",
    [DIALECT_TEXT] = "text",          [DIALECT_LIST] = "a list",
    [DIALECT_SECTION] = "a section",  [DIALECT_ANY] = "anything",
};

// Appends what a row takes: "none, cpu, nvme".
static void add_valid(const dialect_row *row, text *out)
{
    for (int i = 0; row->words && row->words[i][0]; i++)
        if (row->words[i][1]) text_addf(out, "%s%s", out->bytes ? ", " : "", row->words[i][0]);
    if (!row->words) text_add(out, TYPE_WORDS[row->type]);
    if (!row->words && row->low > 0) text_addf(out, " from %g", row->low);
    if (!row->words && row->unquoted) text_add(out, " without quotes");
}

static status refuse_value(const dialect_reader *r, const char *path, const dialect_row *row,
                           const yaml_node *n, const char *why, err *e)
{
    text found = {0}, valid = {0};
    yaml_node_text(n, &found);
    add_valid(row, &valid);
    err_set(e, E_USAGE, "found %.*s%s; valid: %.*s", TEXT_CUT(found.chars ? found.chars : "", 200),
            why, TEXT_CUT(valid.chars ? valid.chars : "", 400));
    text_clear(&found);
    text_clear(&valid);
    return refuse_at(r, n->line, path, e);
}

// Our word for theirs: *known is false for a word that the row does not have.
static const char *find_word(const dialect_row *row, const char *theirs, bool *known)
{
    for (int i = 0; row->words[i][0]; i++) {
        *known = strcasecmp(row->words[i][0], theirs) == 0;
        if (*known) return row->words[i][1];
    }
    return NULL;
}

// Returns whether a scalar is a number as other systems write it, which have no units such as Ki.
static bool is_number(const dialect_row *row, const yaml_node *n, double *out)
{
    if (n->kind != NODE_SCALAR || (row->unquoted && n->quoted)) return false;
    return text_to_double(n->scalar, out) && *out >= row->low;
}

static bool is_of_type(const dialect_row *row, const yaml_node *n)
{
    bool flag;
    int64_t whole;
    double number;
    switch (row->type) {
    case DIALECT_ANY:
        return true;
    case DIALECT_LIST:
        return n->kind == NODE_LIST;
    case DIALECT_SECTION:
        return n->kind == NODE_MAP;
    case DIALECT_BOOL:
        return n->kind == NODE_SCALAR && text_to_bool(n->scalar, &flag);
    case DIALECT_WHOLE:
        return is_number(row, n, &number) && text_to_count(n->scalar, &whole) &&
               !(n->quoted && strpbrk(n->scalar, "eE"));
    case DIALECT_NUMBER:
        return is_number(row, n, &number);
    default:
        return n->kind == NODE_SCALAR;
    }
}

// Appends our value of theirs.
static status convert(const dialect_reader *r, const dialect_row *row, const yaml_node *n,
                      text *out, err *e)
{
    bool known, flag;
    if (row->convert) return row->convert(r, row, n, out, e);
    if (row->words && n->kind == NODE_SCALAR)
        text_add(out, find_word(row, n->scalar, &known));
    else if (row->type == DIALECT_BOOL && text_to_bool(n->scalar, &flag))
        text_add(out, flag ? "true" : "false");
    else if (row->type == DIALECT_TEXT)
        yaml_node_quote(n->scalar, out);
    else
        yaml_node_text(n, out);
    return text_check(out, e);
}

// Returns whether two scalars are the same value of a type.
static bool is_same(const dialect_row *row, const yaml_node *n, const char *value)
{
    bool a, b;
    double x, y;
    if (!value || n->kind != NODE_SCALAR) return false;
    if (row->type == DIALECT_BOOL && text_to_bool(n->scalar, &a) && text_to_bool(value, &b))
        return a == b;
    if (text_to_double(n->scalar, &x) && text_to_double(value, &y)) return x == y;
    return strcasecmp(n->scalar, value) == 0;
}

// A remark "found true; <note>" at a value that has no equal, or the refusal.
static status take_unequal(const dialect_reader *r, const char *path, const dialect_row *row,
                           const yaml_node *n, err *e)
{
    text what = {0};
    const bool lost = row->effect != EFFECT_NOTHING;
    if (lost) {
        text found = {0};
        yaml_node_text(n, &found);
        text_addf(&what, "found %.*s; ", TEXT_CUT(found.chars ? found.chars : "", 80));
        text_clear(&found);
    }
    text_add(&what, row->note);
    status result = text_check(&what, e);
    if (result == OK && row->effect == EFFECT_REFUSED) {
        err_set(e, E_USAGE, "%.*s", TEXT_CUT(what.chars, 700));
        result = refuse_at(r, n->line, path, e);
    } else if (result == OK) {
        result = add_remark(r, n->line, path, lost, what.chars, e);
    }
    text_clear(&what);
    return result;
}

static status take(const dialect_reader *r, const char *path, const dialect_row *row,
                   const yaml_node *n, bool is_default, err *e)
{
    status result = OK;
    text ours = {0};
    bool known = true;
    if (yaml_node_is_null(n)) goto done;
    if (is_auto(n) && row->type != DIALECT_TEXT && row->type != DIALECT_ANY) {
        text_addf(&r->out->autos, "%s%s", r->out->autos.bytes ? ", " : "", path);
        TRY(text_check(&r->out->autos, e));
        goto done;
    }
    const bool is_old_form = row->type == DIALECT_SECTION && row->convert;
    if (!is_old_form && !is_of_type(row, n)) return refuse_value(r, path, row, n, "", e);
    if (row->words && n->kind == NODE_SCALAR && !find_word(row, n->scalar, &known) &&
        !(known && r->values_only))
        return refuse_value(r, path, row, n, known ? ", which has no equal here" : "", e);
    if (r->values_only) goto done;
    if (row->effect == EFFECT_SETS) {
        TRY(convert(r, row, n, &ours, e));
        if (ours.bytes) TRY(set(r, row->ours, ours.chars, path, row->note, is_default, e));
    } else if (row->effect != EFFECT_READ && row->note &&
               !is_same(row, n, row->same ? row->same : row->fallback)) {
        TRY(take_unequal(r, path, row, n, e));
    }
done:
    text_clear(&ours);
    return result;
}

// ---- a file ----

static status unknown_key(const dialect_reader *r, const char *section, const char *path,
                          const yaml_node *n, bool ignored, err *e)
{
    status result = OK;
    text what = {0};
    text_addf(&what, "unknown key%s%s%s", ignored ? ", which " : "", ignored ? r->of->system : "",
              ignored ? " ignores" : "");
    TRY(suggest(r->of, section, n->key, &what, e));
    TRY(text_check(&what, e));
    if (ignored) {
        TRY(add_remark(r, n->line, path, true, what.chars, e));
    } else {
        err_set(e, E_USAGE, "%.*s", TEXT_CUT(what.chars, 700));
        result = refuse_at(r, n->line, path, e);
    }
done:
    text_clear(&what);
    return result;
}

// Returns whether a key is somebody's comment: "_comment", "//".
static bool is_comment(const char *key)
{
    return key[0] == '_' || strcmp(key, "//") == 0 || strcmp(key, "comment") == 0;
}

static status walk(const dialect_reader *r, const yaml_node *map, const char *section, bool ignores,
                   err *e)
{
    status result = OK;
    text path = {0};
    for (const yaml_node *n = map->first; n; n = n->next) {
        text_clear(&path);
        text_addf(&path, "%s%s%s", section, *section ? "." : "", n->key);
        TRY(text_check(&path, e));
        const dialect_row *row = find_row(r->of, path.chars);
        if (!row && ignores && is_comment(n->key)) continue;
        if (!row)
            TRY(unknown_key(r, section, path.chars, n, ignores, e));
        else if (row->type == DIALECT_SECTION && n->kind == NODE_MAP)
            TRY(walk(r, n, path.chars, row->ignores_other, e));
        else
            TRY(take(r, path.chars, row, n, false, e));
    }
done:
    text_clear(&path);
    return result;
}

// Returns whether the section that a row stands in is given.
static bool has_section(const dialect_reader *r, const dialect_row *row)
{
    const char *dot = strrchr(row->theirs, '.');
    text section = {0};
    if (!dot) return true;
    text_add_bytes(&section, row->theirs, (size_t)(dot - row->theirs));
    const bool has = section.chars && dialect_value(r, section.chars);
    text_clear(&section);
    return has;
}

// Sets what their defaults mean.
static status take_defaults(const dialect_reader *r, err *e)
{
    status result = OK;
    yaml_node *n = NULL;
    for (const dialect_row *row = r->of->rows; row < r->of->rows + r->of->row_count; row++) {
        if (!row->states || find_node(r->root, row->theirs) || !has_section(r, row)) continue;
        TRY(yaml_node_scalar(row->fallback, 0, &n, e));
        TRY(take(r, row->theirs, row, n, true, e));
        yaml_node_free(n);
        n = NULL;
    }
done:
    yaml_node_free(n);
    return result;
}

static json_t *typed_json(const dialect_row *row, const char *s)
{
    bool flag;
    int64_t whole;
    double number;
    if (row->type == DIALECT_BOOL && text_to_bool(s, &flag)) return json_boolean(flag);
    if (row->type == DIALECT_WHOLE && text_to_count(s, &whole)) return json_integer(whole);
    if (row->type == DIALECT_NUMBER && text_to_double(s, &number)) return json_real(number);
    return json_string(s);
}

// Notes their value of every key that has one.
static status note_effective(const dialect_reader *r, err *e)
{
    json_t *all = r->out->effective ? r->out->effective : json_object();
    r->out->effective = all;
    if (!all) return err_set(e, E_MEMORY, "no memory for a dialect");
    for (const dialect_row *row = r->of->rows; row < r->of->rows + r->of->row_count; row++) {
        const yaml_node *n = dialect_value(r, row->theirs);
        json_t *value = NULL;
        if (n && row->type == DIALECT_SECTION)
            value = n->kind == NODE_MAP && n->first ? json_true() : NULL;
        else if (n && n->kind != NODE_SCALAR)
            value = yaml_node_json(n);
        else if (row->type != DIALECT_SECTION && (n || row->fallback))
            value = typed_json(row, n ? n->scalar : row->fallback);
        if (value) json_object_set_new(all, row->theirs, value);
    }
    return OK;
}

// Gives keys and sections their new names.
static status rename_keys(const dialect_reader *r, yaml_node *root, err *e)
{
    status result = OK;
    for (int i = 0; r->of->renamed && r->of->renamed[i][0]; i++) {
        const char *old = r->of->renamed[i][0], *now = r->of->renamed[i][1];
        const char *dot = strrchr(now, '.');
        yaml_node *n = (yaml_node *)find_node(root, old);
        if (!n) continue;
        if (find_node(root, now))
            return dialect_refuse(r, old, e, "found beside %s, its new name; valid: one of them",
                                  now);
        free(n->key);
        n->key = NULL;
        TRY(text_copy(dot ? dot + 1 : now, &n->key, e));
    }
done:
    return result;
}

// A manifest of Kubernetes starts processes, which people mistake for a configuration of what these do.
static status refuse_manifest(const dialect_reader *r, yaml_node *root, err *e)
{
    const yaml_node *kind = yaml_node_entry(root, "kind");
    if (!kind || kind->kind != NODE_SCALAR || !yaml_node_entry(root, "apiVersion")) return OK;
    return dialect_refuse(r, "kind", e,
                          "found %.*s, a manifest of Kubernetes, which starts processes and says "
                          "nothing of a job; valid: a file of %s",
                          TEXT_CUT(kind->scalar, 100), r->of->system);
}

// Takes all of a tree, which is read.
static status take_tree(const dialect_reader *r, yaml_node *root, err *e)
{
    status result = OK;
    if (root->kind != NODE_MAP)
        return err_set(e, E_USAGE, "%s: found a %s; valid: the keys of %s",
                       r->file ? r->file : "arguments", root->kind == NODE_LIST ? "list" : "word",
                       r->of->system);
    TRY(refuse_manifest(r, root, e));
    if (r->of->begin) TRY(r->of->begin(r, root, e));
    TRY(rename_keys(r, root, e));
    TRY(walk(r, root, "", r->of->ignores_other, e));
    TRY(take_defaults(r, e));
    TRY(note_effective(r, e));
    if (r->of->finish && !r->values_only) TRY(r->of->finish(r, e));
done:
    return result;
}

// Reads the text of a file of a dialect.
static status parse(const dialect *d, const char *path, const char *content, size_t bytes,
                    yaml_node **out, err *e)
{
    const char *end = strrchr(path, '.');
    const bool is_yaml = end && (strcmp(end, ".yml") == 0 || strcmp(end, ".yaml") == 0) &&
                         content[strspn(content, " \t\r\n")] != '{';
    if (d->is_arguments) return dialect_parse_shell(d, path, content, bytes, out, e);
    if (d->is_json && !is_yaml) return dialect_parse_json(path, content, bytes, out, e);
    return yaml_node_parse_repeats(path, content, bytes, out, e);
}

// Parses the file of a reader, which NULL makes a map without keys. Base64 in place of a path renames it.
static status parse_file(dialect_reader *r, yaml_node **out, err *e)
{
    status result = OK;
    char *content = NULL;
    text decoded = {0};
    size_t bytes = 0;
    if (!r->file) return yaml_node_parse("", "", 0, out, e);
    if (r->of->is_json && !file_exists(r->file) && dialect_decode_base64(r->file, &decoded)) {
        r->file = "base64";
        TRY(dialect_parse_json(r->file, decoded.chars, decoded.bytes, out, e));
    } else {
        TRY(file_read_small(r->file, FILE_MOST_CONFIG, &content, &bytes, e));
        TRY(parse(r->of, r->file, content, bytes, out, e));
    }
done:
    text_clear(&decoded);
    free(content);
    return result;
}

// Takes all of what was parsed, with given values over it.
static status take_root(dialect_reader *r, yaml_node *root, const dialect_given *given,
                        size_t count, err *e)
{
    status result = OK;
    r->root = root;
    if (root->kind == NODE_MAP) {
        TRY(dialect_keep_last(r, root, e));
        TRY(dialect_add_begun(r->of, root, e));
        TRY(dialect_put_given(root, given, count, e));
    }
    TRY(take_tree(r, root, e));
done:
    return result;
}

status dialect_read_with(dialect_reader r, const dialect_given *given, size_t count, err *e)
{
    status result = OK;
    yaml_node *root = NULL;
    TRY(parse_file(&r, &root, e));
    TRY(take_root(&r, root, given, count, e));
done:
    yaml_node_free(root);
    return result;
}

status dialect_read_file(const dialect *d, const char *path, translation *out, err *e)
{
    return dialect_read_given(d, path, NULL, 0, out, e);
}

status dialect_read_given(const dialect *d, const char *path, const dialect_given *given,
                          size_t count, translation *out, err *e)
{
    return dialect_read_with((dialect_reader){.of = d, .file = path, .out = out}, given, count, e);
}

status dialect_read_values(const dialect *d, const char *path, const dialect_given *given,
                           size_t count, translation *out, err *e)
{
    const dialect_reader r = {.of = d, .file = path, .out = out, .values_only = true};
    return dialect_read_with(r, given, count, e);
}

status dialect_read_text(const dialect *d, const char *content, translation *out, err *e)
{
    status result = OK;
    yaml_node *root = NULL;
    dialect_reader r = {.of = d, .file = d->name, .out = out};
    TRY(parse(d, d->name, content, strlen(content), &root, e));
    TRY(take_root(&r, root, NULL, 0, e));
done:
    yaml_node_free(root);
    return result;
}

status dialect_read_args(const dialect *d, int argc, char *const *argv, translation *out, err *e)
{
    status result = OK;
    yaml_node *root = NULL;
    TRY(dialect_parse_arguments(d, argc, argv, NULL, &root, e));
    TRY(take_tree(&(dialect_reader){.of = d, .root = root, .out = out}, root, e));
done:
    yaml_node_free(root);
    return result;
}

status dialect_include(const dialect_reader *r, const dialect *d, const char *theirs, err *e)
{
    return dialect_include_given(r, d, theirs, NULL, 0, e);
}

status dialect_include_given(const dialect_reader *r, const dialect *d, const char *theirs,
                             const dialect_given *given, size_t count, err *e)
{
    status result = OK;
    const char *name = dialect_text(r, theirs);
    const bool is_beside = r->file && line_of(r, theirs) != LINE_OPTION;
    const char *slash = is_beside ? strrchr(r->file, '/') : NULL, *home = getenv("HOME");
    text path = {0};
    if (!name) return OK;
    if (r->depth == INCLUDES_MAX)
        return dialect_refuse(r, theirs, e, "found %.*s; valid: at most %d files that name files",
                              TEXT_CUT(name, 200), INCLUDES_MAX);
    const bool in_home = strncmp(name, "~/", 2) == 0 && home;
    if (in_home)
        text_add(&path, home);
    else if (*name != '/' && slash && !file_exists(name))
        text_add_bytes(&path, r->file, (size_t)(slash - r->file) + 1);
    text_add(&path, in_home ? name + 1 : name);
    TRY(text_check(&path, e));
    const dialect_reader below = {
        .of = d, .file = path.chars, .out = r->out, .depth = r->depth + 1};
    result = dialect_read_with(below, given, count, e);
    if (result != OK) refuse_at(r, line_of(r, theirs), theirs, e);
done:
    text_clear(&path);
    return result;
}

const dialect_row *dialect_row_of_key(const dialect *d, const char *theirs)
{
    return find_row(d, theirs);
}

const dialect_row *dialect_row_of_option(const dialect *d, const char *option)
{
    for (const dialect_row *x = d->rows; x < d->rows + d->row_count; x++)
        if (x->option && strcmp(x->option, option) == 0) return x;
    return d->is_arguments ? find_row(d, option) : NULL;
}
