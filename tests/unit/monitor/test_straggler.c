// Tests the search for stragglers on made-up steps: the right rank or host with the right cause, in time; and nobody where
// delays move between ranks, where stages are unequal, and where nothing explains a wait.
#include "made_run.h"
#include "monitor/report/measures.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];
static err e;

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/trireme-straggler-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return file_remove_tree(folder, NULL) == OK ? 0 : -1;
}

// ---- Runs in a folder

// What the steps of a made run say of one rank or host, the only one that was named.
typedef struct verdict_case {
    straggler found;
    int named;
} verdict_case;

static verdict_case look(const made_run *o)
{
    verdict_case c = {.named = 0};
    run_view *v = NULL;
    run_measures *m = NULL;
    assert_int_equal(file_remove_tree(folder, &e), OK);
    assert_int_equal(made_run_write(folder, o, &e), OK);
    assert_int_equal(run_view_open(folder, &v, &e), OK);
    assert_int_equal(run_measures_make(v, &m, &e), OK);
    for (int i = 0; i < straggler_watch_count(m->watch); i++) {
        const straggler *s = straggler_watch_get(m->watch, i);
        if (!s->named_step) continue;
        c.found = *s;
        c.named++;
    }
    run_measures_close(m);
    run_view_close(v);
    return c;
}

static const made_cause CAUSES[] = {MADE_COMPUTE, MADE_INPUT, MADE_LINK};
static const straggler_cause EXPECTED[] = {STRAGGLER_COMPUTE, STRAGGLER_INPUT, STRAGGLER_LINK};

static void every_cause_is_named_with_its_rank(void **state)
{
    (void)state;
    static const double sizes[] = {0.05, 0.1, 0.3};
    static const struct {
        int ranks, hosts, stages, rank;
    } runs[] = {{2, 2, 1, 1}, {4, 4, 1, 0}, {8, 2, 1, 5}, {8, 2, 2, 6}};
    for (size_t run = 0; run < 4; run++)
        for (size_t c = 0; c < 3; c++)
            for (size_t size = 0; size < 3; size++) {
                const made_run o = {.ranks = runs[run].ranks,
                                    .hosts = runs[run].hosts,
                                    .stages = runs[run].stages,
                                    .steps = 40,
                                    .input = 0.02,
                                    .jitter = 0.005,
                                    .cause = CAUSES[c],
                                    .slow_rank = runs[run].rank,
                                    .slow_by = sizes[size],
                                    .slow_from = 20};
                const verdict_case found = look(&o);
                assert_int_equal(found.named, 1);
                assert_int_equal(found.found.rank, o.slow_rank);
                assert_int_equal(found.found.cause, EXPECTED[c]);
                assert_true(found.found.explained >= 0.8);
                assert_true(found.found.is_chronic);
                // 30 % within 3 steps, 10 % within 10.
                assert_in_range(found.found.named_step, 20, o.slow_by > 0.2 ? 22 : 29);
                assert_in_range(found.found.chronic_step, 27, 29);
                if (o.stages == 1)
                    assert_true(fabs(found.found.share - o.slow_by / (1 + o.slow_by)) < 0.02);
            }
}

static void a_straggler_from_the_first_step_on_is_named_soon(void **state)
{
    (void)state;
    made_run o = {.ranks = 4, .steps = 14, .jitter = 0.01, .cause = MADE_COMPUTE, .slow_rank = 3};
    o.slow_by = 0.3;
    verdict_case found = look(&o);
    assert_int_equal(found.named, 1);
    assert_int_equal(found.found.rank, 3);
    assert_int_equal(found.found.named_step, 4); // the first step is not judged
    o.slow_by = 0.1;
    found = look(&o);
    assert_int_equal(found.named, 1);
    assert_in_range(found.found.chronic_step, 2, 11);
}

static void a_host_whose_ranks_are_all_late_is_named_as_a_whole(void **state)
{
    (void)state;
    for (size_t c = 0; c < 3; c++)
        for (int hosts = 2; hosts <= 4; hosts += 2) {
            const made_run o = {.ranks = 8,
                                .hosts = hosts,
                                .steps = 30,
                                .input = 0.02,
                                .jitter = 0.01,
                                .cause = CAUSES[c],
                                .slow_rank = 2,
                                .slow_host = true,
                                .slow_by = 0.15,
                                .slow_from = 5};
            const verdict_case found = look(&o);
            assert_int_equal(found.named, 1);
            assert_int_equal(found.found.rank, -1);
            assert_int_equal(found.found.host, hosts == 2 ? 0 : 1);
            assert_int_equal(found.found.cause, EXPECTED[c]);
        }
}

static void unequal_stages_are_no_stragglers(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        const made_run o = {.ranks = ranks, .stages = 2, .steps = 40, .stage_by = 0.3};
        assert_int_equal(look(&o).named, 0);
    }
}

