// test_documents.c -- a graph whose sequences are packed documents refuses an op that has a time axis and takes no
// documents. All ops of today take them, so the test replaces the row of one.
#include "graph/op.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

const graph_op_info *__real_graph_op_find(graph_op kind);
const graph_op_info *__wrap_graph_op_find(graph_op kind);

static bool replaces; // the rows of rotations, by one that takes no documents

const graph_op_info *__wrap_graph_op_find(graph_op kind)
{
    static graph_op_info row;
    const graph_op_info *o = __real_graph_op_find(kind);
    if (!replaces || o != &op_rope) return o;
    row = *o;
    row.takes_documents = false;
    return &row;
}

static status make_graph(bool documents, bool rotates, err *e)
{
    static const double frequency[] = {1, 0.1};
    const graph_options o = {
        .mode = GRAPH_TRAIN, .type = F32, .batch = 2, .seq = 6, .documents = documents};
    const graph_rope table = {.rows = 6, .pairs = 2, .frequency = frequency, .scale = 1};
    graph *g = NULL;
    status result = OK;
    TRY(graph_open(&o, &g, e));
    graph_value *w = build_weight(g, "qkv", 12, 12, INIT_NORMAL, 1);
    graph_value *x = build_linear(g, build_input(g, 12), w, NULL);
    if (rotates) x = build_rope(g, x, 2, 4, &table, false);
    build_output(
        g, build_attention(
               g, x, &(graph_attention){.heads = 1, .kv_heads = 1, .head_dim = 4, .scale = 1}));
    TRY(graph_finish(g, RECOMPUTE_NONE, e));
done:
    graph_close(g);
    return result;
}

static void an_op_that_takes_no_documents_is_refused_by_name(void **state)
{
    (void)state;
    err e = {0};
    replaces = true;
    assert_int_equal(make_graph(true, true, &e), E_USAGE);
    assert_non_null(strstr(e.text, "rope: takes no packed documents"));
    if (make_graph(false, true, &e) != OK) fail_msg("%s", e.text);
    assert_int_equal(make_graph(true, false, &e), OK);
    replaces = false;
    assert_int_equal(make_graph(true, true, &e), OK);
}

// Ops of which a row depends on other rows or on its position. An op without a time axis says nothing.
static void ops_with_a_time_axis_take_documents(void **state)
{
    (void)state;
    const graph_op_info *const timed[] = {&op_embedding, &op_rope, &op_attention};
    for (size_t i = 0; i < sizeof timed / sizeof *timed; i++)
        assert_true(timed[i]->has_time && timed[i]->takes_documents);
    for (graph_op k = 0; k < OPS; k++) {
        const graph_op_info *o = graph_op_find(k);
        assert_true(o->has_time || !o->takes_documents);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_op_that_takes_no_documents_is_refused_by_name),
        cmocka_unit_test(ops_with_a_time_axis_take_documents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
