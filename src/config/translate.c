// translate.c -- writes the job file that another system's configuration means. See job_translate in job.h. It knows no
// dialect's keys.
#include "config/private.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "config/dialect/dialect.h"

#include <stdlib.h>
#include <string.h>

enum { COMMENT_COLUMN = 44 };

// Adds lines "# …" of at most 118 columns; later lines of one text are indented.
static void add_comment(const char *s, text *out)
{
    enum { WIDTH = 116 };
    for (bool first = true; *s; first = false) {
        size_t bytes = strlen(s), most = first ? WIDTH : WIDTH - 4;
        if (bytes > most) {
            bytes = most;
            while (bytes && s[bytes] != ' ') bytes--;
            if (!bytes) bytes = strcspn(s, " ");
        }
        text_addf(out, "# %s", first ? "" : "    ");
        text_add_printable(out, s, bytes, "");
        text_add(out, "\n");
        s += bytes;
        s += strspn(s, " ");
    }
}

// The text that begins with the path of a file, without the file's folder.
static const char *without_folder(const char *s)
{
    const char *name = s;
    for (const char *colon = strchr(s, ':'); colon && s < colon; s++)
        if (*s == '/') name = s + 1;
    return name;
}

static void add_remarks(const translation *t, bool lost, const char *title, text *out)
{
    bool titled = false;
    for (size_t i = 0; i < t->remarks; i++) {
        if (t->remark[i].lost != lost) continue;
        if (!titled) text_addf(out, "#\n# %s\n", title);
        titled = true;
        add_comment(without_folder(t->remark[i].text), out);
    }
}

static void add_autos(const translation *t, text *out)
{
    text line = {0};
    if (!t->autos.bytes) return;
    text_addf(&line, "Is auto, so that the job's own value holds: %s", t->autos.chars);
    text_add(out, "#\n");
    add_comment(line.chars ? line.chars : "", out);
    text_clear(&line);
}

static void add_line(const job_values *v, const setting *s, text *open, text *out)
{
    int depth;
    text line = {0}, from = {0};
    const char *word = job_enter_sections(s->path, open, &depth, out);
    text_addf(&line, "%*s%s: ", 2 * depth, "", word);
    yaml_node_text(s->value, &line);
    setting_describe(v, s, &from);
    const char *origin = from.chars ? without_folder(from.chars) : "";
    text_addf(out, "%-*s # ", COMMENT_COLUMN, line.chars ? line.chars : "");
    text_add_printable(out, origin, strlen(origin), "");
    text_add(out, "\n");
    if (line.failed || from.failed || open->failed) text_fail(out);
    text_clear(&line);
    text_clear(&from);
}

// Adds a line for each key that is set, in the order of the keys.
static void add_settings(const job_values *v, text *out)
{
    text open = {0};
    for (int i = 0; i < JOB_KEY_COUNT; i++) {
        if (setting_is_given(&v->rows[i])) add_line(v, &v->rows[i], &open, out);
        for (int m = 0; strcmp(JOB_KEYS[i].path, "model.family") == 0 && m < v->models; m++)
            if (setting_is_given(&v->model[m])) add_line(v, &v->model[m], &open, out);
    }
    text_clear(&open);
}

static bool is_given(const job *j, const char *path)
{
    return setting_is_given(settings_of(j->values, path));
}

static bool names_model(const job *j)
{
    return is_given(j, "model.path") || is_given(j, "model.family");
}

// Returns whether the model's folder is on another machine, so that nothing of the job can be compared with it.
static bool lacks_model(const job *j)
{
    return j->model.path && !file_exists(j->model.path);
}

static void add_head(const job *j, const dialect *d, int files, char *const *file, text *out)
{
    text_addf(out, "# The job that %s means for trireme train, from", d->system);
    for (int i = 0; i < files; i++) {
        text_add(out, i ? ", " : " ");
        text_add_printable(out, file[i], strlen(file[i]), "");
    }
    text_add(out, "\n");
    if (d->dtypes) add_comment(d->dtypes, out);
    if (!names_model(j))
        add_comment("No model is named: add model: {path: FOLDER}, a HuggingFace folder.", out);
    else if (lacks_model(j))
        add_comment("The model's folder is not here: sizes of the job are not compared with it.",
                    out);
    if (!is_given(j, "data.train"))
        add_comment(
            "No data are named: add data: {train: PREFIX} of token shards (trireme data prepare).",
            out);
    add_remarks(&j->values->theirs, true, "Has no equal:", out);
    add_remarks(&j->values->theirs, false, "Needs no setting:", out);
    add_autos(&j->values->theirs, out);
    text_add(out, "\n");
}

