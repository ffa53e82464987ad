// test_unused.c -- parameters that the loss does not depend on: an error names all of them, or
// their gradients are zero.
#include "unit/api/fixture.h"

enum { WIDTH = 8 };

// The number of unused weights of the first block, and the length of their names.
typedef struct unused_weights {
    int count, name_bytes;
} unused_weights;

static int two_blocks(const void *config)
{
    (void)config;
    return 2;
}

static void trace(trm_builder *b, const void *config, int block)
{
    const unused_weights *c = config;
    if (block == 0) {
        trm_value *x = trm_features(b, 4);
        for (int i = 0; i < c->count; i++) {
            char name[256];
            snprintf(name, sizeof name, "idle_%0*d", c->name_bytes, i);
            trm_weight(b, name, 2, 2, TRM_NORMAL, 0.1);
        }
        trm_value *w = trm_weight(b, "a", WIDTH, 4, TRM_NORMAL, 0.1);
        trm_output(b, trm_linear(b, x, w, NULL));
    } else {
        trm_value *w = trm_weight(b, "c", 3, WIDTH, TRM_NORMAL, 0.1);
        trm_cross_entropy(b, trm_input(b, WIDTH), w, NULL);
    }
}

static const trm_family family = {"idle", two_blocks, NULL, NULL, trace};

static trm_status read_vectors(void *context, uint64_t sample, void *inputs, void *labels,
                               trm_error *e)
{
    float *x = inputs;
    for (uint64_t i = 0; i < 4; i++) x[i] = (float)((sample * 7 + i * 3) % 11) / 11;
    *(int32_t *)labels = (int32_t)(sample % 3);
    (void)context, (void)e;
    return TRM_OK;
}

static const trm_dataset vectors = {
    .samples = 64, .positions = 1, .features = 4, .read = read_vectors};

static trm_status step(trm_trainer *t, void *arg, trm_error *e)
{
    trm_step s;
    (void)arg;
    return trm_trainer_step(t, &s, e);
}

static trm_status run_with(unused_weights c, const char *choice, const char *policy)
{
    trm_job *job = new_job();
    SET(job, "parallel.unused_parameters", choice, "parallel.dp", policy);
    ACCEPT(trm_job_use_data(job, TRM_TRAIN, &vectors, &error));
    ACCEPT(trm_job_use_model(job, &family, &c, NULL, &error));
    trm_status s = trm_run(job, step, NULL, &error);
    trm_job_close(job);
    return s;
}

static void all_of_them_are_named(void **state)
{
    (void)state;
    REFUSE(run_with((unused_weights){1, 1}, "error", "ddp"));
    HAS("1 parameter gets no gradient: idle_0; valid: parallel.unused_parameters zero");
    REFUSE(run_with((unused_weights){3, 1}, "error", "zero3"));
    HAS("3 parameters get no gradient: idle_0, idle_1, idle_2; valid: ");
}

static void more_than_a_line_holds_are_counted(void **state)
{
    (void)state;
    REFUSE(run_with((unused_weights){60, 40}, "error", "ddp"));
    HAS("60 parameters get no gradient: idle_0");
    HAS("0, idle_0");
    HAS(" more; valid: ");
    assert_true(strlen(error.text) < 800);
    assert_null(strstr(error.text, "\n"));
}

static void zero_takes_them(void **state)
{
    (void)state;
    ACCEPT(run_with((unused_weights){3, 1}, "zero", "ddp"));
    ACCEPT(run_with((unused_weights){3, 1}, "zero", "zero3"));
    ACCEPT(run_with((unused_weights){0, 1}, "error", "ddp"));
}

// A model whose first block only applies an activation to the features.
static void trace_without_first_weight(trm_builder *b, const void *config, int block)
{
    (void)config;
    if (block == 0) {
        trm_output(b, trm_activation(b, trm_features(b, 4), TRM_RELU));
    } else {
        trm_value *w = trm_weight(b, "c", 3, 4, TRM_NORMAL, 0.1);
        trm_cross_entropy(b, trm_input(b, 4), w, NULL);
    }
}

static const trm_family no_first_weight = {"idle", two_blocks, NULL, NULL,
                                           trace_without_first_weight};

static void a_first_block_without_parameters_needs_no_backward(void **state)
{
    (void)state;
    trm_job *job = new_job();
    ACCEPT(trm_job_use_data(job, TRM_TRAIN, &vectors, &error));
    ACCEPT(trm_job_use_model(job, &no_first_weight, &vectors, NULL, &error));
    ACCEPT(trm_run(job, step, NULL, &error));
    trm_job_close(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_of_them_are_named, enter_folder, leave_folder),
        cmocka_unit_test_setup_teardown(more_than_a_line_holds_are_counted, enter_folder,
                                        leave_folder),
        cmocka_unit_test_setup_teardown(zero_takes_them, enter_folder, leave_folder),
        cmocka_unit_test_setup_teardown(a_first_block_without_parameters_needs_no_backward,
                                        enter_folder, leave_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
