// Tests evaluation: every sample counts once for every micro-batch size, and the padding rows of the
// last micro-batch never count.
#include "infer/evaluate.h"
#include "infer/predict.h"
#include "unit/train/golden.h"

typedef struct result {
    double loss, count;
} result;

static result evaluate(golden *g, int64_t micro, uint64_t samples)
{
    result r;
    trainer *t = NULL;
    golden_data data = g->data; // `read` wants the whole of it
    data.base.samples = samples;
    trainer_options o = golden_options(g, UPDATE_SGD, F32, micro);
    o.valid = &data.base;
    CHECK(trainer_open(&o, &t, e));
    CHECK(infer_evaluate(t, 0, &r.loss, &r.count, e));
    trainer_close(t);
    return r;
}

static double labels_of(const golden *g, uint64_t samples)
{
    int64_t each = g->data.base.shape.labels;
    double count = 0;
    for (int64_t i = 0; i < (int64_t)samples * each; i++) {
        int32_t label;
        memcpy(&label, g->data.labels + i * 4, 4);
        count += g->data.base.shape.label_type == F32 || label != -100;
    }
    return count;
}

static void check(const char *name, const int64_t *micros, size_t count, uint64_t most)
{
    golden g = {.device = NULL};
    golden_open(&g, name, 1);
    for (uint64_t samples = 1; samples <= most; samples += 3) {
        result one = evaluate(&g, 1, samples); // no padding
        assert_true(one.count == labels_of(&g, samples));
        for (size_t i = 0; i < count; i++) {
            result r = evaluate(&g, micros[i], samples);
            if (r.count != one.count || !(fabs(r.loss - one.loss) <= 1e-5 * fabs(one.loss)))
                fail_msg("%s: %llu samples in micro-batches of %lld: loss %.9g of %.0f, expected "
                         "%.9g of %.0f",
                         name, (unsigned long long)samples, (long long)micros[i], r.loss, r.count,
                         one.loss, one.count);
        }
    }
    golden_close(&g);
}

static const int64_t MICROS[] = {2, 4, 8, 16};

static void padding_rows_of_vectors_with_targets_do_not_count(void **state)
{
    (void)state;
    check("mlp_values", MICROS, 4, 13);
}

static void padding_rows_of_vectors_with_classes_do_not_count(void **state)
{
    (void)state;
    check("mlp_classes", MICROS, 4, 13);
}

static void padding_rows_of_tokens_do_not_count(void **state)
{
    (void)state;
    check("gpt2_new", (int64_t[]){3}, 1, 7);
}

// The labels are the predicted classes, except two wrong ones and an ignored one.
static void accuracy_counts_the_labels_that_are_predicted(void **state)
{
    (void)state;
    golden g = {.device = NULL};
    trainer *t = NULL;
    enum { SAMPLES = 13 };
    int32_t labels[SAMPLES];
    float inputs[SAMPLES * 7];
    const infer_predict_options classes = {.what = PREDICT_CLASSES};
    golden_open(&g, "mlp_classes", 1);
    golden_data data = g.data;
    data.base.samples = SAMPLES;
    trainer_options o = golden_options(&g, UPDATE_SGD, F32, 4);
    o.valid = &data.base;
    CHECK(trainer_open(&o, &t, e));
    assert_true(infer_has_accuracy(t));
    for (int i = 0; i < SAMPLES; i++)
        memcpy(inputs + i * 7, g.data.inputs + i * g.data.input_row, 7 * sizeof *inputs);
    CHECK(infer_predict(t, &classes, inputs, SAMPLES, labels, e));
    labels[3] = (labels[3] + 1) % 5;
    labels[12] = (labels[12] + 1) % 5;
    labels[7] = -100;
    data.labels = (const char *)labels;
    uint64_t right, count;
    CHECK(infer_accuracy(t, 0, &right, &count, e));
    assert_int_equal(count, SAMPLES - 1);
    assert_int_equal(right, SAMPLES - 3);
    trainer_close(t);
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(padding_rows_of_vectors_with_targets_do_not_count),
        cmocka_unit_test(padding_rows_of_vectors_with_classes_do_not_count),
        cmocka_unit_test(padding_rows_of_tokens_do_not_count),
        cmocka_unit_test(accuracy_counts_the_labels_that_are_predicted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
