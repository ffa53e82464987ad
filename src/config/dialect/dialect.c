// dialect.c -- reads a file of another system by its dialect's table: finds each key's row, checks the value's type and
// does what the row says. See dialect.h. settings.c and the command translate call it. It knows no system's keys.
#include "config/dialect/dialect.h"

#include "base/alloc.h"
#include "base/file.h"
#include "config/dialect/private.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { INCLUDES_MAX = 4 };

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
    return dialect_refuse_at(r, n->line, path, e);
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
    return dialect_to_number(n->scalar, out) && *out >= row->low;
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
        result = dialect_refuse_at(r, n->line, path, e);
    } else if (result == OK) {
        result = dialect_add_remark(r, n->line, path, lost, what.chars, e);
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
    if (dialect_node_is_auto(n) && row->type != DIALECT_TEXT && row->type != DIALECT_ANY) {
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
        if (ours.bytes)
            TRY(dialect_put_setting(r, row->ours, ours.chars, path, row->note, is_default, e));
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
    if (r->of->is_arguments)
        text_addf(&what, "unknown option of %s", r->of->system);
    else
        text_add(&what, "unknown key");
    if (ignored) text_addf(&what, ", which %s ignores", r->of->system);
    TRY(dialect_suggest(r->of, section, n->key, &what, e));
    TRY(text_check(&what, e));
    if (ignored) {
        TRY(dialect_add_remark(r, n->line, path, true, what.chars, e));
    } else {
        err_set(e, E_USAGE, "%.*s", TEXT_CUT(what.chars, 700));
        result = dialect_refuse_at(r, n->line, path, e);
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
        const dialect_row *row = dialect_row_of_key(r->of, path.chars);
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
    for (const dialect_row *row = dialect_next_row(r->of, NULL); row;
         row = dialect_next_row(r->of, row)) {
        if (!row->states || dialect_node(r->root, row->theirs) || !has_section(r, row)) continue;
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
    for (const dialect_row *row = dialect_next_row(r->of, NULL); row;
         row = dialect_next_row(r->of, row)) {
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

// Gives keys and sections the new names of a list.
static status rename_keys(const dialect_reader *r, const char *const (*renamed)[2], yaml_node *root,
                          err *e)
{
    status result = OK;
    for (int i = 0; renamed && renamed[i][0]; i++) {
        const char *old = renamed[i][0], *now = renamed[i][1];
        const char *dot = strrchr(now, '.');
        yaml_node *n = (yaml_node *)dialect_node(root, old);
        if (!n) continue;
        if (dialect_node(root, now))
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
    for (const dialect *d = r->of; d; d = d->base) TRY(rename_keys(r, d->renamed, root, e));
    TRY(walk(r, root, "", r->of->ignores_other, e));
    TRY(take_defaults(r, e));
    TRY(note_effective(r, e));
    if (r->of->finish && !r->values_only) TRY(r->of->finish(r, e));
done:
    return result;
}

// Returns whether a file is a script, or begins with options.
static bool is_script(const char *end, const char *content)
{
    const char *s = content + strspn(content, " \t\r\n");
    return (end && strcmp(end, ".sh") == 0) || strncmp(s, "#!", 2) == 0 ||
           (s[0] == '-' && s[1] == '-' && isalpha((unsigned char)s[2]));
}

status dialect_parse(const dialect *d, const char *path, const char *content, size_t bytes,
                     yaml_node **out, err *e)
{
    const char *end = strrchr(path, '.');
    const bool is_yaml = end && (strcmp(end, ".yml") == 0 || strcmp(end, ".yaml") == 0) &&
                         content[strspn(content, " \t\r\n")] != '{';
    if (d->is_arguments || (d->has_options && is_script(end, content)))
        return dialect_parse_shell(d, path, content, bytes, out, e);
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
        TRY(dialect_parse(r->of, r->file, content, bytes, out, e));
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
    if (result != OK) dialect_make_printable(e);
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
    TRY(dialect_parse(d, d->name, content, strlen(content), &root, e));
    TRY(take_root(&r, root, NULL, 0, e));
done:
    if (result != OK) dialect_make_printable(e);
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
    if (result != OK) dialect_make_printable(e);
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
    const bool is_beside = r->file && dialect_line_of(r, theirs) != LINE_OPTION;
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
    if (result != OK) dialect_refuse_at(r, dialect_line_of(r, theirs), theirs, e);
done:
    text_clear(&path);
    return result;
}
