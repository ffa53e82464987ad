// test_predict.c -- compares a trainer's predictions with the logits of transformers, and their loss
// with the loss that the trainer's evaluation computes.
#include "infer/evaluate.h"
#include "infer/predict.h"
#include "unit/train/golden.h"

static trainer *open_predictor(golden *g, const char *name, dtype precision, int64_t micro)
{
    trainer *t = NULL;
    golden_open(g, name, 1);
    trainer_options o = golden_options(g, UPDATE_ADAMW, precision, micro);
    o.valid = &g->data.base;
    CHECK(trainer_open(&o, &t, e));
    return t;
}

// Reads inputs and labels of the first `samples` samples. The caller frees them.
static void read_samples(golden *g, int64_t samples, void **inputs, void **labels)
{
    const dataset_shape *s = &g->data.base.shape;
    *inputs = malloc((size_t)(samples * s->inputs) * 4);
    *labels = malloc((size_t)(samples * s->labels) * 4);
    for (int64_t i = 0; i < samples; i++)
        CHECK(g->data.base.read(&g->data.base, (uint64_t)i, (float *)*inputs + i * s->inputs,
                                (float *)*labels + i * s->labels, e));
}

static void *predict(trainer *t, infer_prediction what, bool last, const void *inputs,
                     int64_t samples, infer_prediction_shape *shape)
{
    const infer_predict_options o = {.what = what, .last = last};
    CHECK(infer_predict_shape(t, &o, shape, e));
    void *out = malloc((size_t)(samples * shape->positions * shape->cols) * 4);
    CHECK(infer_predict(t, &o, inputs, samples, out, e));
    return out;
}

// Five sequences of the golden prompt in micro-batches of two. The last row is a padding row.
static void check_logits(const char *name)
{
    enum { SAMPLES = 5 };
    golden g = {0};
    trainer *t = NULL;
    infer_prediction_shape shape;
    golden_open(&g, name, 1);
    const safetensors_tensor *prompt = golden_tensor(&g, "prompt"),
                             *want = golden_tensor(&g, "logits");
    const int64_t seq = prompt->dim[0], vocab = want->dim[1];
    trainer_options o = golden_options(&g, UPDATE_ADAMW, F32, 2);
    o.global_batch = 2;
    o.seq_len = seq;
    o.train = NULL;
    o.predicts = true;
    CHECK(trainer_open(&o, &t, e));
    int32_t *inputs = malloc((size_t)(SAMPLES * seq) * sizeof *inputs);
    for (int64_t i = 0; i < SAMPLES; i++)
        memcpy(inputs + i * seq, prompt->data, (size_t)seq * sizeof *inputs);
    float *all = predict(t, PREDICT_LOGITS, false, inputs, SAMPLES, &shape);
    assert_true(shape.positions == seq && shape.cols == vocab && shape.type == F32);
    float *last = predict(t, PREDICT_LOGITS, true, inputs, SAMPLES, &shape);
    assert_true(shape.positions == 1 && shape.cols == vocab);
    for (int64_t i = 0; i < SAMPLES; i++) {
        double worst = relative_error(all + i * seq * vocab, want, 0, seq * vocab);
        if (!(worst <= 1e-5)) fail_msg("%s: relative error %.3g", name, worst);
        assert_memory_equal(last + i * vocab, all + ((i + 1) * seq - 1) * vocab,
                            (size_t)vocab * sizeof *last);
    }
    free(inputs);
    free(all);
    free(last);
    trainer_close(t);
    golden_close(&g);
}

static void test_logits_equal_transformers(void **state)
{
    (void)state;
    check_logits("gpt2_new");
    check_logits("llama_llama3");
}

static double cross_entropy(const float *logits, int64_t cols, int32_t label)
{
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < cols; i++) most = fmax(most, (double)logits[i]);
    for (int64_t i = 0; i < cols; i++) sum += exp((double)logits[i] - most);
    return log(sum) + most - (double)logits[label];
}

// Computes the loss of the samples from their logits.
static void check_loss(const char *name, int64_t micro)
{
    golden g = {0};
    infer_prediction_shape shape, one;
    double loss, sum = 0, count = 0;
    void *inputs, *labels;
    trainer *t = open_predictor(&g, name, F32, micro);
    const int64_t samples = (int64_t)g.data.base.samples;
    read_samples(&g, samples, &inputs, &labels);
    CHECK(infer_evaluate(t, 0, &loss, NULL, e));
    float *logits = predict(t, PREDICT_LOGITS, false, inputs, samples, &shape);
    int32_t *classes = predict(t, PREDICT_CLASSES, false, inputs, samples, &one);
    for (int64_t i = 0; i < samples * shape.positions; i++) {
        const int32_t label = ((int32_t *)labels)[i];
        const float *row = logits + i * shape.cols;
        for (int64_t k = 0; k < shape.cols; k++) assert_true(row[k] <= row[classes[i]]);
        if (label < 0) continue;
        sum += cross_entropy(row, shape.cols, label);
        count++;
    }
    if (!(fabs(sum / count - loss) <= 1e-5 * loss))
        fail_msg("%s: loss %.9g, of the logits %.9g", name, loss, sum / count);
    free(inputs);
    free(labels);
    free(logits);
    free(classes);
    trainer_close(t);
    golden_close(&g);
}

