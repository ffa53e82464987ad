// doctor_start.c -- see doctor_start.h. It changes nothing of a run: what cannot be checked is left to trireme doctor.
#include "cmd/doctor/doctor_start.h"

#include "cmd/console.h"
#include "doctor/doctor.h"

#include <stdlib.h>

extern char **environ;

enum { CODES_MOST = 32 };

typedef struct start_checks {
    const char *code[CODES_MOST + 1]; // ends with NULL
    int count;
    bool on_gpus;
} start_checks;

static void add(const doctor_table *t, const doctor_check *c, void *arg)
{
    start_checks *s = arg;
    (void)t;
    if (c->at_start == DOCTOR_START_NEVER || s->count == CODES_MOST) return;
    if (c->at_start == DOCTOR_START_ALWAYS || s->on_gpus) s->code[s->count++] = c->code;
}

static void warn(const doctor_findings *f)
{
    char *issue = NULL;
    if (doctor_expand(f->check->issue, &f->finding[0], &issue, NULL) == OK)
        console_warn("%s (trireme doctor %s)", issue, f->check->code);
    free(issue);
}

void doctor_warn_at_start(bool on_gpus)
{
    start_checks s = {.on_gpus = on_gpus};
    doctor_report r = {0};
    const doctor_context c = {.root = "", .environment = environ, .nvml = "libnvidia-ml.so.1"};
    doctor_check_each(add, &s);
    if (doctor_run(&c, DOCTOR_PASSIVE, s.code, &r, NULL) != OK) return;
    for (size_t i = 0; i < r.count; i++)
        if (r.of[i].count > 0) {
            warn(&r.of[i]);
            break;
        }
    doctor_report_clear(&r);
}
