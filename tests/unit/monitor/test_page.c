#define _GNU_SOURCE // strcasestr
// Tests the page of a run: its data says what the log and the records say, names end no script, nothing outside is asked
// for, and runs of many ranks are thinned.
#include "monitor/page/page.h"

#include "made_run.h"
#include "monitor/report/report.h"
#include "own_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/trireme-test-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return file_remove_tree(folder, NULL) == OK ? 0 : -1;
}

static run_view *open_made(const char *name, const made_run *run)
{
    run_view *v = NULL;
    err e = {0};
    char *path = own_path(folder, name);
    if (made_run_write(path, run, &e) != OK || run_view_open(path, &v, &e) != OK)
        fail_msg("%s", e.text);
    free(path);
    return v;
}

static json_t *data_of(const run_view *v, const report *r)
{
    text t = {0};
    json_error_t why;
    assert_int_equal(page_data(v, r, &t, NULL), OK);
    json_t *data = json_loads(t.chars, JSON_REJECT_DUPLICATES, &why);
    if (!data) fail_msg("%s at %d", why.text, why.position);
    text_clear(&t);
    return data;
}

// The value at a path of keys and indices, "ranks.rank.0".
static json_t *value_at(json_t *data, const char *path)
{
    char key[64];
    while (*path) {
        const size_t bytes = strcspn(path, ".");
        snprintf(key, sizeof key, "%.*s", (int)bytes, path);
        data = json_is_array(data) ? json_array_get(data, (size_t)atoi(key))
                                   : json_object_get(data, key);
        if (!data) fail_msg("no %s", key);
        path += bytes + (path[bytes] == '.');
    }
    return data;
}

static double number_at(json_t *data, const char *path)
{
    return json_number_value(value_at(data, path));
}

static const char *text_at(json_t *data, const char *path)
{
    return json_string_value(value_at(data, path));
}

static size_t length_at(json_t *data, const char *path)
{
    return json_array_size(value_at(data, path));
}

static const made_run SLOW = {.ranks = 4,
                              .steps = 20,
                              .hosts = 2,
                              .cause = MADE_COMPUTE,
                              .slow_rank = 2,
                              .slow_by = 0.5,
                              .save_every = 10,
                              .save = 0.1};

static void the_data_says_what_the_run_did(void **state)
{
    (void)state;
    run_view *v = open_made("slow", &SLOW);
    json_t *d = data_of(v, NULL);
    assert_string_equal(text_at(d, "run.state"), "ended");
    assert_true(number_at(d, "run.step") == 20);
    assert_true(json_is_null(value_at(d, "report")));
    assert_int_equal(length_at(d, "log.loss"), 20);
    assert_true(fabs(number_at(d, "log.loss.0") - v->step[0].loss) < 1e-4);
    assert_int_equal(length_at(d, "save.step"), 2);
    assert_int_equal(length_at(d, "steps.step"), 20);
    assert_true(number_at(d, "steps.step.19") == 20);
    assert_true(number_at(d, "steps.ranks") == 4);
    assert_int_equal(length_at(d, "ranks.rank"), 4);
    assert_string_equal(text_at(d, "ranks.hosts.1"), "b");
    assert_true(number_at(d, "ranks.host.3") == 1);
    // The others wait half a step for rank 2, and it waits for nobody.
    assert_true(number_at(d, "ranks.caused_ms.2") > 100);
    assert_true(number_at(d, "ranks.waited_ms.2") == 0);
    assert_true(number_at(d, "ranks.waited_ms.0") > 40);
    assert_true(number_at(d, "waits.ms.0.2") > 800);
    assert_true(number_at(d, "waits.ms.2.0") == 0);
    assert_true(number_at(d, "memory.plan.1.0") == 2 << 20);
    assert_true(number_at(d, "ranks.plan.0") == 28 << 20);
    assert_string_equal(text_at(d, "settings.policy"), "ddp");
    json_decref(d);
    run_view_close(v);
}

