// doctor_list.c -- prints the table of checks: `trireme doctor --list`, and the part of docs/troubleshooting.md that is made
// from it. Called by doctor.c.
#include "base/json.h"
#include "cmd/console.h"
#include "cmd/doctor/doctor.h"

#include <stdlib.h>

static const char *const LEVEL[] = {
    [DOCTOR_PASSIVE] = "passive", [DOCTOR_ACTIVE] = "active", [DOCTOR_STRESS] = "stress"};

typedef struct list_state {
    text *out;
    const doctor_table *last; // whose heading was printed
    json_t *array;
} list_state;

static void add_line(const doctor_table *t, const doctor_check *c, void *arg)
{
    list_state *s = arg;
    if (t != s->last) text_addf(s->out, "%s%s\n", s->last ? "\n" : "", t->subject);
    s->last = t;
    text_addf(s->out, "  %-26s %-8s %-8s %s\n", c->code, LEVEL[c->level],
              doctor_severity_name(c->severity), c->title);
}

static void add_object(const doctor_table *t, const doctor_check *c, void *arg)
{
    list_state *s = arg;
    json_t *remedies = json_array();
    for (int i = 0; i < DOCTOR_REMEDIES && c->remedy[i]; i++)
        json_array_append_new(remedies, json_string(c->remedy[i]));
    json_array_append_new(
        s->array, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o}", "subject", t->subject,
                            "code", c->code, "level", LEVEL[c->level], "severity",
                            doctor_severity_name(c->severity), "title", c->title, "needs", c->needs,
                            "issue", c->issue, "why", c->why, "remedies", remedies));
}

// Names of values stand in braces; Markdown prints < as it is only in code.
static void add_markdown(const doctor_table *t, const doctor_check *c, void *arg)
{
    list_state *s = arg;
    if (t != s->last) text_addf(s->out, "\n### %s\n", t->subject);
    s->last = t;
    text_addf(s->out, "\n**`%s`** (%s, %s): %s.\n\n", c->code, LEVEL[c->level],
              doctor_severity_name(c->severity), c->title);
    text_addf(s->out, "> %s\n\n%s\n\n", c->issue, c->why);
    for (int i = 0; i < DOCTOR_REMEDIES && c->remedy[i]; i++) {
        const char *r = c->remedy[i];
        if (r[0] == '$' && r[1] == ' ')
            text_addf(s->out, "- `%s`\n", r + 2);
        else
            text_addf(s->out, "- %s\n", r);
    }
    text_addf(s->out, "- It looks at: %s.%s%s%s\n", c->needs, c->reference ? " See " : "",
              c->reference ? c->reference : "", c->reference ? "." : "");
}

status doctor_print_list(bool json, bool markdown, err *e)
{
    status result = OK;
    text out = {0};
    char *chars = NULL;
    list_state s = {.out = &out, .array = json_array()};
    if (json) {
        doctor_check_each(add_object, &s);
        chars = json_dumps(s.array, JSON_COMPACT);
        if (!chars) FAIL(E_MEMORY, "out of memory for the list of checks");
        text_addf(&out, "%s\n", chars);
    } else {
        doctor_check_each(markdown ? add_markdown : add_line, &s);
    }
    TRY(text_check(&out, e));
    console_print(out.chars, out.bytes);
done:
    free(chars);
    json_decref(s.array);
    text_clear(&out);
    return result;
}
