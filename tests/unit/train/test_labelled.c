// test_labelled.c -- a loss that leaves rows without a label out: the arrays that sort a micro-batch's rows; gradients of
// rows have the bits of a loss that computes all rows, whichever rows have labels; weighted rows and pairs against
// central differences.
#include "device/kernels.h"
#include "unit/graph/run_graph.h"

#include "train/batches/labelled.h"

#include <math.h>
#include <stdio.h>

enum { COLS = 8, VOCAB = 40, SEQ = 48, BATCH = 2, ROWS = BATCH * SEQ };

static graph *make_graph(graph_loss_options loss, dtype type)
{
    graph *g = NULL;
    const graph_options o = {.mode = GRAPH_TRAIN,
                             .type = type,
                             .batch = BATCH,
                             .seq = SEQ,
                             .needs = run_needs(),
                             .documents = loss.preference.kind != PREFERENCE_NONE,
                             .loss = loss};
    assert_int_equal(graph_open(&o, &g, NULL), OK);
    graph_value *x = build_input(g, COLS);
    x = build_linear(g, x, build_weight(g, "up", COLS, COLS, INIT_NORMAL, 1), NULL);
    build_linear_cross_entropy(g, x, build_weight(g, "head", VOCAB, COLS, INIT_NORMAL, 1), NULL, 1,
                               0);
    assert_int_equal(graph_finish(g, RECOMPUTE_NONE, NULL), OK);
    return g;
}

// The labels of a micro-batch as data have them.
typedef struct batch {
    dataset_shape shape;
    int32_t inputs[BATCH * 2 * SEQ], labels[BATCH * 3 * SEQ];
} batch;

static void fill_batch(batch *b, int extras, int every, bool pairs)
{
    *b = (batch){.shape = {.labels = SEQ, .label_type = I32, .extras = extras}};
    for (int s = 0; s < BATCH; s++)
        for (int i = 0; i < SEQ; i++) {
            int32_t *labels = b->labels + s * (1 + extras) * SEQ;
            const bool has = (i + s) % every == 0 && i % 12 != 11;
            const bool prompt = pairs && extras == 0 && i % 24 < 5; // of ORPO
            labels[i] = !pairs && every == 1 ? (i * 7 + s) % VOCAB
                        : has                ? (i * 5 + s) % VOCAB | (prompt ? PROMPT_LABEL : 0)
                                             : IGNORED_LABEL;
            b->inputs[(2 * s + 1) * SEQ + i] = i / 12 * 12; // four documents, of two pairs
            for (int k = 0; k < extras; k++) {
                const float number = extras == 1 ? 0.25f + (float)(i % 5) : k == 0 ? -20 : 0.125f;
                memcpy(&labels[(1 + k) * SEQ + i], &number, sizeof number);
            }
        }
}

// What a run gives.
typedef struct outcome {
    double loss, count;
    float dx[ROWS * COLS], dw[VOCAB * COLS];
    uint16_t dx16[ROWS * COLS];
} outcome;

static void run_batch(const graph *g, const batch *b, const float *weight, outcome *out)
{
    device *d;
    device_stream *on;
    run_result r = {.loss = 0};
    bool *written[RUN_PARAMS];
    const kernel_step step = {.loss_scale = 1};
    const double shared = 0.05;
    assert_int_equal(device_open("cpu", &(device_options){.threads = 2}, &d, NULL), OK);
    assert_int_equal(d->ops->stream_open(d, STREAM_COMPUTE, false, &on, NULL), OK);
    run_inputs(g, &r);
    free(r.base[REGION_LABELS]);
    r.base[REGION_LABELS] = run_alloc(graph_value_bytes(g->labels));
    if (weight) memcpy(r.weight[1], weight, VOCAB * COLS * sizeof *weight);
    for (int i = 0; i < RUN_PARAMS; i++) written[i] = &r.grad_written[i];
    const labelled_batch from = {b->shape, b->inputs, b->labels};
    graph_run run = {.g = g,
                     .stream = on,
                     .weight = r.weight,
                     .gradient = r.grad,
                     .grad_written = written,
                     .loss_sum = &out->loss,
                     .loss_count = &out->count,
                     .preference_shared = &shared,
                     .step = &step};
    if (g->loss.packs)
        run.labelled = labelled_pack(g, &from, (int32_t *)(void *)r.base[REGION_LABELS]);
    else
        memcpy(r.base[REGION_LABELS], b->labels, ROWS * sizeof(int32_t));
    memcpy(run.base, r.base, sizeof run.base);
    out->loss = out->count = 0;
    assert_int_equal(graph_run_forward(&run, NULL), OK);
    assert_int_equal(d->ops->sync(on, NULL), OK);
    const graph_node *n = g->forward.node[g->forward.count - 1];
    const void *dx = graph_run_ptr(&run, n->out[0]);
    if (g->type == F32)
        memcpy(out->dx, dx, sizeof out->dx);
    else
        memcpy(out->dx16, dx, sizeof out->dx16);
    memcpy(out->dw, r.grad[1], sizeof out->dw);
    d->ops->stream_close(on);
    device_close(d);
    run_clear(&r);
}

