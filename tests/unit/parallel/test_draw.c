// test_draw.c -- pictures show every pass once, on its stage and at its time, and the bubble.
#include "parallel/draw.h"

#include "unit/parallel/lists.h"

static void draw_with(const lists_of *x, int columns, bool in_seconds, text *out)
{
    double seconds[LISTS_BLOCKS];
    lists l;
    simulate_result r;
    err e = {0};
    for (int i = 0; i < LISTS_BLOCKS; i++) seconds[i] = 1;
    const simulate_blocks blocks = {seconds, seconds, seconds};
    const simulate_costs c = {simulate_block_seconds, &blocks, true, false};
    lists_open(&l, x);
    if (schedule_simulate(l.of, l.plan_of, l.stages, &c, &r, &e) != OK) fail_msg("%s", e.text);
    const pipeline_picture picture = {l.of, l.plan_of, &r, in_seconds};
    if (columns)
        pipeline_draw_text(&picture, columns, out);
    else
        pipeline_draw_svg(&picture, out);
    simulate_result_clear(&r);
    lists_close(&l);
}

static void draw(const lists_of *x, int columns, text *out)
{
    draw_with(x, columns, false, out);
}

static void expect_text(const lists_of *x, int columns, const char *expected)
{
    text t = {0};
    draw(x, columns, &t);
    assert_string_equal(t.chars, expected);
    text_clear(&t);
}

static void test_text_shows_passes_on_a_common_clock(void **state)
{
    (void)state;
    expect_text(&LISTS(PIPE_1F1B, 2, 1, 3), 100,
                "stage 0    F0F1....B0--F2B1--..B2--\n"
                "stage 1    ..F0B0--F1B1--F2B2--....\n"
                "1f1b, 2 stages, 3 micro-batches: bubble 25.0 % analytic, 25.0 % simulated\n");
    expect_text(&LISTS(PIPE_ZB, 2, 1, 3), 100,
                "stage 0    F0F1..B0W0F2B1W1B2W2\n"
                "stage 1    ..F0B0F1B1W0F2B2W1W2\n"
                "zb, 2 stages, 3 micro-batches: bubble 10.0 % analytic, 10.0 % simulated\n");
}

static void test_seconds_have_a_scale(void **state)
{
    (void)state;
    text t = {0};
    draw_with(&LISTS(PIPE_1F1B, 2, 1, 6), 100, true, &t);
    assert_non_null(strstr(t.chars, "\nms         |0                  |10000"));
    text_clear(&t);
}

static void timeline(bool apart, text *out)
{
    double seconds[LISTS_BLOCKS];
    lists l;
    simulate_result r;
    err e = {0};
    for (int i = 0; i < LISTS_BLOCKS; i++) seconds[i] = 1e-3;
    const simulate_blocks blocks = {seconds, seconds, seconds};
    const simulate_costs c = {simulate_block_seconds, &blocks, apart, false};
    lists_open(&l, &LISTS(PIPE_ZB, 2, 1, 3));
    if (schedule_simulate(l.of, l.plan_of, l.stages, &c, &r, &e) != OK) fail_msg("%s", e.text);
    timeline_draw_svg(&(timeline_picture){.of_stage = l.of,
                                          .plan_of_stage = l.plan_of,
                                          .stages = l.stages,
                                          .span = (const simulate_span *const *)r.span,
                                          .seconds = r.seconds,
                                          .streams_apart = apart,
                                          .title = "a & <b>"},
                      out);
    simulate_result_clear(&r);
    lists_close(&l);
}

static size_t count_of(const text *t, const char *part)
{
    size_t count = 0;
    for (const char *s = t->chars; (s = strstr(s, part)); s++) count++;
    return count;
}

static void test_a_timeline_is_to_scale(void **state)
{
    (void)state;
    for (int apart = 0; apart < 2; apart++) {
        text t = {0};
        timeline(apart, &t);
        // What takes no time is not drawn: 3 forwards, dgrads and wgrads of each stage are.
        assert_int_equal(count_of(&t, "<rect class=\"op\""), 18);
        assert_non_null(strstr(t.chars, ">a &amp; &lt;b></title>"));
        assert_non_null(
            strstr(t.chars, "FORWARD micro 1 block 0: begins at 1.000 ms, takes 1.000 ms<"));
        assert_int_equal(count_of(&t, ">stage 1 communication<"), apart);
        assert_non_null(strstr(t.chars, ">2 ms</text>"));
        text_clear(&t);
    }
}

static void test_blocks_of_a_chunk_are_one_pass_and_odd_chunks_are_lower_case(void **state)
{
    (void)state;
    expect_text(&LISTS(PIPE_INTERLEAVED, 2, 2, 2, .blocks = 8), 100,
                "stage 0    F0F1f0f1....b0--..b1--B0--B1--\n"
                "stage 1    ..F0F1f0b0--f1b1--B0--B1--....\n"
                "interleaved, 2 stages of 2 chunks, 2 micro-batches: bubble 20.0 % analytic, "
                "20.0 % simulated\n");
}

