// test_decoder_ops.c -- the ops that decoders of today have beside attention, in one model: norms with 1 + gain and
// without a gain, norms of queries and keys per head and at full width, before and after the rotation, rotary tables that
// differ between layers, pairs of neighbours, squared ReLU, and capped logits. The gradients equal central
// differences of the loss, and those of ranks equal those of one.
#include "rig.h"

#include "graph/op.h"

#include <math.h>

enum { EMBED, PER_HEAD, FULL_WIDTH, HEAD, BLOCKS, SEQ = 16 };

static int blocks(const void *config)
{
    (void)config;
    return BLOCKS;
}

static int key(const void *config, int block)
{
    (void)config;
    return block;
}

static int layer(const void *config, int block)
{
    (void)config;
    return block;
}

static graph_value *gain(graph *g, const char *name, int64_t count, graph_role role)
{
    graph_value *w = build_weight(g, name, count, 0, INIT_ONES, 0);
    build_roles(g, w, role, ROLE_NONE);
    return w;
}

static graph_value *matrix(graph *g, const char *name, int64_t out, int64_t in, graph_role rows,
                           graph_role cols)
{
    graph_value *w = build_weight(g, name, out, in, INIT_NORMAL, 0.02);
    build_roles(g, w, rows, cols);
    return w;
}

// Half of a head's columns are rotated in the one kind of layer, and all in the other.
static graph_value *rotate(graph *g, graph_value *x, const model_config *c, bool full_width)
{
    static const double frequency[] = {1, 0.3, 0.1};
    const graph_rope table = {.rows = c->max_seq,
                              .pairs = full_width ? 3 : 2,
                              .frequency = frequency,
                              .scale = full_width ? 1 : 1.25};
    return build_rope(g, x, c->heads + c->kv_heads, c->head_dim, &table, !full_width);
}

static graph_value *norm_queries(graph *g, graph_value *x, const model_config *c, bool full_width)
{
    const graph_role role = full_width ? ROLE_HEADS : ROLE_NONE;
    const int64_t q = full_width ? c->heads * c->head_dim : c->head_dim,
                  k = full_width ? c->kv_heads * c->head_dim : c->head_dim;
    return build_qk_norm(g, x,
                         &(graph_qk_norm){.heads = c->heads,
                                          .kv_heads = c->kv_heads,
                                          .head_dim = c->head_dim,
                                          .q_gain = gain(g, "q_norm.{}", q, role),
                                          .k_gain = gain(g, "k_norm.{}", k, role),
                                          .eps = 1e-5,
                                          .full_width = full_width,
                                          .unit_offset = !full_width});
}

static void trace_layer(graph *g, const model_config *c, bool full_width)
{
    const int64_t qkv = (c->heads + 2 * c->kv_heads) * c->head_dim, width = c->heads * c->head_dim;
    const graph_norm form = {.eps = 1e-5, .is_rms = true, .unit_offset = true};
    graph_value *x = build_residual(g, c->hidden);
    graph_value *h =
        build_norm(g, x, full_width ? NULL : gain(g, "norm.{}", c->hidden, ROLE_NONE), NULL, &form);
    h = build_linear(g, h, matrix(g, "qkv.{}", qkv, c->hidden, ROLE_HEADS, ROLE_EMBED), NULL);
    if (full_width)
        h = rotate(g, norm_queries(g, h, c, true), c, true);
    else
        h = norm_queries(g, rotate(g, h, c, false), c, false);
    h = build_attention(
        g, h,
        &(graph_attention){
            .heads = c->heads, .kv_heads = c->kv_heads, .head_dim = c->head_dim, .scale = 0.4});
    h = build_linear(g, h, matrix(g, "o.{}", c->hidden, width, ROLE_EMBED, ROLE_HEADS), NULL);
    x = build_add(g, x, h, 1, 1);
    h = build_norm(g, x, gain(g, "norm2.{}", c->hidden, ROLE_NONE), NULL, &form);
    h = build_linear(g, h, matrix(g, "up.{}", c->ffn, c->hidden, ROLE_MLP, ROLE_EMBED), NULL);
    h = build_activation(g, h, ACT_RELU2);
    h = build_linear(g, h, matrix(g, "down.{}", c->hidden, c->ffn, ROLE_EMBED, ROLE_MLP), NULL);
    build_output(g, build_add(g, x, h, 1, 1));
}

