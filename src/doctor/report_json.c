// report_json.c -- a report as JSON, for programs and for the other hosts of a run, and read back. See doctor.h.
//
//   {"host": "a", "checks": [{"code": "shm-size", "state": "found", "seconds": 0.0001, "why": "…",
//     "findings": [{"severity": "warning", "issue": "…", "values": {"mount": "/dev/shm"}}],
//     "numbers": [{"key": "…", "value": 1.5, "unit": "GB/s", "compares": true}], "facts": {"kernel": "6.1"}}]}
#include "base/alloc.h"
#include "doctor/doctor.h"

#include <stdlib.h>
#include <string.h>

static const char *const STATE[] = {[DOCTOR_PASSED] = "passed",
                                    [DOCTOR_FOUND] = "found",
                                    [DOCTOR_SKIPPED] = "skipped",
                                    [DOCTOR_BLIND] = "blind"};
enum { STATES = sizeof STATE / sizeof *STATE, SEVERITIES = DOCTOR_ERROR + 1 };

// ---- Writing. jansson says that memory ran out when the last value is put into place.

static json_t *values_of(const doctor_value *v, size_t count)
{
    json_t *o = json_object();
    for (size_t i = 0; i < count; i++) json_object_set_new(o, v[i].name, json_of_text(v[i].text));
    return o;
}

static status finding_of(const doctor_check *c, const doctor_finding *f, json_t *to, err *e)
{
    status result = OK;
    char *issue = NULL;
    TRY(doctor_expand(c->issue, f, &issue, e));
    json_array_append_new(
        to, json_pack("{s:s, s:o, s:o}", "severity", doctor_severity_name(f->severity), "issue",
                      json_of_text(issue), "values", values_of(f->value, f->count)));
done:
    free(issue);
    return result;
}

static json_t *numbers_of(const doctor_findings *f)
{
    json_t *to = json_array();
    for (size_t i = 0; i < f->number_count; i++)
        json_array_append_new(to, json_pack("{s:s, s:f, s:s, s:b}", "key", f->number[i].key,
                                            "value", f->number[i].value, "unit", f->number[i].unit,
                                            "compares", f->number[i].compares));
    return to;
}

static status check_of(const doctor_findings *f, json_t *to, err *e)
{
    status result = OK;
    json_t *findings = json_array();
    for (size_t i = 0; i < f->count; i++) TRY(finding_of(f->check, &f->finding[i], findings, e));
    json_t *one = json_pack("{s:s, s:s, s:f, s:O, s:o, s:o}", "code", f->check->code, "state",
                            STATE[f->state], "seconds", f->seconds, "findings", findings, "numbers",
                            numbers_of(f), "facts", values_of(f->fact, f->fact_count));
    if (f->why) json_object_set_new(one, "why", json_of_text(f->why));
    if (json_array_append_new(to, one) != 0) FAIL(E_MEMORY, "out of memory for a report");
done:
    json_decref(findings);
    return result;
}

status doctor_to_json(const doctor_report *r, json_t **out, err *e)
{
    status result = OK;
    json_t *checks = json_array();
    for (size_t i = 0; i < r->count; i++) TRY(check_of(&r->of[i], checks, e));
    *out = json_pack("{s:o, s:O}", "host", json_of_text(r->host ? r->host : ""), "checks", checks);
    if (!*out) FAIL(E_MEMORY, "out of memory for a report");
done:
    json_decref(checks);
    return result;
}

// ---- Reading

// The text of a key; E_USAGE where it is missing or no text.
static status take_text(const json_t *from, const char *key, const char **out, err *e)
{
    *out = json_string_value(json_object_get(from, key));
    return *out ? OK
                : err_set(e, E_USAGE, "a report of trireme doctor: no text stands under \"%s\"",
                          key);
}

