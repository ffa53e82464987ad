// Tests of reports: as text, as JSON and read back, and files of machines.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "doctor_rig.h"

static void must(status s, const err *e)
{
    if (s != OK) fail_msg("%s", e->text);
}

// A machine with a small /dev/shm.
static void run_small(rig *r, doctor_report *out)
{
    static const char *const codes[] = {"shm-size", "tf-config", NULL};
    err e = {.code = OK};
    rig_open(r);
    rig_write(r, "/proc/mounts", "shm /dev/shm tmpfs rw,size=65536k 0 0\n");
    must(doctor_run(&r->context, DOCTOR_PASSIVE, codes, out, &e), &e);
}

static char *text_of(const doctor_report *r, bool all)
{
    text t = {0};
    char *s = NULL;
    err e = {.code = OK};
    doctor_add_text(&t, r, all);
    must(text_take(&t, &s, &e), &e);
    return s;
}

static void a_report_survives_json(void **state)
{
    (void)state;
    rig r;
    doctor_report a, b;
    json_t *json = NULL, *again = NULL;
    err e = {.code = OK};
    run_small(&r, &a);
    doctor_measure(&a.of[0], "rate", 1.5, "GB/s", true);
    doctor_fact(&a.of[0], "kernel", "6.1 \"x\"");
    must(doctor_to_json(&a, &json, &e), &e);
    must(doctor_from_json(json, &b, &e), &e);
    must(doctor_to_json(&b, &again, &e), &e);
    assert_true(json_equal(json, again));
    char *one = text_of(&a, true), *other = text_of(&b, true);
    assert_string_equal(one, other);
    assert_int_equal(b.of[0].number_count, 1);
    assert_true(b.of[0].number[0].compares);
    assert_string_equal(b.of[0].fact[0].text, "6.1 \"x\"");
    free(one);
    free(other);
    json_decref(json);
    json_decref(again);
    doctor_report_clear(&a);
    doctor_report_clear(&b);
    rig_close(&r);
}

static void the_worst_finding_stands_first(void **state)
{
    (void)state;
    rig r;
    doctor_report report;
    doctor_severity worst;
    run_small(&r, &report);
    assert_true(doctor_worst(&report, &worst));
    assert_int_equal(worst, DOCTOR_WARNING);
    char *s = text_of(&report, false);
    assert_int_equal(strncmp(s, "warning shm-size: ", 18), 0);
    assert_non_null(strstr(s, "1 check passed, 1 found something, 0 could not see, 0 do not "
                              "concern this machine\n"));
    free(s);
    doctor_report_clear(&report);
    rig_close(&r);
}

static void refuse(const char *json_text, const char *line)
{
    err e = {.code = OK};
    doctor_report r;
    json_t *json = json_loads(json_text, 0, NULL);
    assert_non_null(json);
    assert_int_equal(doctor_from_json(json, &r, &e), E_USAGE);
    assert_string_equal(e.text, line);
    json_decref(json);
}

static void reports_that_are_none_are_refused(void **state)
{
    (void)state;
    refuse("{}", "a report of trireme doctor: no list stands under \"checks\"");
    refuse("{\"checks\": []}", "a report of trireme doctor: no text stands under \"host\"");
    refuse("{\"host\": \"a\", \"checks\": [{\"code\": \"shm-size\", \"state\": \"ill\"}]}",
           "a report of trireme doctor: found \"ill\" under \"state\", which is none of its words");
    refuse("{\"host\": \"a\", \"checks\": [{\"code\": \"shm-size\", \"state\": \"found\", "
           "\"findings\": [{\"severity\": \"error\", \"values\": {\"where\": 3}}]}]}",
           "a report of trireme doctor: the value \"where\" is no text");
    err e = {.code = OK};
    doctor_report r;
    json_t *json =
        json_loads("{\"host\": \"a\", \"checks\": [{\"code\": \"of-tomorrow\"}]}", 0, NULL);
    must(doctor_from_json(json, &r, &e), &e);
    assert_int_equal(r.count, 0);
    doctor_report_clear(&r);
    json_decref(json);
}

static void write_file(const rig *r, char path[128], const char *content)
{
    (void)snprintf(path, 128, "%s/m.yaml", r->root);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    (void)fputs(content, f);
    (void)fclose(f);
}

static void a_machine_is_chosen_and_read(void **state)
{
    (void)state;
    rig r;
    char path[128];
    err e = {.code = OK};
    doctor_machine *m = NULL;
    double value = 0;
    rig_open(&r);
    write_file(&r, path, "name: two\nmatch: {gpu: '*H100*', gpus: 2}\nthresholds: {pcie_gen: 5}\n");
    must(doctor_machine_open(path, &m, &e), &e);
    assert_string_equal(doctor_machine_name(m), "two");
    assert_true(doctor_machine_matches(m, &(doctor_identity){"NVIDIA H100 80GB", 2, "any"}));
    assert_false(doctor_machine_matches(m, &(doctor_identity){"NVIDIA H100 80GB", 4, "any"}));
    assert_false(doctor_machine_matches(m, &(doctor_identity){"", 0, "any"}));
    assert_true(doctor_machine_threshold(m, "pcie_gen", &value) && value == 5);
    assert_false(doctor_machine_threshold(m, "pcie_width", &value));
    doctor_machine_close(m);
    write_file(&r, path, "name: x\nmatch: {gpus: none}\n");
    assert_int_equal(doctor_machine_open(path, &m, &e), E_USAGE);
    assert_non_null(strstr(e.text, "m.yaml:2: gpus is \"none\""));
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_survives_json),
        cmocka_unit_test(the_worst_finding_stands_first),
        cmocka_unit_test(reports_that_are_none_are_refused),
        cmocka_unit_test(a_machine_is_chosen_and_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
