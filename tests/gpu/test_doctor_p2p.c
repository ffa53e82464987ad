// test_doctor_p2p.c -- the check gpu-p2p-data on the cuda device of the stand-in: silent where copies between GPUs are right,
// and it finds a machine that changes a byte of them.
#include "child.h"

#include "doctor_rig.h"

// ---- In a child, whose environment says how many GPUs there are

static void run(doctor_report *report)
{
    const char *const codes[] = {"gpu-p2p-data", NULL};
    char *none[] = {NULL};
    const doctor_context c = {.root = "", .environment = none, .nvml = "", .port = 29500};
    err e = {.code = OK};
    CHECK(doctor_run(&c, DOCTOR_ACTIVE, codes, report, &e) == OK);
    CHECK(report->count == 1);
}

static void copies_right(void)
{
    doctor_report report;
    run(&report);
    if (report.of[0].state != DOCTOR_PASSED)
        fprintf(stderr, "state %d: %s\n", (int)report.of[0].state, report.of[0].why);
    doctor_report_clear(&report);
}

static void copies_wrong(void)
{
    doctor_report report;
    char *issue = NULL;
    err e = {.code = OK};
    run(&report);
    const doctor_findings *f = &report.of[0];
    CHECK(f->state == DOCTOR_FOUND);
    CHECK(f->count == 1);
    CHECK(f->finding[0].severity == DOCTOR_ERROR);
    CHECK(doctor_expand(f->check->issue, &f->finding[0], &issue, &e) == OK);
    if (strcmp(issue, "GPU 0 and GPU 1 copied 4 bytes of 33554432 wrongly") != 0)
        fprintf(stderr, "%s\n", issue);
    free(issue);
    doctor_report_clear(&report);
}

static void has_one_gpu(void)
{
    doctor_report report;
    run(&report);
    CHECK(report.of[0].state == DOCTOR_SKIPPED);
    CHECK(strcmp(report.of[0].why, "this machine has one GPU") == 0);
    doctor_report_clear(&report);
}

static void has_no_driver(void)
{
    doctor_report report;
    run(&report);
    CHECK(report.of[0].state == DOCTOR_SKIPPED);
    CHECK(strstr(report.of[0].why, "driver") != NULL);
    doctor_report_clear(&report);
}

// ---- Tests: rig_expect_passed and rig_expect_found of "gpu-p2p-data", in children

static void test_right_copies_pass(void **state)
{
    (void)state;
    child_passes("TRIREME_STAND_IN_DEVICES=3 TRIREME_STAND_IN_SEED=1", copies_right);
    rig_note("passed", "gpu-p2p-data");
}

static void test_a_changed_byte_is_found(void **state)
{
    (void)state;
    child_passes("TRIREME_STAND_IN_DEVICES=2 TRIREME_STAND_IN_PEERS=1", copies_wrong);
    rig_note("found", "gpu-p2p-data");
}

static void test_a_machine_without_two_gpus_skips_it(void **state)
{
    (void)state;
    child_passes("TRIREME_STAND_IN_DEVICES=1", has_one_gpu);
    child_passes("TRIREME_STAND_IN_DRIVER=none", has_no_driver);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_copies_pass),
        cmocka_unit_test(test_a_changed_byte_is_found),
        cmocka_unit_test(test_a_machine_without_two_gpus_skips_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
