// test_adapters.c -- low-rank adapters of linear layers: their gradients are the slopes of the loss, under tensor and
// context parallelism those of one rank, and the same bits whatever is recomputed or computed apart.
#include "rig.h"

#include <string.h>

enum { CONFIGS = 2 + RIG_FAMILIES };

// Every linear layer has an adapter; those of layer 1 and of "o_proj" have another rank.
static graph_adapter everywhere(const void *arg, const char *tensor)
{
    const float *dropout = arg;
    const bool other = strstr(tensor, ".1.") || strstr(tensor, "o_proj");
    return (graph_adapter){.rank = other ? 3 : 2, .scale = other ? 1 : 0.7f, .dropout = *dropout};
}

static graph_adapter nowhere(const void *arg, const char *tensor)
{
    (void)arg, (void)tensor;
    return (graph_adapter){.rank = 0};
}

static bool is_base(const void *arg, const char *tensor)
{
    (void)arg;
    return !strstr(tensor, ".lora_");
}

static const float DROPOUT = 0.2f, NO_DROPOUT = 0;

static rig_options config_of(int i)
{
    rig_options o = i >= 2 ? rig_family(i - 2) : i ? rig_llama() : rig_gpt2();
    if (i < 2) rig_finish(&o);
    o.model.adapter_of = everywhere, o.model.adapter_arg = &DROPOUT;
    o.model.is_frozen = is_base;
    o.model.seq = 8;
    return o;
}

static void check_equal(const char *what, const rig_result *full, const rig_result *other,
                        double tolerance)
{
    int adapters = 0;
    if (!(fabs(full->loss - other->loss) <= tolerance * fabs(full->loss)))
        fail_msg("%s: loss %.9g, full %.9g", what, other->loss, full->loss);
    for (int p = 0; p < full->params; p++) {
        const double d = rig_distance(full, other, p);
        adapters += strstr(full->name[p], ".lora_") != NULL;
        assert_true(full->frozen[p] == !strstr(full->name[p], ".lora_"));
        if (!(d <= tolerance)) fail_msg("%s: %s differs by %.3g", what, full->name[p], d);
    }
    assert_true(adapters >= 8);
}

static void compare(rig_options o, int tp, int cp, bool sequence, double tolerance)
{
    char what[96];
    rig_result full, sharded;
    rig(&o, &full);
    o.ranks = tp, o.cp = cp, o.model.position.sequence_parallel = sequence;
    snprintf(what, sizeof what, "%s, tp %d, cp %d%s, recompute %d", o.config.family->name, tp, cp,
             sequence ? ", sequence" : "", o.model.recompute);
    rig(&o, &sharded);
    check_equal(what, &full, &sharded, tolerance);
    rig_clear(&full);
    rig_clear(&sharded);
}

static void ranks_have_the_gradients_of_one(void **state)
{
    (void)state;
    for (int i = 0; i < CONFIGS; i++)
        for (int recompute = 0; recompute < RECOMPUTES; recompute++) {
            rig_options o = config_of(i);
            o.model.recompute = (recompute_mode)recompute;
            compare(o, 2, 1, false, 1e-5);
            compare(o, 2, 1, true, 1e-5);
        }
    for (int i = 0; i < 2; i++) compare(config_of(i), 1, 2, false, 1e-5);
    compare(config_of(0), 4, 1, true, 1e-5);
    compare(config_of(0), 2, 2, false, 1e-5);
}

// Four ranks with two heads of keys and values share rows of B.
static void ranks_that_share_heads_have_the_gradients_of_one(void **state)
{
    (void)state;
    rig_options o = config_of(1);
    o.config.ffn = 24;
    compare(o, 4, 1, false, 1e-5);
    compare(o, 4, 1, true, 1e-5);
}