static status take_word(const json_t *from, const char *key, const char *const *words, int count,
                        int *out, err *e)
{
    status result = OK;
    const char *word;
    TRY(take_text(from, key, &word, e));
    for (*out = 0; *out < count; ++*out)
        if (strcmp(words[*out], word) == 0) return OK;
    FAIL(E_USAGE,
         "a report of trireme doctor: found \"%s\" under \"%s\", which is none of its words", word,
         key);
done:
    return result;
}

static status read_values(const json_t *from, doctor_value **out, size_t *count, size_t *room,
                          err *e)
{
    status result = OK;
    const char *name;
    json_t *value;
    // jansson's loop takes a changeable object, and changes nothing.
    json_object_foreach((json_t *)(uintptr_t)from, name, value)
    {
        if (!json_is_string(value))
            FAIL(E_USAGE, "a report of trireme doctor: the value \"%s\" is no text", name);
        TRY(alloc_grow(out, room, *count + 1, sizeof **out, "a report", e));
        doctor_value *v = &(*out)[(*count)++];
        *v = (doctor_value){0};
        TRY(text_copy(name, &v->name, e));
        TRY(text_copy(json_string_value(value), &v->text, e));
    }
done:
    return result;
}

static status read_finding(const json_t *from, doctor_findings *out, err *e)
{
    static const char *const words[] = {"note", "warning", "error"};
    status result = OK;
    int severity;
    TRY(take_word(from, "severity", words, SEVERITIES, &severity, e));
    TRY(alloc_grow(&out->finding, &out->room, out->count + 1, sizeof *out->finding, "a report", e));
    doctor_finding *f = &out->finding[out->count++];
    *f = (doctor_finding){.severity = (doctor_severity)severity};
    TRY(read_values(json_object_get(from, "values"), &f->value, &f->count, &f->room, e));
done:
    return result;
}

static status read_number(const json_t *from, doctor_findings *out, err *e)
{
    status result = OK;
    const char *key, *unit;
    TRY(take_text(from, "key", &key, e));
    TRY(take_text(from, "unit", &unit, e));
    doctor_measure(out, key, json_number_value(json_object_get(from, "value")), unit,
                   json_is_true(json_object_get(from, "compares")));
    result = out->failed;
done:
    return result;
}

// A host with another version may have other checks: those that this one does not know are left out.
static status read_check(const json_t *from, doctor_report *out, err *e)
{
    status result = OK;
    const char *code;
    json_t *one;
    size_t i;
    int state;
    TRY(take_text(from, "code", &code, e));
    const doctor_check *c = doctor_check_find(code);
    if (!c) return OK;
    TRY(take_word(from, "state", STATE, STATES, &state, e));
    doctor_findings *f = &out->of[out->count++];
    *f = (doctor_findings){.check = c,
                           .seconds = json_number_value(json_object_get(from, "seconds"))};
    json_array_foreach(json_object_get(from, "findings"), i, one) TRY(read_finding(one, f, e));
    json_array_foreach(json_object_get(from, "numbers"), i, one) TRY(read_number(one, f, e));
    TRY(read_values(json_object_get(from, "facts"), &f->fact, &f->fact_count, &f->fact_room, e));
    const char *why = json_string_value(json_object_get(from, "why"));
    if (why) TRY(text_copy(why, &f->why, e));
    f->state = (doctor_state)state;
done:
    return result;
}

status doctor_from_json(const json_t *from, doctor_report *out, err *e)
{
    status result = OK;
    const char *host;
    json_t *one;
    size_t i;
    *out = (doctor_report){0};
    const json_t *checks = json_object_get(from, "checks");
    if (!json_is_array(checks))
        FAIL(E_USAGE, "a report of trireme doctor: no list stands under \"checks\"");
    TRY(take_text(from, "host", &host, e));
    TRY(text_copy(host, &out->host, e));
    TRY(alloc_zeroed(&out->of, json_array_size(checks), sizeof *out->of, "a report", e));
    json_array_foreach(checks, i, one) TRY(read_check(one, out, e));
done:
    if (result != OK) doctor_report_clear(out);
    return result;
}