static void rows_have_the_bits_of_a_loss_of_all_rows(void **state)
{
    (void)state;
    static const int every[] = {1, 2, 3, 7, 1000};
    for (dtype type = F32; type <= BF16; type++) {
        graph *all = make_graph((graph_loss_options){.packs = false}, type),
              *packed = make_graph((graph_loss_options){.packs = true}, type);
        for (int i = 0; i < 5; i++) {
            static batch b;
            static outcome want, got;
            fill_batch(&b, 0, every[i], false);
            if (every[i] == 1000) // no row has a label
                for (int k = 0; k < ROWS; k++) b.labels[k] = IGNORED_LABEL;
            run_batch(all, &b, NULL, &want);
            run_batch(packed, &b, NULL, &got);
            assert_memory_equal(want.dx16, got.dx16, sizeof want.dx16);
            for (int k = 0; k < ROWS * COLS; k++) assert_true(want.dx[k] == got.dx[k]);
            assert_true(want.count == got.count);
            assert_true(fabs(want.loss - got.loss) <= 1e-12 * fabs(want.loss));
            const double most = type == F32 ? 1e-5 : 1e-2;
            for (int k = 0; k < VOCAB * COLS; k++)
                assert_true(fabs((double)want.dw[k] - (double)got.dw[k]) <= most);
            if (every[i] == 1) assert_memory_equal(want.dw, got.dw, sizeof want.dw);
            if (every[i] == 1) assert_true(want.loss == got.loss);
        }
        graph_close(all);
        graph_close(packed);
    }
}

static void a_row_has_the_bits_that_it_has_among_others(void **state)
{
    (void)state;
    static batch many, few;
    static outcome of_many, of_few;
    graph *g = make_graph((graph_loss_options){.packs = true}, F32);
    fill_batch(&many, 0, 2, false);
    few = many;
    for (int i = 0; i < ROWS; i++)
        if (i % 6 != 4) few.labels[i] = IGNORED_LABEL;
    run_batch(g, &many, NULL, &of_many);
    run_batch(g, &few, NULL, &of_few);
    int same = 0;
    for (int i = 0; i < ROWS; i++)
        if (few.labels[i] != IGNORED_LABEL) {
            assert_memory_equal(of_many.dx + i * COLS, of_few.dx + i * COLS, COLS * sizeof(float));
            same++;
        }
    assert_int_equal(same, 8);
    graph_close(g);
}

// Adds the rows of the logits' products.
static void add_rows(void *arg, const kernel_call *c)
{
    if (c->kind == K_MATMUL && c->u.matmul.n == VOCAB) *(int64_t *)arg += c->u.matmul.m;
}

// Predictions count as many rows as the data have labels, and what must have room counts all.
static void a_visit_counts_rows_as_the_data_have_labels(void **state)
{
    (void)state;
    static const double share[] = {0, 0.1, 0.5, 1};
    static const int64_t typical[] = {ROWS, LOSS_ROWS_ALIGN, ROWS / 2, ROWS};
    for (int i = 0; i < 4; i++) {
        graph *g = make_graph((graph_loss_options){.packs = true, .labelled = share[i]}, F32);
        for (int k = 0; k < 2; k++) {
            int64_t rows = 0;
            const graph_visitor v = {.take = add_rows, .arg = &rows, .typical = k == 1};
            graph_visit(g, &v);
            assert_int_equal(rows, k == 1 ? typical[i] : ROWS);
        }
        graph_close(g);
    }
}

static double loss_along(const graph *g, const batch *b, const float *w, const float *along,
                         float h)
{
    static outcome out;
    float moved[VOCAB * COLS];
    for (int i = 0; i < VOCAB * COLS; i++) moved[i] = w[i] + h * along[i];
    run_batch(g, b, moved, &out);
    return out.loss;
}