static void trace(graph *g, const void *config, int block)
{
    const model_config *c = config;
    if (block == EMBED) {
        graph_value *ids = build_ids(g);
        graph_value *w = matrix(g, "tokens", c->vocab, c->hidden, ROLE_VOCAB, ROLE_EMBED);
        build_output(g, build_embedding(g, ids, w, NULL, 4));
    } else if (block == HEAD) {
        graph_value *x = build_residual(g, c->hidden);
        x = build_norm(g, x, gain(g, "last", c->hidden, ROLE_NONE), NULL,
                       &(graph_norm){.eps = 1e-5, .is_rms = true});
        graph_value *w = matrix(g, "head", c->vocab, c->hidden, ROLE_VOCAB, ROLE_EMBED);
        build_linear_cross_entropy(g, x, w, NULL, 2, 3);
    } else {
        trace_layer(g, c, block == FULL_WIDTH);
    }
}

static const model_family FAMILY = {
    .name = "decoder", .blocks = blocks, .key = key, .trace = trace, .layer = layer};

static rig_options options(void)
{
    rig_options o = rig_llama();
    o.config.family = &FAMILY;
    o.config.max_seq = SEQ;
    o.model.batch = 3, o.model.seq = SEQ;
    return o;
}

static double loss_of(rig_options o)
{
    rig_result r;
    o.model.mode = GRAPH_EVAL;
    rig(&o, &r);
    rig_clear(&r);
    return r.loss;
}

// The slope of the loss along the direction in which the rig moves the weights of parameter p.
static double slope_along(const rig_options *from, int p)
{
    const double h = 0.001;
    double loss[4];
    for (int i = 0; i < 4; i++) {
        static const double step[] = {-2, -1, 1, 2};
        rig_options o = *from;
        o.moved_param = p, o.moved_by = step[i] * h;
        loss[i] = loss_of(o);
    }
    return (8 * (loss[2] - loss[1]) - (loss[3] - loss[0])) / (12 * h);
}

static void gradients_are_those_of_the_loss(void **state)
{
    (void)state;
    rig_options o = options();
    rig_result r;
    rig(&o, &r);
    for (int p = 0; p < r.params; p++) {
        double claimed = 0, scale = 0;
        float *direction = malloc((size_t)r.size[p] * sizeof *direction);
        rig_draw_direction(p, r.size[p], direction);
        for (int64_t i = 0; i < r.size[p]; i++) {
            const double term = (double)r.grad[p][i] * direction[i];
            claimed += term, scale += term * term;
        }
        const double measured = slope_along(&o, p);
        if (!(fabs(measured - claimed) <= 2e-3 * sqrt(scale) + 5e-3))
            fail_msg("%s: the slope is %.6g, the gradient says %.6g", r.name[p], measured, claimed);
        free(direction);
    }
    rig_clear(&r);
}

static void compare(rig_options o, int tp, int cp, double tolerance)
{
    rig_result one, many;
    rig_options alone = o;
    alone.model.position.sequence_parallel = false, alone.backward = RIG_ONE_CALL;
    rig(&alone, &one);
    o.ranks = tp, o.cp = cp;
    rig(&o, &many);
    if (!(fabs(one.loss - many.loss) <= tolerance * one.loss))
        fail_msg("tp %d, cp %d: loss %.9g, one rank %.9g", tp, cp, many.loss, one.loss);
    for (int p = 0; p < one.params; p++) {
        const double d = rig_distance(&one, &many, p);
        if (!(d <= tolerance)) fail_msg("tp %d, cp %d: %s differs by %.3g", tp, cp, one.name[p], d);
    }
    rig_clear(&one);
    rig_clear(&many);
}