static void phases_of_a_step_add_up(void **state)
{
    (void)state;
    run_view *v = open_made("phases", &SLOW);
    json_t *d = data_of(v, NULL), *phases = value_at(d, "ranks.phase_ms");
    for (size_t r = 0; r < 4; r++) {
        double sum = 0;
        for (size_t k = 0; k < SPANS_PHASES; k++)
            sum += json_number_value(json_array_get(json_array_get(phases, k), r));
        assert_true(fabs(sum - json_number_value(json_array_get(value_at(d, "ranks.step_ms"), r))) <
                    0.01);
    }
    json_decref(d);
    run_view_close(v);
}

static void the_timeline_is_of_one_step(void **state)
{
    (void)state;
    run_view *v = open_made("timeline", &SLOW);
    json_t *d = data_of(v, NULL);
    assert_int_equal(length_at(d, "timeline.ranks"), 4);
    assert_in_range((long)number_at(d, "timeline.step"), 12, 20);
    const double length = number_at(d, "timeline.length"), unit = number_at(d, "timeline.unit_ns");
    assert_true(length * unit > 100e6 && length <= 1000000);
    const size_t rows = length_at(d, "timeline.rows");
    for (size_t r = 0; r < 4; r++) {
        json_t *rank = json_array_get(value_at(d, "timeline.ranks"), r);
        json_t *list = json_object_get(rank, "spans");
        assert_true(json_array_size(list) > 0 && json_array_size(list) % 5 == 0);
        for (size_t i = 0; i < json_array_size(list); i += 5) {
            const double begin = json_number_value(json_array_get(list, i + 1));
            assert_in_range(json_integer_value(json_array_get(list, i)), 0, rows - 1);
            assert_true(begin >= 0);
            assert_true(begin + json_number_value(json_array_get(list, i + 2)) <= length + 1);
        }
        assert_true(json_is_true(json_object_get(rank, "aligned")));
    }
    json_decref(d);
    run_view_close(v);
}

// Writes the clock of a rank into its record.
static void set_clock(const char *run, int rank, int64_t offset_ns, int64_t error_ns)
{
    char *path = NULL;
    const int64_t clock[] = {offset_ns, error_ns};
    assert_int_equal(run_view_spans_path(run, rank, &path, NULL), OK);
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    assert_int_equal(
        fseek(f, offsetof(spans_head, clock) + offsetof(spans_clock, offset_ns), SEEK_SET), 0);
    assert_int_equal(fwrite(clock, sizeof clock, 1, f), 1);
    fclose(f);
    free(path);
}

static void ranks_without_a_clock_begin_at_0(void **state)
{
    (void)state;
    run_view *v = open_made("clocks", &SLOW);
    json_t *d = data_of(v, NULL);
    const double unit = number_at(d, "timeline.unit_ns");
    const double before = number_at(d, "timeline.ranks.2.begin");
    json_decref(d);
    set_clock(v->folder, 2, 7000000, 3000); // 7 ms later than its own host says
    set_clock(v->folder, 3, 0, -1);
    d = data_of(v, NULL);
    assert_true(number_at(d, "timeline.unit_ns") == unit);
    assert_true(number_at(d, "timeline.clock_error_ns") == 3000);
    assert_true(json_is_true(value_at(d, "timeline.ranks.2.aligned")));
    assert_true(fabs((number_at(d, "timeline.ranks.2.begin") - before) * unit - 7e6) <= unit);
    assert_true(json_is_false(value_at(d, "timeline.ranks.3.aligned")));
    assert_true(number_at(d, "timeline.ranks.3.begin") == 0);
    json_decref(d);
    run_view_close(v);
}