// The gradient of the head against central differences along random directions, by the five-point formula.
static void check_weight_gradient(graph_loss_options loss, int extras)
{
    static batch b;
    static outcome at;
    const float h = 2e-3f;
    graph *g = make_graph(loss, F32);
    float *w = run_random(VOCAB * COLS, F32, F32, 77);
    for (int i = 0; i < VOCAB * COLS; i++) w[i] *= 0.2f;
    fill_batch(&b, extras, 2, loss.preference.kind != PREFERENCE_NONE);
    run_batch(g, &b, w, &at);
    for (uint64_t direction = 0; direction < 3; direction++) {
        float *along = run_random(VOCAB * COLS, F32, F32, 100 + direction);
        double claimed = 0;
        for (int i = 0; i < VOCAB * COLS; i++) claimed += (double)at.dw[i] * (double)along[i];
        const double near = loss_along(g, &b, w, along, h) - loss_along(g, &b, w, along, -h),
                     far = loss_along(g, &b, w, along, 2 * h) - loss_along(g, &b, w, along, -2 * h);
        const double slope = (8 * near - far) / (12 * (double)h);
        if (!(fabs(slope - claimed) <= 2e-3 * fabs(slope) + 2e-3))
            fail_msg("preference %d: the gradient gives %g, the loss %g", (int)loss.preference.kind,
                     claimed, slope);
        assert_true(fabs(slope) > 1e-3);
        free(along);
    }
    free(w);
    graph_close(g);
}

static void gradients_are_those_of_the_loss(void **state)
{
    (void)state;
    check_weight_gradient((graph_loss_options){.packs = true}, 0);
    check_weight_gradient((graph_loss_options){.packs = true, .weighted = true}, 1);
    for (int kind = PREFERENCE_SIGMOID; kind <= PREFERENCE_KTO; kind++)
        check_weight_gradient(
            (graph_loss_options){.packs = true,
                                 .preference = {.kind = (kernel_preference_kind)kind,
                                                .beta = 0.1,
                                                .smoothing = 0.1,
                                                .tau = 0.5,
                                                .desirable = 1,
                                                .undesirable = 0.5}},
            kind == PREFERENCE_ORPO ? 0 : 2);
}

// Two context-parallel ranks have two runs of tokens each, and count the documents of the full sequence.
static void arrays_follow_the_tokens_of_a_rank(void **state)
{
    (void)state;
    static batch b;
    fill_batch(&b, 2, 2, true);
    int32_t labelled = 0, seen = 0;
    for (int i = 0; i < BATCH * SEQ; i++)
        labelled += b.labels[i / SEQ * 3 * SEQ + i % SEQ] != IGNORED_LABEL;
    for (int rank = 0; rank < 2; rank++) {
        graph *g = make_graph(
            (graph_loss_options){.packs = true, .preference = {.kind = PREFERENCE_SIGMOID}}, F32);
        g->sequences.tokens = graph_tokens(SEQ, 2, rank);
        const graph_loss_arrays a = graph_loss_arrays_of(g);
        int32_t *out = calloc((size_t)a.elements, sizeof *out);
        const labelled_batch from = {b.shape, b.inputs, b.labels};
        const graph_labelled_rows rows = labelled_pack(g, &from, out);
        const int32_t count = out[a.first + a.documents];
        assert_ptr_equal(rows.index, out + a.index);
        assert_true(rows.count >= count && rows.count % LOSS_ROWS_ALIGN == 0);
        for (int32_t k = 0; k < count; k++) {
            const int64_t row = out[a.index + k];
            const int64_t logical = kernel_logical_row(&g->sequences.tokens, row);
            const int64_t document = logical / SEQ * a.each + logical % SEQ / 12;
            assert_int_equal(out[k], b.labels[logical / SEQ * 3 * SEQ + logical % SEQ]);
            assert_int_equal(out[a.inverse + row], k);
            assert_true(k >= out[a.first + document] && k < out[a.first + document + 1]);
            float high;
            memcpy(&high, &out[a.reference + 2 * document], sizeof high);
            assert_true(high == -20);
        }
        for (int64_t k = count; k < a.packed; k++) assert_int_equal(out[k], IGNORED_LABEL);
        seen += count;
        free(out);
        graph_close(g);
    }
    assert_int_equal(seen, labelled);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_have_the_bits_of_a_loss_of_all_rows),
        cmocka_unit_test(a_row_has_the_bits_that_it_has_among_others),
        cmocka_unit_test(a_visit_counts_rows_as_the_data_have_labels),
        cmocka_unit_test(gradients_are_those_of_the_loss),
        cmocka_unit_test(arrays_follow_the_tokens_of_a_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