static void recompute_and_wgrad_keep_the_bits(void **state)
{
    (void)state;
    for (int i = 0; i < CONFIGS; i++) {
        rig_result first, other;
        rig_options o = config_of(i);
        rig(&o, &first);
        for (int recompute = 0; recompute < RECOMPUTES; recompute++)
            for (int backward = RIG_ONE_CALL; backward <= RIG_WGRAD_DELAYED; backward++) {
                o.model.recompute = (recompute_mode)recompute;
                o.backward = (rig_backward)backward;
                rig(&o, &other);
                if (!rig_same_bits(&first, &other))
                    fail_msg("%s: recompute %d, backward %d give other bits", o.config.family->name,
                             recompute, backward);
                rig_clear(&other);
            }
        rig_clear(&first);
    }
}

// A base that trains, too, gets the gradients that it gets beside frozen adapters.
static void a_base_that_trains_has_the_same_gradients_of_adapters(void **state)
{
    (void)state;
    rig_options o = config_of(1);
    rig_result frozen, trained;
    rig(&o, &frozen);
    o.model.is_frozen = NULL;
    rig(&o, &trained);
    assert_true(frozen.loss == trained.loss);
    for (int p = 0; p < frozen.params; p++)
        if (!frozen.frozen[p])
            assert_memory_equal(frozen.grad[p], trained.grad[p],
                                (size_t)frozen.size[p] * sizeof(float));
    rig_clear(&frozen);
    rig_clear(&trained);
}

static double loss_of(rig_options o)
{
    rig_result r;
    rig(&o, &r);
    rig_clear(&r);
    return r.loss;
}

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

static void gradients_are_the_slopes_of_the_loss(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        rig_options o = config_of(i);
        rig_result r;
        rig(&o, &r);
        for (int p = 0; p < r.params; p++) {
            double claimed = 0, scale = 0;
            if (r.frozen[p]) continue;
            float *direction = malloc((size_t)r.size[p] * sizeof *direction);
            rig_draw_direction(p, r.size[p], direction);
            for (int64_t k = 0; k < r.size[p]; k++) {
                const double term = (double)r.grad[p][k] * direction[k];
                claimed += term, scale += term * term;
            }
            const double measured = slope_along(&o, p);
            if (!(fabs(measured - claimed) <= 2e-3 * sqrt(scale) + 5e-3))
                fail_msg("%s: the slope is %.6g, the gradient says %.6g", r.name[p], measured,
                         claimed);
            free(direction);
        }
        rig_clear(&r);
    }
}

// The negative controls: without adapters the loss is another one, and so it is with other masks of dropout.
static void adapters_and_their_dropout_change_the_loss(void **state)
{
    (void)state;
    rig_options o = config_of(1);
    const double with = loss_of(o);
    o.seed++;
    assert_true(loss_of(o) != with);
    o.seed--;
    o.model.adapter_arg = &NO_DROPOUT;
    const double undropped = loss_of(o);
    assert_true(undropped != with);
    o.model.adapter_of = nowhere, o.model.is_frozen = NULL;
    assert_true(loss_of(o) != undropped);
}

// The numbers that key the random numbers of a block, but for those of adapters.
static int list_numbers(rig_options o, int *out)
{
    model *m;
    err e;
    int count = 0;
    if (model_open(o.config.family, &o.config, &o.model, &m, &e) != OK) fail_msg("%s", e.text);
    const graph_node_list *l = &m->block[1].g->forward;
    for (int i = 0; i < l->count; i++)
        if (l->node[i]->number < 1 << 15) out[count++] = l->node[i]->number;
    model_close(m);
    return count;
}

static void adapters_leave_other_masks_as_they_are(void **state)
{
    (void)state;
    enum { MOST = 64 };
    int with[MOST], without[MOST];
    rig_options o = config_of(0);
    const int count = list_numbers(o, with);
    o.model.adapter_of = NULL, o.model.is_frozen = NULL;
    const int bare = list_numbers(o, without);
    assert_in_range(count, 8, MOST);
    assert_int_equal(with[count - 1], without[bare - 1]);
}