static void ranks_equal_one(void **state)
{
    (void)state;
    for (int sequence = 0; sequence < 2; sequence++)
        for (int recompute = 0; recompute < RECOMPUTES; recompute++) {
            rig_options o = options();
            o.model.position.sequence_parallel = sequence;
            o.model.recompute = (recompute_mode)recompute;
            compare(o, 2, 1, 2e-5);
            compare(o, 2, 2, 2e-5);
        }
    compare(options(), 1, 2, 2e-5);
}

static void a_split_backward_equals_one_call(void **state)
{
    (void)state;
    for (int way = RIG_DGRAD_WGRAD; way <= RIG_WGRAD_DELAYED; way++) {
        rig_options o = options();
        o.backward = (rig_backward)way;
        compare(o, 1, 1, 0);
        compare(o, 2, 1, 2e-5);
    }
}

static void bf16_is_near(void **state)
{
    (void)state;
    rig_options o = options();
    o.model.type = BF16;
    compare(o, 2, 2, 6e-2);
}

static dtype type_of(const void *arg, const char *tensor)
{
    (void)arg;
    return strstr(tensor, "norm") ? F32 : BF16;
}

// A norm without a gain has no weight whose type could be another one.
static void fp32_gains_in_a_bf16_model_are_near(void **state)
{
    (void)state;
    rig_options o = options();
    o.model.type = BF16, o.model.type_of = type_of;
    compare(o, 2, 1, 6e-2);
}

// Each block rotates by its own table, and blocks with the same numbers share one.
static void a_model_has_the_tables_that_differ(void **state)
{
    (void)state;
    rig_options o = options();
    model *m;
    err e;
    if (model_open(&FAMILY, &o.config, &o.model, &m, &e) != OK) fail_msg("%s", e.text);
    assert_int_equal(m->ropes, 2);
    assert_int_equal(m->block[EMBED].rope, -1);
    assert_int_equal(m->block[PER_HEAD].rope, 0);
    assert_int_equal(m->block[FULL_WIDTH].rope, 1);
    assert_int_equal(m->rope[1].offset % DEVICE_ALIGN, 0);
    assert_int_equal(model_rope_bytes(m), m->rope[1].offset + SEQ * 3 * 2 * sizeof(float));
    model_close(m);
}

// A full-width norm adds the sums of the ranks in both passes; per head there is nothing to add.
static void the_collective_of_a_full_width_norm_is_known(void **state)
{
    (void)state;
    rig_options o = options();
    model *m;
    err e;
    o.model.position.mesh.size[AXIS_TP] = 2;
    if (model_open(&FAMILY, &o.config, &o.model, &m, &e) != OK) fail_msg("%s", e.text);
    for (int b = PER_HEAD; b <= FULL_WIDTH; b++) {
        const graph_node_list *lists[] = {&m->block[b].g->forward, &m->block[b].g->backward};
        for (int l = 0; l < 2; l++)
            for (int i = 0; i < lists[l]->count; i++) {
                graph_call c;
                const graph_node *n = lists[l]->node[i];
                if (n->op != OP_QK_NORM && n->op != OP_QK_NORM_GRAD) continue;
                assert_int_equal(graph_call_of(m->block[b].g, n, &c), b == FULL_WIDTH);
                if (b == FULL_WIDTH) assert_int_equal(c.count, 2 * 3 * SEQ);
            }
    }
    model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_the_loss),
        cmocka_unit_test(ranks_equal_one),
        cmocka_unit_test(a_split_backward_equals_one_call),
        cmocka_unit_test(bf16_is_near),
        cmocka_unit_test(fp32_gains_in_a_bf16_model_are_near),
        cmocka_unit_test(a_model_has_the_tables_that_differ),
        cmocka_unit_test(the_collective_of_a_full_width_norm_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
