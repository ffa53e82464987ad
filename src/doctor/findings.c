// findings.c -- what a check calls to say what it found. See check.h. Running out of memory is kept in the findings,
// and doctor_run returns it.
#include "doctor/doctor.h"

#include "base/alloc.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void value_clear(doctor_value *v)
{
    free(v->name);
    free(v->text);
}

static void finding_clear(doctor_finding *f)
{
    for (size_t i = 0; i < f->count; i++) value_clear(&f->value[i]);
    free(f->value);
}

void doctor_findings_clear(doctor_findings *f)
{
    for (size_t i = 0; i < f->count; i++) finding_clear(&f->finding[i]);
    for (size_t i = 0; i < f->number_count; i++) {
        free(f->number[i].key);
        free(f->number[i].unit);
    }
    for (size_t i = 0; i < f->fact_count; i++) value_clear(&f->fact[i]);
    free(f->finding);
    free(f->number);
    free(f->fact);
    free(f->why);
    *f = (doctor_findings){.check = f->check};
}

// Adds a copy of a pair to an array of pairs.
static status add_value(doctor_value **array, size_t *count, size_t *room, const char *name,
                        const char *value)
{
    status result = OK;
    doctor_value v = {0};
    err *e = NULL;
    TRY(text_copy(name, &v.name, e));
    TRY(text_copy(value, &v.text, e));
    TRY(alloc_grow(array, room, *count + 1, sizeof **array, "a finding", e));
    (*array)[(*count)++] = v;
    v = (doctor_value){0};
done:
    value_clear(&v);
    return result;
}

static void find(doctor_findings *out, doctor_severity severity, const char *name, va_list values)
{
    err *e = NULL;
    status result = OK;
    doctor_finding f = {.severity = severity};
    for (; name; name = va_arg(values, const char *)) {
        const char *value = va_arg(values, const char *);
        TRY(add_value(&f.value, &f.count, &f.room, name, value));
    }
    TRY(alloc_grow(&out->finding, &out->room, out->count + 1, sizeof f, "a finding", e));
    out->finding[out->count++] = f;
    out->state = DOCTOR_FOUND;
    f = (doctor_finding){0};
done:
    finding_clear(&f);
    if (result != OK) out->failed = result;
}

void doctor_find(doctor_findings *out, const char *name, ...)
{
    va_list values;
    va_start(values, name);
    find(out, out->check->severity, name, values);
    va_end(values);
}

void doctor_find_as(doctor_findings *out, doctor_severity severity, const char *name, ...)
{
    va_list values;
    va_start(values, name);
    find(out, severity, name, values);
    va_end(values);
}

// The first reason stays, and a check that has found something is not set aside.
static void set_aside(doctor_findings *out, doctor_state state, const char *why, va_list args)
{
    text t = {0};
    if (out->state != DOCTOR_PASSED) return;
    text_addv(&t, why, args);
    if (text_take(&t, &out->why, NULL) != OK)
        out->failed = E_MEMORY;
    else
        out->state = state;
}

void doctor_skip(doctor_findings *out, const char *why, ...)
{
    va_list args;
    va_start(args, why);
    set_aside(out, DOCTOR_SKIPPED, why, args);
    va_end(args);
}

void doctor_blind(doctor_findings *out, const char *why, ...)
{
    va_list args;
    va_start(args, why);
    set_aside(out, DOCTOR_BLIND, why, args);
    va_end(args);
}

void doctor_measure(doctor_findings *out, const char *key, double value, const char *unit,
                    bool compares)
{
    err *e = NULL;
    status result = OK;
    doctor_number n = {.value = value, .compares = compares};
    TRY(text_copy(key, &n.key, e));
    TRY(text_copy(unit, &n.unit, e));
    TRY(alloc_grow(&out->number, &out->number_room, out->number_count + 1, sizeof n, "a number",
                   e));
    out->number[out->number_count++] = n;
    n = (doctor_number){0};
done:
    free(n.key);
    free(n.unit);
    if (result != OK) out->failed = result;
}

void doctor_fact(doctor_findings *out, const char *key, const char *value)
{
    if (add_value(&out->fact, &out->fact_count, &out->fact_room, key, value) != OK)
        out->failed = E_MEMORY;
}