static void test_a_stage_without_a_backward_is_idle_after_its_forwards(void **state)
{
    (void)state;
    expect_text(&LISTS(PIPE_1F1B, 2, 1, 2, .second = 1, .frozen = true), 100,
                "stage 0    F0F1..........\n"
                "stage 1    ..F0B0--F1B1--\n"
                "1f1b, 2 stages, 2 micro-batches: bubble 33.3 % analytic, 42.9 % simulated\n");
    expect_text(&LISTS(PIPE_ZB, 2, 1, 2, .second = 1, .frozen = true), 100,
                "stage 0    F0F1..........\n"
                "stage 1    ..F0B0F1B1W0W1\n"
                "zb, 2 stages, 2 micro-batches: bubble 14.3 % analytic, 42.9 % simulated\n");
}

static void test_text_keeps_to_its_columns(void **state)
{
    (void)state;
    for (int columns = 40; columns <= 120; columns += 13)
        for (int m = 1; m < 60; m += 3) {
            text t = {0};
            draw(&LISTS(PIPE_1F1B, 4, 1, m), columns, &t);
            const char *line = t.chars;
            size_t first = strcspn(line, "\n");
            for (int i = 0; i < 4; i++) {
                size_t length = strcspn(line, "\n");
                assert_true(length == first && length <= (size_t)columns);
                line += length + 1;
            }
            text_clear(&t);
        }
}

static void test_what_is_too_long_is_left_out_of_the_middle(void **state)
{
    (void)state;
    expect_text(&LISTS(PIPE_1F1B, 2, 1, 30), 51,
                "stage 0    F0F1....B0--F2B1-- // F8B7--F9B8--..B9--\n"
                "stage 1    ..F0B0--F1B1--F2B2 // --F8B8--F9B9--....\n"
                "1f1b, 2 stages, 30 micro-batches: bubble 3.2 % analytic, 3.2 % simulated\n");
}

static int count(const char *in, const char *what)
{
    int n = 0;
    for (; (in = strstr(in, what)); in += strlen(what)) n++;
    return n;
}

static void test_svg_has_a_rect_for_every_pass(void **state)
{
    (void)state;
    static const lists_of cases[] = {
        LISTS(PIPE_GPIPE, 4, 1, 6, .blocks = 9), LISTS(PIPE_1F1B, 4, 1, 12, .blocks = 9),
        LISTS(PIPE_INTERLEAVED, 4, 3, 8, .blocks = 24), LISTS(PIPE_ZB, 3, 1, 7)};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const lists_of *x = &cases[i];
        const int each = x->order == PIPE_ZB ? 3 : 2,
                  ops = each * x->stages * x->chunks * x->micros;
        text t = {0};
        draw(x, 0, &t);
        assert_int_equal(count(t.chars, "<rect class=\"op\""), ops);
        assert_int_equal(count(t.chars, "<rect class=\"idle\""), x->stages);
        assert_int_equal(count(t.chars, "<rect class=\"key\""), each * x->chunks);
        assert_int_equal(count(t.chars, "<rect"), ops + x->stages + each * x->chunks + 1);
        assert_int_equal(count(t.chars, "<title>"), ops + 1);
        assert_int_equal(count(t.chars, "<title>forward, "), x->stages * x->chunks * x->micros);
        assert_non_null(strstr(t.chars, "% simulated</title>"));
        text_clear(&t);
    }
}

// Every element that is opened is closed, in turn.
static void test_svg_is_well_formed(void **state)
{
    (void)state;
    const char *open[8];
    size_t depth = 0;
    text t = {0};
    draw(&LISTS(PIPE_INTERLEAVED, 2, 2, 4), 0, &t);
    for (const char *at = t.chars; (at = strchr(at, '<')); at++) {
        const char *end = strchr(at, '>');
        assert_non_null(end);
        assert_null(memchr(at + 1, '<', (size_t)(end - at - 1)));
        if (at[1] == '/') {
            assert_true(depth > 0);
            assert_memory_equal(at + 2, open[--depth], (size_t)(end - at - 2));
        } else if (end[-1] != '/') {
            assert_true(depth < 8);
            open[depth++] = at + 1;
        }
    }
    assert_int_equal(depth, 0);
    assert_null(strchr(t.chars, '&'));
    assert_memory_equal(t.chars, "<svg xmlns=", 11);
    text_clear(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_shows_passes_on_a_common_clock),
        cmocka_unit_test(test_seconds_have_a_scale),
        cmocka_unit_test(test_a_timeline_is_to_scale),
        cmocka_unit_test(test_blocks_of_a_chunk_are_one_pass_and_odd_chunks_are_lower_case),
        cmocka_unit_test(test_a_stage_without_a_backward_is_idle_after_its_forwards),
        cmocka_unit_test(test_text_keeps_to_its_columns),
        cmocka_unit_test(test_what_is_too_long_is_left_out_of_the_middle),
        cmocka_unit_test(test_svg_has_a_rect_for_every_pass),
        cmocka_unit_test(test_svg_is_well_formed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