static model *open_one(rig_options o)
{
    model *m;
    err e;
    if (model_open(o.config.family, &o.config, &o.model, &m, &e) != OK) fail_msg("%s", e.text);
    return m;
}

static int find(const model *m, const char *name)
{
    for (int p = 0; p < m->params; p++)
        if (strcmp(m->param[p].name, name) == 0) return p;
    fail_msg("%s is missing", name);
    return -1;
}

// Each piece of a product has an adapter of its own, and layers with other adapters have another graph.
static void pieces_and_layers_have_their_adapters(void **state)
{
    (void)state;
    model *m = open_one(config_of(1));
    const int a = find(m, "model.layers.0.self_attn.k_proj.lora_A.weight"),
              b = find(m, "model.layers.0.self_attn.k_proj.lora_B.weight"),
              other = find(m, "model.layers.1.mlp.gate_proj.lora_A.weight");
    assert_int_equal(m->param[a].decl->dim[0], 2);
    assert_int_equal(m->param[a].decl->dim[1], 16);
    assert_int_equal(m->param[b].decl->dim[0], 12);
    assert_int_equal(m->param[b].decl->dim[1], 2);
    assert_int_equal(m->param[other].decl->dim[0], 3);
    assert_int_equal(m->graphs, 4);
    model_close(m);
}

// Drawn as PEFT draws them: A uniform within 1 / sqrt(in), B zeros. The base keeps the values that it has without.
static void initial_values_are_those_of_peft(void **state)
{
    (void)state;
    device *d;
    device_stream *on;
    float with[64], without[64];
    rig_options o = config_of(1);
    model *m = open_one(o);
    o.model.adapter_of = NULL, o.model.is_frozen = NULL;
    model *bare = open_one(o);
    assert_int_equal(device_open("cpu", &(device_options){.threads = 1}, &d, NULL), OK);
    assert_int_equal(d->ops->stream_open(d, STREAM_COMPUTE, false, &on, NULL), OK);
    static const char *const names[] = {"model.layers.1.mlp.down_proj.weight", "lm_head.weight"};
    for (int i = 0; i < 2; i++) {
        model_param_init(m, find(m, names[i]), 3, 0, 64, on, with);
        model_param_init(bare, find(bare, names[i]), 3, 0, 64, on, without);
        assert_memory_equal(with, without, sizeof with);
    }
    double least = 1, most = -1, sum = 0;
    model_param_init(m, find(m, "model.layers.1.mlp.up_proj.lora_A.weight"), 3, 0, 48, on, with);
    for (int i = 0; i < 48; i++) {
        least = fmin(least, with[i]), most = fmax(most, with[i]);
        sum += with[i];
    }
    assert_true(least >= -0.25 && least < -0.2 && most < 0.25 && most > 0.2);
    assert_true(fabs(sum / 48) < 0.08);
    model_param_init(m, find(m, "model.layers.1.mlp.up_proj.lora_B.weight"), 3, 0, 64, on, with);
    for (int i = 0; i < 64; i++) assert_true(with[i] == 0);
    d->ops->stream_close(on);
    device_close(d);
    model_close(m);
    model_close(bare);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_have_the_gradients_of_one),
        cmocka_unit_test(ranks_that_share_heads_have_the_gradients_of_one),
        cmocka_unit_test(recompute_and_wgrad_keep_the_bits),
        cmocka_unit_test(a_base_that_trains_has_the_same_gradients_of_adapters),
        cmocka_unit_test(gradients_are_the_slopes_of_the_loss),
        cmocka_unit_test(adapters_and_their_dropout_change_the_loss),
        cmocka_unit_test(adapters_leave_other_masks_as_they_are),
        cmocka_unit_test(pieces_and_layers_have_their_adapters),
        cmocka_unit_test(initial_values_are_those_of_peft),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