static json_t *settings_json(const job_values *v)
{
    json_t *all = json_array();
    for (int i = 0; i < JOB_KEY_COUNT + v->models; i++) {
        const setting *s = i < JOB_KEY_COUNT ? &v->rows[i] : &v->model[i - JOB_KEY_COUNT];
        text from = {0};
        if (!setting_is_given(s)) continue;
        setting_describe(v, s, &from);
        json_array_append_new(all, json_pack("{s:s, s:o, s:o}", "key", s->path, "value",
                                             yaml_node_json(s->value), "origin",
                                             json_of_text(from.chars ? from.chars : "")));
        text_clear(&from);
    }
    return all;
}

// A list of {"text", "lost"}. Without memory the text *fails fails.
static json_t *remarks_json(const translation *t, text *fails)
{
    json_t *all = json_array();
    bool good = all != NULL;
    for (size_t i = 0; i < t->remarks && good; i++)
        good = json_array_append_new(all, json_pack("{s:o, s:b}", "text",
                                                    json_of_text(t->remark[i].text), "lost",
                                                    t->remark[i].lost)) == 0;
    if (!good) text_fail(fails);
    return all;
}

static void add_json(const job_values *v, text *out)
{
    json_t *root = json_pack("{s:o, s:o, s:O?}", "settings", settings_json(v), "remarks",
                             remarks_json(&v->theirs, out), "effective", v->theirs.effective);
    char *s = root ? json_dumps(root, JSON_INDENT(2) | JSON_PRESERVE_ORDER) : NULL;
    if (!s) text_fail(out);
    text_addf(out, "%s\n", s ? s : "");
    free(s);
    json_decref(root);
}

static void add_remarks_json(const translation *t, text *out)
{
    json_t *all = remarks_json(t, out);
    char *s = all ? json_dumps(all, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
    if (!s) text_fail(out);
    text_addf(out, ",\"other_systems\":%s", s ? s : "[]");
    free(s);
    json_decref(all);
}

void job_explain_remarks(const job *j, bool json, text *out)
{
    const translation *t = &j->values->theirs;
    if (json) {
        add_remarks_json(t, out);
        return;
    }
    if (t->remarks) text_add(out, "\n");
    for (size_t i = 0; i < t->remarks; i++)
        text_addf(out, "%s: %s\n", t->remark[i].lost ? "no equal" : "no setting needed",
                  t->remark[i].text);
}

static status no_dialect(const char *name, err *e)
{
    text valid = {0};
    const char *names[32];
    size_t count = 0;
    for (; DIALECTS[count] && count < 32; count++) {
        names[count] = DIALECTS[count]->name;
        text_addf(&valid, "%s%s", count ? ", " : "", names[count]);
    }
    const char *near = text_nearest(name, names, count);
    err_set(e, E_USAGE, "found system %.*s; valid: %s%s%s%s", TEXT_CUT(name, 100),
            valid.chars ? valid.chars : "", near ? "; did you mean " : "", near ? near : "",
            near ? "?" : "");
    text_clear(&valid);
    return E_USAGE;
}

status job_translate(const char *name, int files, char *const *file, int argc, char *const *argv,
                     bool json, text *out, err *e)
{
    status result = OK;
    job *j = NULL;
    setting_flags flags = {.resume = NULL};
    const dialect *d = dialect_find(name);
    if (!d) return no_dialect(name, e);
    TRY(job_start(NULL, &(job_own){.model = false}, &j, e));
    for (int i = 0; i < files; i++)
        TRY(settings_read_dialect(j->values, d, file[i], i ? 0 : argc, argv, e));
    TRY(settings_take_dialects(j->values, true, e));
    TRY(settings_take_dialects(j->values, false, e));
    TRY(settings_read_args(j->values, argc, argv, &flags, e));
    TRY(job_set_all(j, e));
    TRY(job_check_applies(j, e));
    if (names_model(j) && !lacks_model(j) && is_given(j, "data.train")) {
        TRY(job_read_model(j, e));
        TRY(job_check(j, e));
    }
    if (json) {
        add_json(j->values, out);
    } else {
        add_head(j, d, files, file, out);
        add_settings(j->values, out);
    }
    TRY(text_check(out, e));
done:
    job_close(j);
    return result;
}
