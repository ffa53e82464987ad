// test_pairs.c -- data sets of pairs: each answer after the prompt of another one, as TRL pairs them, and chosen answers
// whose prompts have labels. The data are a few rows that are written down here.
#include "device/kernels.h"
#include "session/preference/mismatched.h"
#include "session/preference/prompts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LENGTH = 12, SAMPLES = 3 };

// A document: ids first, first + 1, …, of which the last `answer` are the answer.
typedef struct document {
    int tokens, answer, first;
} document;
static const document DOCUMENTS[SAMPLES][2] = {{{3, 1, 10}, {4, 2, 20}},
                                               {{5, 3, 30}, {1, 0, 0}}, // a completion with a label
                                               {{6, 2, 40}, {6, 5, 50}}};

static status read_sample(dataset *d, uint64_t sample, void *inputs, void *labels, err *e)
{
    int32_t *ids = inputs, *start = ids + LENGTH, *label = labels;
    int at = 0;
    (void)d, (void)e;
    for (int k = 0; k < 2; k++) {
        const document *one = &DOCUMENTS[sample][k];
        for (int i = 0; i < one->tokens; i++) {
            ids[at + i] = one->first + i;
            start[at + i] = at;
            label[at + i] = i + 1 < one->tokens && i + 1 >= one->tokens - one->answer
                                ? one->first + i + 1
                                : IGNORED_LABEL;
        }
        at += one->tokens;
    }
    for (int i = at; i < LENGTH; i++) ids[i] = 0, start[i] = at, label[i] = IGNORED_LABEL;
    return OK;
}

static void close_nothing(dataset *d)
{
    (void)d;
}

static dataset make_source(void)
{
    return (dataset){.shape = {.inputs = 2 * LENGTH, .labels = LENGTH, .documents = true},
                     .samples = SAMPLES,
                     .read = read_sample,
                     .close = close_nothing};
}

// Reads row `row` and compares it with ids and labels; 0 in `labels`: none.
static void expect_row(dataset *d, uint64_t row, const int32_t *ids, const int32_t *starts,
                       const int32_t *labels)
{
    int32_t inputs[2 * LENGTH], label[LENGTH];
    assert_int_equal(d->read(d, row, inputs, label, NULL), OK);
    assert_memory_equal(inputs, ids, LENGTH * sizeof *ids);
    assert_memory_equal(inputs + LENGTH, starts, LENGTH * sizeof *starts);
    for (int i = 0; i < LENGTH; i++)
        assert_int_equal(label[i], labels[i] ? labels[i] : IGNORED_LABEL);
}

static void open_answers(dataset *source, uint64_t group, mismatched *m)
{
    int32_t inputs[2 * LENGTH], labels[LENGTH];
    assert_int_equal(mismatched_open(source, group, m, NULL), OK);
    for (uint64_t s = 0; s < SAMPLES; s++) {
        assert_int_equal(read_sample(source, s, inputs, labels, NULL), OK);
        assert_int_equal(mismatched_add(m, s, inputs, labels, NULL), OK);
    }
    assert_int_equal(m->answers, 5);
}

// Samples 0 and 1 are a group of three answers, whose last one follows the first prompt.
static void answers_follow_the_prompts_of_others(void **state)
{
    (void)state;
    dataset source = make_source();
    mismatched m;
    mismatched_rows *rows;
    open_answers(&source, 2, &m);
    const uint64_t all[SAMPLES] = {0, 1, 2};
    assert_int_equal(mismatched_rows_open(&m, all, SAMPLES, &rows, NULL), OK);
    assert_int_equal(rows->base.samples, 2);
    assert_int_equal(rows->answers, 5);
    assert_int_equal(rows->first[1], 3);
    expect_row(&rows->base, 0, (int32_t[]){10, 11, 32, 33, 34, 20, 21, 12, 30, 31, 22, 23},
               (int32_t[]){0, 0, 0, 0, 0, 5, 5, 5, 8, 8, 8, 8},
               (int32_t[]){0, 32, 33, 34, 0, 0, 12, 0, 0, 22, 23, 0});
    dataset_close(&rows->base);
    mismatched_close(&m);
}

// A prompt of 4 and an answer of 5 tokens, and the other way round, in a group of one sample.
static void a_group_is_of_whole_samples(void **state)
{
    (void)state;
    dataset source = make_source();
    mismatched m;
    mismatched_rows *rows;
    open_answers(&source, 1, &m);
    assert_int_equal(mismatched_rows_open(&m, (uint64_t[]){2}, 1, &rows, NULL), OK);
    assert_int_equal(rows->base.samples, 1);
    expect_row(&rows->base, 0, (int32_t[]){40, 41, 42, 43, 51, 52, 53, 54, 55, 50, 44, 45},
               (int32_t[]){0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 9, 9},
               (int32_t[]){0, 0, 0, 51, 52, 53, 54, 55, 0, 44, 45, 0});
    dataset_close(&rows->base);
    mismatched_close(&m);
}

static void prompts_of_chosen_answers_have_labels(void **state)
{
    (void)state;
    const int32_t p = PROMPT_LABEL;
    dataset source = make_source(), *d = &source;
    assert_int_equal(prompts_wrap(&d, "data", NULL), OK);
    expect_row(d, 0, (int32_t[]){10, 11, 12, 20, 21, 22, 23, 0, 0, 0, 0, 0},
               (int32_t[]){0, 0, 0, 3, 3, 3, 3, 7, 7, 7, 7, 7},
               (int32_t[]){11 | p, 12, 0, 0, 22, 23, 0, 0, 0, 0, 0, 0});
    // Two and five labels.
    assert_true(prompts_share(d, (uint64_t[]){0, 2}, 2) == 2.0 / 7);
    dataset_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_follow_the_prompts_of_others),
        cmocka_unit_test(a_group_is_of_whole_samples),
        cmocka_unit_test(prompts_of_chosen_answers_have_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
