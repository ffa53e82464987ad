// doctor_list.c -- prints the table of checks: `trireme doctor --list`, and the part of docs/troubleshooting.md that is made
// from it. Called by doctor.c.
#include "base/json.h"
#include "cmd/console.h"
#include "cmd/doctor/doctor.h"

#include <stdlib.h>
#include <string.h>

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
    text_addf(s->out, "  %-26s %-8s %-8s ", c->code, LEVEL[c->level],
              doctor_severity_name(c->severity));
    doctor_add_sentence(s->out, c->title);
    text_add(s->out, "\n");
}

static void add_object(const doctor_table *t, const doctor_check *c, void *arg)
{
    list_state *s = arg;
    json_t *remedies = json_array();
    for (int i = 0; i < DOCTOR_REMEDIES && c->remedy[i]; i++)
        json_array_append_new(remedies, json_string(c->remedy[i]));
    json_t *recipes = json_array();
    for (int i = 0; i < DOCTOR_RECIPES && c->recipe[i]; i++)
        json_array_append_new(recipes, json_integer(c->recipe[i]));
    json_array_append_new(s->array,
                          json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o}", "subject",
                                    t->subject, "code", c->code, "level", LEVEL[c->level],
                                    "severity", doctor_severity_name(c->severity), "title",
                                    c->title, "needs", c->needs, "issue", c->issue, "why", c->why,
                                    "remedies", remedies, "recipes", recipes));
}

// ---- docs/troubleshooting.md

enum { PAGE_COLUMNS = 100 };

// Adds words in lines of at most PAGE_COLUMNS, each with `first` or `rest` before it.
static void add_wrapped(text *out, const char *first, const char *rest, const char *words)
{
    size_t column = strlen(first);
    text_add(out, first);
    for (bool begins = true; *words; begins = false) {
        const size_t bytes = strcspn(words, " ");
        if (!begins && column + 1 + bytes > PAGE_COLUMNS) {
            text_addf(out, "\n%s", rest);
            column = strlen(rest);
        } else if (!begins) {
            text_add(out, " ");
            column++;
        }
        text_add_bytes(out, words, bytes);
        column += bytes;
        words += bytes + (words[bytes] == ' ');
    }
    text_add(out, "\n");
}

static void add_sentence(text *out, const char *before, const char *words)
{
    text line = {0};
    doctor_add_sentence(&line, words);
    add_wrapped(out, before, before, line.chars ? line.chars : "");
    if (line.failed) text_fail(out);
    text_clear(&line);
}

static void add_remedy(text *out, const char *remedy)
{
    text line = {0};
    doctor_add_sentence(&line, remedy);
    if (remedy[0] == '$' && remedy[1] == ' ')
        text_addf(out, "- `%s`\n", remedy + 2); // a command stands on one line
    else
        add_wrapped(out, "- ", "  ", line.chars ? line.chars : "");
    if (line.failed) text_fail(out);
    text_clear(&line);
}

static void add_markdown(const doctor_table *t, const doctor_check *c, void *arg)
{
    list_state *s = arg;
    text line = {0};
    if (t != s->last) text_addf(s->out, "\n### %s\n", t->subject);
    s->last = t;
    text_addf(&line, "**`%s`** (%s, %s): ", c->code, LEVEL[c->level],
              doctor_severity_name(c->severity));
    doctor_add_sentence(&line, c->title);
    text_add(&line, ".");
    text_add(s->out, "\n");
    add_wrapped(s->out, "", "", line.chars ? line.chars : "");
    text_add(s->out, "\n");
    add_sentence(s->out, "> ", c->issue);
    text_add(s->out, "\n");
    add_sentence(s->out, "", c->why);
    text_add(s->out, "\n");
    for (int i = 0; i < DOCTOR_REMEDIES && c->remedy[i]; i++) add_remedy(s->out, c->remedy[i]);
    if (line.failed) text_fail(s->out);
    text_clear(&line);
}

typedef struct recipe_state {
    text *out;
    int number, found;
} recipe_state;

static void add_answer(const doctor_table *t, const doctor_check *c, void *arg)
{
    recipe_state *s = arg;
    (void)t;
    for (int i = 0; i < DOCTOR_RECIPES && c->recipe[i]; i++)
        if (c->recipe[i] == s->number) text_addf(s->out, "%s`%s`", s->found++ ? ", " : "", c->code);
}

// Every recipe with what answers it.
static void add_recipes(text *out)
{
    text_add(out, "| recipe | answered by |\n| --- | --- |\n");
    for (const doctor_recipe *r = DOCTOR_RECIPES_TABLE; r->symptom; r++) {
        recipe_state s = {.out = out, .number = r->number};
        text_addf(out, "| %s | ", r->symptom);
        doctor_check_each(add_answer, &s);
        if (r->other) text_addf(out, "%s%s", s.found ? "; " : "", r->other);
        text_add(out, " |\n");
    }
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
        if (markdown) add_recipes(&out);
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