static void test_the_loss_of_the_logits_equals_that_of_the_evaluation(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt2_new", "gpt2_variants", "llama_gqa", "llama_llama3",
                                        "llama_linear"};
    for (int i = 0; i < 5; i++) check_loss(names[i], 3);
    check_loss("mlp_classes", 16);
}

static void test_vectors_of_a_regression_are_its_predictions(void **state)
{
    (void)state;
    golden g = {0};
    infer_prediction_shape shape;
    double loss, sum = 0;
    void *inputs, *labels;
    err refused = {0};
    trainer *t = open_predictor(&g, "mlp_values", F32, 16);
    const int64_t samples = (int64_t)g.data.base.samples;
    read_samples(&g, samples, &inputs, &labels);
    CHECK(infer_evaluate(t, 0, &loss, NULL, e));
    float *values = predict(t, PREDICT_VECTORS, false, inputs, samples, &shape);
    assert_true(shape.positions == 1 && shape.cols == 1);
    for (int64_t i = 0; i < samples; i++)
        sum += pow((double)values[i] - (double)((float *)labels)[i], 2);
    assert_true(fabs(sum / (double)samples - loss) <= 1e-5 * loss);
    assert_int_equal(
        infer_predict_shape(t, &(infer_predict_options){.what = PREDICT_LOGITS}, &shape, &refused),
        E_USAGE);
    assert_non_null(strstr(refused.text, "valid: vectors"));
    free(inputs);
    free(labels);
    free(values);
    trainer_close(t);
    golden_close(&g);
}

// Applies the last layer to the vectors and compares the results with the logits.
static void test_vectors_of_a_classifier_are_what_its_last_layer_reads(void **state)
{
    (void)state;
    enum { SAMPLES = 7 };
    golden g = {0};
    infer_prediction_shape shape, wide;
    void *inputs, *labels;
    trainer *t = open_predictor(&g, "mlp_classes", F32, 4);
    read_samples(&g, SAMPLES, &inputs, &labels);
    float *logits = predict(t, PREDICT_LOGITS, false, inputs, SAMPLES, &shape),
          *vectors = predict(t, PREDICT_VECTORS, false, inputs, SAMPLES, &wide);
    const float *w = safetensors_find(g.weights, "layers.2.weight")->data,
                *b = safetensors_find(g.weights, "layers.2.bias")->data;
    for (int64_t i = 0; i < SAMPLES * shape.cols; i++) {
        double sum = (double)b[i % shape.cols];
        for (int64_t k = 0; k < wide.cols; k++)
            sum += (double)vectors[i / shape.cols * wide.cols + k] *
                   (double)w[i % shape.cols * wide.cols + k];
        assert_true(fabs(sum - (double)logits[i]) <= 1e-5);
    }
    free(inputs);
    free(labels);
    free(logits);
    free(vectors);
    trainer_close(t);
    golden_close(&g);
}

static void test_predicting_changes_nothing(void **state)
{
    (void)state;
    double loss[2];
    for (int with = 0; with < 2; with++) {
        golden g = {0};
        infer_prediction_shape shape;
        trainer_step_result r;
        void *inputs, *labels;
        trainer *t = open_predictor(&g, "gpt2_new", BF16, 1);
        read_samples(&g, 2, &inputs, &labels);
        for (int step = 0; step < 3; step++) {
            CHECK(trainer_step(t, false, &r, e));
            if (with) free(predict(t, PREDICT_CLASSES, false, inputs, 2, &shape));
        }
        loss[with] = r.loss;
        free(inputs);
        free(labels);
        trainer_close(t);
        golden_close(&g);
    }
    assert_true(loss[0] == loss[1]);
}

static void test_a_token_outside_the_vocabulary_is_refused(void **state)
{
    (void)state;
    golden g = {0};
    err refused = {0};
    void *inputs, *labels;
    const infer_predict_options o = {.what = PREDICT_CLASSES};
    trainer *t = open_predictor(&g, "gpt2_new", F32, 1);
    int32_t classes[64];
    read_samples(&g, 2, &inputs, &labels);
    ((int32_t *)inputs)[g.data.base.shape.inputs + 3] = 96;
    assert_int_equal(infer_predict(t, &o, inputs, 2, classes, &refused), E_USAGE);
    assert_non_null(strstr(refused.text, "sample 1: token 3 is 96; valid: 0 to 95"));
    free(inputs);
    free(labels);
    trainer_close(t);
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits_equal_transformers),
        cmocka_unit_test(test_the_loss_of_the_logits_equals_that_of_the_evaluation),
        cmocka_unit_test(test_vectors_of_a_regression_are_its_predictions),
        cmocka_unit_test(test_vectors_of_a_classifier_are_what_its_last_layer_reads),
        cmocka_unit_test(test_predicting_changes_nothing),
        cmocka_unit_test(test_a_token_outside_the_vocabulary_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
