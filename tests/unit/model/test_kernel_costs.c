// test_kernel_costs.c -- the FLOPs that a model counts are those of the kernels that its graphs launch.
#include "device/kernel_cost.h"
#include "graph/execute.h"
#include "model/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void add(void *arg, const kernel_call *c)
{
    *(double *)arg += kernel_cost_of(c).flops;
}

// FLOPs that the graph counts, and those of its kernels.
static void compare(const graph *g, const char *family, bool runs_again)
{
    const double counted = g->flops.forward + g->flops.backward;
    double launched = 0;
    graph_visit(g, &(graph_visitor){.take = add, .arg = &launched});
    const bool equal = fabs(launched - counted) <= 1e-9 * launched;
    if (runs_again ? launched < counted : !equal)
        fail_msg("%s: kernels of %.17g FLOPs, the graph counts %.17g", family, launched, counted);
}

static void compare_model(const char *family, dtype type, recompute_mode recompute)
{
    int size[AXES];
    model *m = NULL;
    err e;
    model_config c;
    model_options o = {
        .mode = GRAPH_TRAIN, .type = type, .batch = 4, .seq = 10, .recompute = recompute};
    for (int a = 0; a < AXES; a++) size[a] = 1;
    o.position.mesh = mesh_of_sizes(size);
    model_config_defaults(model_family_find(family), &c);
    c.layers = 2, c.hidden = 16, c.heads = 4, c.kv_heads = c.head_dim = 4, c.ffn = 24, c.vocab = 37;
    c.max_seq = 12;
    if (model_config_finish(&c, &e) != OK) fail_msg("%s", e.text);
    if (model_open(c.family, &c, &o, &m, &e) != OK) fail_msg("%s", e.text);
    for (int i = 0; i < m->graphs; i++) compare(m->graph[i], family, recompute != RECOMPUTE_NONE);
    model_close(m);
}

// Blocks that run again launch more than the model counts.
static void test_kernels_are_what_the_model_counts(void **state)
{
    (void)state;
    static const char *const families[] = {"gpt2", "llama"};
    for (int i = 0; i < 2; i++)
        for (int recompute = 0; recompute < RECOMPUTES; recompute++) {
            compare_model(families[i], F32, (recompute_mode)recompute);
            compare_model(families[i], BF16, (recompute_mode)recompute);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kernels_are_what_the_model_counts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