static void a_rank_alone_in_its_stage_is_compared_with_its_own_steps(void **state)
{
    (void)state;
    const made_run o = {.ranks = 2,
                        .stages = 2,
                        .steps = 40,
                        .stage_by = 0.1,
                        .jitter = 0.005,
                        .cause = MADE_COMPUTE,
                        .slow_rank = 1,
                        .slow_by = 0.2,
                        .slow_from = 25};
    const verdict_case found = look(&o);
    assert_int_equal(found.named, 1);
    assert_int_equal(found.found.rank, 1);
    assert_int_equal(found.found.cause, STRAGGLER_COMPUTE);
}

static void delays_that_move_are_counted_but_not_named(void **state)
{
    (void)state;
    int slow = 0;
    run_view *v = NULL;
    run_measures *m = NULL;
    const made_run o = {.ranks = 4, .steps = 100, .spike_every = 20, .spike_by = 0.5};
    assert_int_equal(look(&o).named, 0);
    assert_int_equal(run_view_open(folder, &v, &e), OK);
    assert_int_equal(run_measures_make(v, &m, &e), OK);
    for (int i = 0; i < straggler_watch_count(m->watch); i++)
        slow += (int)straggler_watch_get(m->watch, i)->slow_steps;
    assert_int_equal(slow, 5);
    run_measures_close(m);
    run_view_close(v);
}

// ---- Streams of steps

enum { MOST = 8 };

typedef struct stream {
    straggler_watch *watch;
    int ranks;
    uint64_t step, random;
    int chronic; // how often one was told
} stream;

static double drawn(stream *s) // in [0, 1)
{
    s->random = s->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(s->random >> 40) / (double)(1 << 24);
}

static void begin(stream *s, int ranks, uint64_t seed)
{
    straggler_location location[MOST] = {{0}};
    *s = (stream){.ranks = ranks, .random = seed};
    for (int r = 0; r < ranks; r++) location[r].is_recorded = true;
    assert_int_equal(straggler_watch_open(location, ranks, &s->watch, &e), OK);
}

// A step in which rank r comes after late[r] times 10 microseconds, and all wait for the last one.
static void take(stream *s, const double *late)
{
    spans_step step[MOST];
    int last = 0;
    memset(step, 0, sizeof step);
    s->step++;
    for (int r = 1; r < s->ranks; r++)
        if (late[r] > late[last]) last = r;
    for (int r = 0; r < s->ranks; r++) {
        const int64_t wait_ns = (int64_t)(10000 * (late[last] - late[r]));
        step[r] = (spans_step){.step = s->step, .waited_for = -1, .waited_ns = wait_ns};
        step[r].phase_ns[PHASE_FORWARD] = (int64_t)(10000 * late[r]);
        step[r].phase_ns[PHASE_COMM] = wait_ns + 1000000;
        step[r].duration_ns = (int64_t)(10000 * late[last]) + 1000000;
        if (wait_ns > 0) step[r].waited_for = last;
        step[r].waited_for_ns = wait_ns;
    }
    straggler_watch_add(s->watch, step);
    for (const straggler *one; (one = straggler_watch_news(s->watch));)
        if (one->is_chronic) s->chronic++;
}

// On a busy machine any rank is late in any step, by a little or by a lot, also all in turn.
static void a_loaded_machine_raises_no_alarm(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= MOST; ranks *= 2)
        for (int kind = 0; kind < 3; kind++) {
            stream s;
            begin(&s, ranks, (uint64_t)(1 + kind));
            for (int i = 0; i < 100000 / 3; i++) {
                double late[MOST];
                for (int r = 0; r < ranks; r++) late[r] = 1000 + 50 * drawn(&s);
                const int who = (int)(drawn(&s) * ranks);
                if (kind == 0) late[who] += 300;                       // one in each step
                if (kind == 1) late[who] += drawn(&s) < 0.2 ? 800 : 0; // now and then
                if (kind == 2) late[who] += 20 / (0.01 + drawn(&s));   // by 20 to 2000
                take(&s, late);
            }
            assert_int_equal(s.chronic, 0);
            straggler_watch_close(s.watch);
        }
}

static void a_straggler_is_seen_through_the_noise(void **state)
{
    (void)state;
    stream s;
    begin(&s, 4, 1);
    for (int i = 0; i < 400; i++) {
        double late[MOST];
        for (int r = 0; r < 4; r++) late[r] = 1000 + 100 * drawn(&s);
        if (i >= 200) late[2] += 150;
        take(&s, late);
        if (i == 199) assert_int_equal(s.chronic, 0);
    }
    assert_int_equal(s.chronic, 1);
    assert_true(straggler_watch_get(s.watch, 2)->is_chronic);
    assert_int_equal(straggler_watch_get(s.watch, 2)->cause, STRAGGLER_COMPUTE);
    straggler_watch_close(s.watch);
}

