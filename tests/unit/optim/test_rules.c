// test_rules.c -- every optimizer computes PyTorch's weights, step by step. The weights are in
// tests/golden/optim_torch.txt, which tests/golden/make_optim_steps.py writes.
#include "device/device.h"
#include "optim/optim.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 8, STEPS = 12 };

static void read_line(FILE *f, double *out)
{
    for (int i = 0; i < COUNT; i++) assert_int_equal(fscanf(f, "%lf", &out[i]), 1);
}

static void to_float(float *out, const double *x)
{
    for (int i = 0; i < COUNT; i++) out[i] = (float)x[i];
}

static void check_case(FILE *f, device *d, const optim_config *c, int number)
{
    err e = {0};
    device_stream *s = NULL;
    double row[COUNT];
    float w[COUNT], m[COUNT] = {0}, v[COUNT] = {0}, g[COUNT];
    read_line(f, row);
    to_float(w, row);
    assert_int_equal(d->ops->stream_open(d, STREAM_COMPUTE, false, &s, &e), OK);
    for (uint64_t t = 1; t <= STEPS; t++) {
        kernel_call call = {.kind = K_UPDATE};
        kernel_update_args *u = &call.u.update;
        read_line(f, row);
        to_float(g, row);
        *u = (kernel_update_args){.count = COUNT, .w = w, .g = g, .low_type = F32};
        u->m = optim_state_tensors(c) > 0 ? m : NULL;
        u->v = optim_state_tensors(c) > 1 ? v : NULL;
        const kernel_step_group group = optim_step(c, t, c->lr);
        optim_fill(c, u);
        u->group = &group;
        device_launch(s, &call);
        assert_int_equal(d->ops->sync(s, &e), OK);
        read_line(f, row);
        for (int i = 0; i < COUNT; i++)
            if (!(fabs(w[i] - row[i]) <= 3e-6 * (1 + fabs(row[i]))))
                fail_msg("case %d (%s), step %d, element %d: %.9g, PyTorch %.9g", number,
                         OPTIM_NAMES[c->rule], (int)t, i, w[i], row[i]);
    }
    d->ops->stream_close(s);
}

static void rules_are_those_of_pytorch(void **state)
{
    (void)state;
    FILE *f = fopen(TESTS_DIR "/golden/optim_torch.txt", "r");
    device *d = NULL;
    err e = {0};
    char name[16];
    int cases = 0, of_rule[UPDATE_RULES] = {0};
    optim_config c = {0};
    assert_non_null(f);
    if (device_open("cpu", &(device_options){.threads = 1}, &d, &e) != OK) fail_msg("%s", e.text);
    while (fscanf(f, " case %15s %lf %lf %lf %lf %lf", name, &c.lr, &c.beta1, &c.beta2, &c.eps,
                  &c.weight_decay) == 6) {
        for (int r = 0; r < UPDATE_RULES; r++)
            if (strcmp(name, OPTIM_NAMES[r]) == 0) c.rule = (kernel_update_rule)r;
        assert_string_equal(name, OPTIM_NAMES[c.rule]);
        of_rule[c.rule]++;
        check_case(f, d, &c, ++cases);
    }
    assert_true(feof(f));
    for (int r = 0; r < UPDATE_RULES; r++) assert_true(of_rule[r] >= 2);
    device_close(d);
    fclose(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rules_are_those_of_pytorch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