static void names_end_no_script_and_nothing_outside_is_named(void **state)
{
    (void)state;
    char *path = own_path(folder, "odd/spans/rank-00000.spans"), *run = own_path(folder, "odd");
    const spans_row row = {
        .phase = PHASE_FORWARD, .parent = -1, .peer = -1, .name = "</script>\"\x01"};
    const spans_head h = {.ranks = 1, .host = "</SCRIPT><img src=x>", .place = "\xff<!--"};
    spans *w = NULL;
    run_view *v = NULL;
    text page = {0};
    char *evidence[] = {"<b>"};
    const report r = {
        .verdict = "HEALTHY", .line = "</script>", .evidence = evidence, .evidences = 1};
    assert_int_equal(spans_create(path, &h, &row, 1, (spans_room){2, 16}, &w, NULL), OK);
    spans_add(w, &(span){.begin_ns = 5, .duration_ns = 10, .step = 1, .last = -1});
    spans_add_step(
        w, &(spans_step){.step = 1, .begin_ns = 5, .duration_ns = 10, .spans = 1, .loss = NAN});
    spans_finish(w);
    assert_int_equal(run_view_open(run, &v, NULL), OK);
    assert_int_equal(page_make(v, &r, &page, NULL), OK);
    const char *data = strstr(page.chars, "id=\"data\">");
    assert_non_null(data);
    // The first end of a script behind it is the template's own, and the data reads back.
    const char *end = strcasestr(data, "</script>");
    assert_null(memchr(data + 10, '<', (size_t)(end - data - 10)));
    json_t *d = json_loadb(data + 10, (size_t)(end - data - 10), 0, NULL);
    assert_non_null(d);
    assert_string_equal(text_at(d, "ranks.hosts.0"), "</SCRIPT><img src=x>");
    assert_string_equal(text_at(d, "timeline.rows.0.0"), "</script>\"\x01");
    assert_string_equal(text_at(d, "report.evidence.0"), "<b>");
    static const char *const outside[] = {"src=\"", "@import", "url(", "//cdn", "https:"};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        assert_null(strstr(page.chars, outside[i]));
    json_decref(d);
    text_clear(&page);
    run_view_close(v);
    free(path);
    free(run);
}

static void runs_of_many_ranks_are_thinned(void **state)
{
    (void)state;
    const made_run run = {.ranks = 128,
                          .steps = 12,
                          .micro = 8,
                          .cause = MADE_INPUT,
                          .slow_rank = 77,
                          .slow_by = 0.3,
                          .jitter = 0.1};
    run_view *v = open_made("many", &run);
    text page = {0};
    assert_int_equal(page_make(v, NULL, &page, NULL), OK);
    assert_true(page.bytes < 400000);
    json_t *d = data_of(v, NULL);
    assert_int_equal(length_at(d, "ranks.rank"), 128);
    assert_int_equal(length_at(d, "timeline.ranks"), 24);
    bool shown = false;
    for (size_t i = 0; i < 24; i++)
        shown |= json_integer_value(json_array_get(value_at(d, "memory.rank"), i)) == 77;
    assert_true(shown);
    assert_null(json_object_get(value_at(d, "waits"), "ms"));
    assert_true(number_at(d, "waits.pairs.0.1") == 77);
    assert_true(number_at(d, "waits.caused_ms.77") > 1000);
    json_decref(d);
    text_clear(&page);
    run_view_close(v);
}

static void a_log_alone_is_enough(void **state)
{
    (void)state;
    char *run = own_path(folder, "log"), *path = own_path(folder, "log/log.jsonl");
    run_view *v = NULL;
    text log = {0};
    text_add(&log, "{\"event\":\"start\",\"ranks\":2}\n");
    for (int i = 1; i <= 4000; i++)
        text_addf(&log, "{\"event\":\"step\",\"step\":%d,\"loss\":%d}\n", i, i % 2 ? 1 : 3);
    assert_int_equal(file_make_directories(run, NULL), OK);
    assert_int_equal(file_replace(path, log.chars, log.bytes, NULL), OK);
    assert_int_equal(run_view_open(run, &v, NULL), OK);
    json_t *d = data_of(v, NULL);
    assert_string_equal(text_at(d, "run.state"), "stopped");
    assert_int_equal(length_at(d, "log.loss"), 1500);
    assert_true(number_at(d, "log.step.1499") == 4000);
    assert_true(json_is_null(value_at(d, "log.lr.7")));
    assert_int_equal(length_at(d, "steps.step"), 0);
    assert_true(json_is_null(value_at(d, "timeline")));
    json_decref(d);
    run_view_close(v);
    text_clear(&log);
    free(path);
    free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_data_says_what_the_run_did),
        cmocka_unit_test(phases_of_a_step_add_up),
        cmocka_unit_test(the_timeline_is_of_one_step),
        cmocka_unit_test(ranks_without_a_clock_begin_at_0),
        cmocka_unit_test(names_end_no_script_and_nothing_outside_is_named),
        cmocka_unit_test(runs_of_many_ranks_are_thinned),
        cmocka_unit_test(a_log_alone_is_enough),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
