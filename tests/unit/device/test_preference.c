// test_preference.c -- the kernels of preference losses: sums of documents against sums taken here, weights of rows
// against central differences of the loss, losses of pairs against numbers that follow from the formulas; and the
// weights and the losses of rows in K_CROSS_ENTROPY.
#include "gradient_check.h"

enum { DOCUMENTS = 6, ROWS = 9 };

// The last pair has no rows; of pair 1 only the chosen document has some.
static const int32_t FIRST[DOCUMENTS + 1] = {0, 3, 5, 9, 9, 9, 9};
static const float REFERENCE[2 * DOCUMENTS] = {-3, 0.25f, -2, 0, -5, 0.5f, 0, 0, 0, 0, 0, 0};

// One pair of two parts each: the prompt of the rejected answer has no rows.
static const int32_t FIRST_PARTS[5] = {0, 3, 5, 5, 9};
static const double SHARED = 0.2;

static double loss_of(const kernel_preference *form, const double *losses, float *weights,
                      double *count, double *metrics)
{
    const bool parts = form->kind == PREFERENCE_ORPO;
    const int32_t *first = parts ? FIRST_PARTS : FIRST;
    const int64_t documents = parts ? 4 : DOCUMENTS;
    double sums[2 * DOCUMENTS], loss = 0;
    run(K_DOCUMENT_SUMS,
        &(kernel_document_sums_args){
            .documents = documents, .first = first, .losses = losses, .sums = sums});
    run(K_PREFERENCE, &(kernel_preference_args){.documents = documents,
                                                .form = *form,
                                                .shared = &SHARED,
                                                .first = first,
                                                .sums = sums,
                                                .reference = REFERENCE,
                                                .weights = weights,
                                                .loss_sum = &loss,
                                                .count = count,
                                                .metrics = metrics});
    return loss;
}

static const kernel_preference FORMS[] = {
    {.kind = PREFERENCE_SIGMOID, .beta = 0.3},
    {.kind = PREFERENCE_SIGMOID, .beta = 0.5, .smoothing = 0.2},
    {.kind = PREFERENCE_HINGE, .beta = 0.1},
    {.kind = PREFERENCE_IPO, .beta = 0.4},
    {.kind = PREFERENCE_EXO_PAIR, .beta = 0.6, .smoothing = 0.05},
    {.kind = PREFERENCE_NCA_PAIR, .beta = 0.7},
    {.kind = PREFERENCE_ROBUST, .beta = 0.6, .smoothing = 0.1},
    {.kind = PREFERENCE_BCO_PAIR, .beta = 0.7},
    {.kind = PREFERENCE_SPPO_HARD, .beta = 0.8},
    {.kind = PREFERENCE_APO_ZERO, .beta = 0.7},
    {.kind = PREFERENCE_APO_DOWN, .beta = 0.7},
    {.kind = PREFERENCE_DISCOPOP, .beta = 0.7, .tau = 0.3},
    {.kind = PREFERENCE_SIGMOID_NORM, .beta = 0.9},
    {.kind = PREFERENCE_ORPO, .beta = 0.7},
    {.kind = PREFERENCE_KTO, .beta = 0.3, .desirable = 1.5, .undesirable = 0.5},
};
enum { FORM_COUNT = sizeof FORMS / sizeof *FORMS };

static const double LOSSES[ROWS] = {0.5, 1.25, 0.75, 2, 0.5, 1, 1.5, 0.25, 0.75};

static void weights_are_the_derivatives_of_the_loss(void **state)
{
    (void)state;
    const double h = 1e-5;
    for (int f = 0; f < FORM_COUNT; f++) {
        float weights[ROWS];
        (void)loss_of(&FORMS[f], LOSSES, weights, NULL, NULL);
        for (int r = 0; r < ROWS; r++) {
            double more[ROWS], less[ROWS];
            memcpy(more, LOSSES, sizeof more), memcpy(less, LOSSES, sizeof less);
            more[r] += h, less[r] -= h;
            const double slope = (loss_of(&FORMS[f], more, NULL, NULL, NULL) -
                                  loss_of(&FORMS[f], less, NULL, NULL, NULL)) /
                                 (2 * h);
            if (!(fabs(slope - (double)weights[r]) < 1e-6))
                fail_msg("loss %d, row %d: the weight is %g, the slope %g", f, r,
                         (double)weights[r], slope);
        }
    }
}

