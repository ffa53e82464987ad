// doctor.c -- runs checks in the order of the tables, and fills the values of findings into the texts of rows. See
// doctor.h. It does not know what any check looks at.
#include "doctor/doctor.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The checks that are chosen.
typedef struct doctor_choice {
    const doctor_check **check;
    size_t count, room;
} doctor_choice;

static bool is_named(const char *const *codes, const char *code)
{
    for (; *codes; codes++)
        if (strcmp(*codes, code) == 0) return true;
    return false;
}

static status refuse_code(const char *code, err *e)
{
    status result = OK;
    const char **all = NULL;
    size_t count = 0, room = 0;
    for (const doctor_table *const *t = DOCTOR_TABLES; *t; t++)
        for (int i = 0; i < (*t)->count; i++) {
            TRY(alloc_grow(&all, &room, count + 1, sizeof *all, "the codes of checks", e));
            all[count++] = (*t)->row[i].code;
        }
    const char *nearest = text_nearest(code, all, count);
    if (nearest)
        FAIL(E_USAGE, "no check has the code \"%s\"; the nearest is \"%s\"", code, nearest);
    FAIL(E_USAGE, "no check has the code \"%s\"; `trireme doctor --list` prints all codes", code);
done:
    free(all);
    return result;
}

static status choose(doctor_level most, const char *const *codes, doctor_choice *out, err *e)
{
    status result = OK;
    for (const char *const *c = codes; c && *c; c++)
        if (!doctor_check_find(*c)) return refuse_code(*c, e);
    for (const doctor_table *const *t = DOCTOR_TABLES; *t; t++)
        for (int i = 0; i < (*t)->count; i++) {
            const doctor_check *check = &(*t)->row[i];
            if (codes ? !is_named(codes, check->code) : check->level > most) continue;
            TRY(alloc_grow(&out->check, &out->room, out->count + 1, sizeof *out->check,
                           "the chosen checks", e));
            out->check[out->count++] = check;
        }
done:
    return result;
}

static status run_check(const doctor_context *c, const doctor_check *check, doctor_findings *out,
                        err *e)
{
    status result = OK;
    *out = (doctor_findings){.check = check};
    const double begin = clock_seconds();
    TRY(check->probe(c, out, e));
    if (out->failed != OK) FAIL(out->failed, "no memory for what check %s found", check->code);
    out->seconds = clock_seconds() - begin;
done:
    return result;
}

status doctor_run(const doctor_context *c, doctor_level most, const char *const *codes,
                  doctor_report *out, err *e)
{
    status result = OK;
    doctor_choice chosen = {0};
    char host[256] = "";
    *out = (doctor_report){0};
    if (gethostname(host, sizeof host - 1) != 0) return err_errno(e, "the name of this host");
    TRY(choose(most, codes, &chosen, e));
    TRY(text_copy(host, &out->host, e));
    TRY(alloc_zeroed(&out->of, chosen.count, sizeof *out->of, "what checks found", e));
    for (size_t i = 0; i < chosen.count; i++) {
        out->count = i + 1;
        TRY(run_check(c, chosen.check[i], &out->of[i], e));
    }
done:
    free(chosen.check);
    if (result != OK) doctor_report_clear(out);
    return result;
}

void doctor_report_clear(doctor_report *r)
{
    for (size_t i = 0; i < r->count; i++) doctor_findings_clear(&r->of[i]);
    free(r->of);
    free(r->host);
    *r = (doctor_report){0};
}

bool doctor_worst(const doctor_report *r, doctor_severity *out)
{
    bool any = false;
    for (size_t i = 0; i < r->count; i++)
        for (size_t j = 0; j < r->of[i].count; j++) {
            const doctor_severity s = r->of[i].finding[j].severity;
            if (!any || s > *out) *out = s;
            any = true;
        }
    return any;
}

// Returns the length of a name in braces at the start of `s`, with its braces, or 0: "{size}" is one, "${HOME}" has none.
static size_t braces(const char *s)
{
    if (*s != '{') return 0;
    const size_t length = strspn(s + 1, "abcdefghijklmnopqrstuvwxyz_0123456789");
    return length > 0 && s[length + 1] == '}' ? length + 2 : 0;
}

status doctor_expand(const char *form, const doctor_finding *f, char **out, err *e)
{
    status result = OK;
    text t = {0};
    for (const char *s = form; *s;) {
        const size_t length = braces(s);
        size_t i = 0;
        if (length == 0) {
            text_add_bytes(&t, s++, 1);
            continue;
        }
        while (i < f->count && (strlen(f->value[i].name) != length - 2 ||
                                strncmp(f->value[i].name, s + 1, length - 2) != 0))
            i++;
        if (i == f->count) FAIL(E_INTERNAL, "no value for %.*s of \"%s\"", (int)length, s, form);
        text_add(&t, f->value[i].text);
        s += length;
    }
    TRY(text_take(&t, out, e));
done:
    text_clear(&t);
    return result;
}