static void it_is_told_once_and_again_after_a_pause(void **state)
{
    (void)state;
    stream s;
    begin(&s, 4, 1);
    for (int i = 0; i < 600; i++) {
        double late[MOST];
        for (int r = 0; r < 4; r++) late[r] = 1000 + 10 * drawn(&s);
        if (i % 300 < 100) late[1] += 400;
        take(&s, late);
        if (i == 100) assert_int_equal(s.chronic, 1);
        if (i == 150) assert_false(straggler_watch_get(s.watch, 1)->is_chronic);
    }
    assert_int_equal(s.chronic, 2);
    straggler_watch_close(s.watch);
}

// Rank 3 waits for rank 1 of its tensor-parallel group, and the others for rank 3.
static void a_wait_is_charged_to_whom_the_last_one_waited_for(void **state)
{
    (void)state;
    stream s;
    begin(&s, 4, 1);
    for (uint64_t i = 1; i <= 30; i++) {
        spans_step step[MOST];
        memset(step, 0, sizeof step);
        for (int r = 0; r < 4; r++) {
            step[r] = (spans_step){.step = i, .duration_ns = 10000000, .waited_for = -1};
            step[r].phase_ns[PHASE_FORWARD] = r == 1 ? 9000000 : 7000000;
            if (r == 1) continue;
            step[r].waited_for = r == 3 ? 1 : 3;
            step[r].waited_for_ns = step[r].waited_ns = 2000000;
            step[r].phase_ns[PHASE_COMM] = 2000000;
        }
        straggler_watch_add(s.watch, step);
    }
    assert_true(straggler_watch_get(s.watch, 1)->is_chronic);
    assert_int_equal(straggler_watch_get(s.watch, 3)->slow_steps, 0);
    straggler_watch_close(s.watch);
}

// The others wait for rank 1, whose work takes half as long more than theirs as they wait.
static void a_wait_that_nothing_explains_names_nobody(void **state)
{
    (void)state;
    stream s;
    begin(&s, 4, 1);
    for (uint64_t i = 1; i <= 30; i++) {
        spans_step step[MOST];
        memset(step, 0, sizeof step);
        for (int r = 0; r < 4; r++) {
            step[r] = (spans_step){.step = i, .duration_ns = 10000000, .waited_for = -1};
            step[r].phase_ns[PHASE_FORWARD] = r == 1 ? 8000000 : 7000000;
            if (r == 1) continue;
            step[r].waited_for = 1;
            step[r].waited_for_ns = step[r].waited_ns = 2000000;
            step[r].phase_ns[PHASE_COMM] = 2000000;
        }
        straggler_watch_add(s.watch, step);
    }
    assert_int_equal(straggler_watch_get(s.watch, 1)->named_step, 0);
    assert_true(straggler_watch_get(s.watch, 1)->slow_steps > 20);
    straggler_watch_close(s.watch);
}

// Rank 0 writes the log between steps: no phase of its steps is longer.
static void what_a_rank_does_between_steps_is_not_blamed(void **state)
{
    (void)state;
    stream s;
    begin(&s, 4, 1);
    for (uint64_t i = 1; i <= 30; i++) {
        spans_step step[MOST];
        memset(step, 0, sizeof step);
        for (int r = 0; r < 4; r++) {
            step[r] = (spans_step){.step = i, .duration_ns = 10000000, .waited_for = -1};
            step[r].phase_ns[PHASE_FORWARD] = 7000000;
            step[r].gap_ns = r == 0 ? 1000000 : 10000;
            if (r == 0) continue;
            step[r].waited_for = 0;
            step[r].waited_for_ns = step[r].waited_ns = 1000000;
            step[r].phase_ns[PHASE_COMM] = 1000000;
        }
        straggler_watch_add(s.watch, step);
    }
    assert_int_equal(straggler_watch_get(s.watch, 0)->named_step, 0);
    straggler_watch_close(s.watch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cause_is_named_with_its_rank),
        cmocka_unit_test(a_straggler_from_the_first_step_on_is_named_soon),
        cmocka_unit_test(a_host_whose_ranks_are_all_late_is_named_as_a_whole),
        cmocka_unit_test(unequal_stages_are_no_stragglers),
        cmocka_unit_test(a_rank_alone_in_its_stage_is_compared_with_its_own_steps),
        cmocka_unit_test(delays_that_move_are_counted_but_not_named),
        cmocka_unit_test(a_loaded_machine_raises_no_alarm),
        cmocka_unit_test(a_straggler_is_seen_through_the_noise),
        cmocka_unit_test(it_is_told_once_and_again_after_a_pause),
        cmocka_unit_test(a_wait_is_charged_to_whom_the_last_one_waited_for),
        cmocka_unit_test(a_wait_that_nothing_explains_names_nobody),
        cmocka_unit_test(what_a_rank_does_between_steps_is_not_blamed),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