// Document 0 has the log-probability -2.5 and the reference's -2.75, document 1 -2.5 and -2.
static void losses_are_those_of_the_formulas(void **state)
{
    (void)state;
    double count = 0, metrics[PREFERENCE_SUMS] = {0};
    const double margin = 0.25 + 0.5; // document 2: -3.5, its reference -4.5
    const double loss = loss_of(&FORMS[0], LOSSES, NULL, &count, metrics);
    const double first = log1p(exp(-0.3 * margin)), second = log1p(exp(-0.3 * (-3.5 + 4.5)));
    assert_true(fabs(loss - first - second) < 1e-12);
    assert_true(count == 2); // the last pair has no rows
    assert_true(metrics[PREFERENCE_PAIRS] == 1 && metrics[PREFERENCE_ACCURATE] == 1);
    assert_true(fabs(metrics[PREFERENCE_CHOSEN] - 0.3 * 0.25) < 1e-7);
    assert_true(fabs(metrics[PREFERENCE_REJECTED] + 0.3 * 0.5) < 1e-7);
    count = 0;
    const double kto = loss_of(&FORMS[FORM_COUNT - 1], LOSSES, NULL, &count, NULL);
    const double expected = 1.5 * (1 - 1 / (1 + exp(-0.3 * (0.25 - SHARED)))) +
                            0.5 / (1 + exp(0.3 * (0.5 + SHARED))) +
                            1.5 * (1 - 1 / (1 + exp(-0.3 * (1 - SHARED))));
    assert_true(count == 3); // documents with rows
    assert_true(fabs(kto - expected) < 1e-12);
    // The prompt has the log-probability -2.5, the chosen answer -2.5 in 2 rows, the rejected one -3.5 in 4.
    count = 0;
    const double orpo = loss_of(&FORMS[FORM_COUNT - 2], LOSSES, NULL, &count, NULL);
    const double c = -1.25, d = -0.875;
    const double odds = c - log(1 - exp(c)) - (d - log(1 - exp(d)));
    assert_true(count == 1);
    assert_true(fabs(orpo - SHARED * 5 - 0.7 * log1p(exp(-odds))) < 1e-12);
}

// A negative control: the slope of another loss is not the weight.
static void another_losses_weights_are_found(void **state)
{
    (void)state;
    float one[ROWS], other[ROWS];
    (void)loss_of(&FORMS[0], LOSSES, one, NULL, NULL);
    (void)loss_of(&FORMS[1], LOSSES, other, NULL, NULL);
    assert_true(fabsf(one[0] - other[0]) > 1e-3f);
}

// ---- K_CROSS_ENTROPY

static void rows_of_cross_entropy_have_weights(void **state)
{
    (void)state;
    enum { N = 4, COLS = 5 };
    static const int32_t labels[N] = {0, 4, IGNORED_LABEL, 2};
    static const float weights[N] = {0.5f, -2, 7, 0};
    for (int level = 0; level < 2; level++) {
        cpu_kernels k;
        cpu_kernels_fill(&k, level == 0 ? CPU_GENERIC : context.level);
        float *plain = harness_random(N * COLS, 3), *x = harness_random(N * COLS, 3);
        double losses[N], sum = 0, count = 0, first = 0, rows = 0;
        kernel_cross_entropy_args a = {.rows = N,
                                       .cols = COLS,
                                       .logits = plain,
                                       .labels = labels,
                                       .losses = losses,
                                       .loss_sum = &first,
                                       .count = &rows,
                                       .scale = 1,
                                       .ignore = IGNORED_LABEL,
                                       .gradient = true};
        k.run[K_CROSS_ENTROPY](&context, &a);
        assert_true(rows == 3 && losses[2] == 0);
        assert_true(fabs(first - losses[0] - losses[1] - losses[3]) < 1e-12);
        a.logits = x, a.weights = weights, a.losses = NULL, a.loss_sum = &sum, a.count = &count;
        k.run[K_CROSS_ENTROPY](&context, &a);
        assert_true(count == -1.5);
        assert_true(fabs(sum - 0.5 * losses[0] + 2 * losses[1]) < 1e-6);
        for (int i = 0; i < N * COLS; i++)
            assert_true(fabsf(x[i] - (labels[i / COLS] < 0 ? 0 : weights[i / COLS]) * plain[i]) <
                        1e-6f);
        free(plain), free(x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_the_derivatives_of_the_loss),
        cmocka_unit_test(losses_are_those_of_the_formulas),
        cmocka_unit_test(another_losses_weights_are_found),
        cmocka_unit_test(rows_of_cross_entropy_have_weights),
    };
    return cmocka_run_group_tests(tests, gradient_open, gradient_close);
}
