// Tests traces as PyTorch's profiler writes them: every file is JSON, a rank's kernels never overlap on a stream, each has
// a launch within its step, and work has the names by which tools know it.
#include "base/file.h"
#include "made_run.h"
#include "monitor/trace/trace.h"
#include "own_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

static json_t *read_json(int rank)
{
    char name[64];
    (void)snprintf(name, sizeof name, "kineto/rank-%05d.json", rank);
    char *path = own_path(folder, name);
    json_error_t why;
    json_t *j = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
    if (!j) fail_msg("%s:%d: %s", path, why.line, why.text);
    free(path);
    return j;
}

static double number_of(const json_t *event, const char *key)
{
    return json_number_value(json_object_get(event, key));
}

static const char *text_of(const json_t *event, const char *key)
{
    const char *s = json_string_value(json_object_get(event, key));
    return s ? s : "";
}

enum { STREAMS = 16 };

typedef struct found {
    int kernels, copies, steps, reduces, messages, launches;
    double communication, end[STREAMS], step_begin[8], step_end[8];
} found;

static void add_event(found *f, const json_t *event)
{
    const char *category = text_of(event, "cat"), *name = text_of(event, "name");
    const double begin = number_of(event, "ts"), end = begin + number_of(event, "dur");
    const int stream = (int)number_of(event, "tid");
    if (strncmp(name, "ProfilerStep#", 13) == 0) {
        f->step_begin[f->steps] = begin;
        f->step_end[f->steps++] = end;
    }
    if (strcmp(category, "cuda_runtime") == 0) {
        bool within = false;
        for (int i = 0; i < f->steps; i++)
            within = within || (begin >= f->step_begin[i] && begin < f->step_end[i]);
        assert_true(within);
        f->launches++;
    }
    const bool kernel = strcmp(category, "kernel") == 0, copy = strcmp(category, "gpu_memcpy") == 0;
    if (!kernel && !copy) return;
    assert_true(stream >= 0 && stream < STREAMS && begin >= f->end[stream] - 1e-3);
    assert_true(number_of(json_object_get(event, "args"), "stream") == stream);
    f->end[stream] = end;
    f->kernels += kernel;
    f->copies += copy;
    if (copy) assert_int_equal(strncmp(name, "Memcpy HtoD (LOAD_BATCH", 23), 0);
    f->reduces += strcmp(name, "ncclDevKernel_AllReduce") == 0;
    f->messages += strcmp(name, "ncclDevKernel_SendRecv") == 0;
    if (strncmp(name, "nccl", 4) == 0) f->communication += end - begin;
}

static found read_rank(int rank)
{
    found f = {0};
    json_t *j = read_json(rank), *event;
    size_t i;
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(j, "distributedInfo"), "rank")), rank);
    json_array_foreach(json_object_get(j, "traceEvents"), i, event) add_event(&f, event);
    json_decref(j);
    return f;
}

static void work_has_the_names_that_tools_know(void **state)
{
    (void)state;
    const made_run o = {
        .ranks = 4, .hosts = 2, .stages = 2, .micro = 2, .steps = 5, .jitter = 0.2, .input = 0.1};
    run_view *v, *cut;
    char *trace, *kineto = own_path(folder, "kineto");
    assert_int_equal(made_run_write(folder, &o, NULL), OK);
    assert_int_equal(run_view_open(folder, &v, NULL), OK);
    assert_int_equal(trace_cut(v, 2, 4, &trace, NULL), OK);
    assert_int_equal(run_view_open(trace, &cut, NULL), OK);
    assert_int_equal(trace_write_kineto(cut, kineto, NULL), OK);
    for (int r = 0; r < 4; r++) {
        const found f = read_rank(r);
        spans_step s;
        double expected = 0; // microseconds
        for (uint64_t step = 2; step <= 4; step++) {
            assert_true(run_view_step_of(v, r, step, &s));
            expected += (double)s.phase_ns[PHASE_COMM] * 1e-3;
        }
        assert_int_equal(f.steps, 3);
        assert_int_equal(f.reduces, 3 * 2);
        assert_int_equal(f.copies, 3 * 2);
        assert_int_equal(f.launches, f.kernels + f.copies);
        assert_true(f.communication > expected - 1 && f.communication < expected + 1);
        assert_true(r >= 2 || f.messages > 0); // the first stage waits for gradients
    }
    run_view_close(cut);
    run_view_close(v);
    free(trace);
    free(kineto);
}

// Names of hosts and devices come from machines of users.
static void strings_are_escaped(void **state)
{
    (void)state;
    run_view *v;
    spans *s;
    char *path = own_path(folder, "spans/rank-00000.spans"), *kineto = own_path(folder, "kineto");
    spans_head head = {.ranks = 1, .host = "a\"\n\001", .device = "\xff\\"};
    const spans_row row = {.name = "FORWARD \x1b[0m\"", .parent = -1, .peer = -1};
    assert_int_equal(spans_create(path, &head, &row, 1, (spans_room){2, 2}, &s, NULL), OK);
    spans_add(s, &(span){1000, 500, 0, 0, 1, -1, 0});
    spans_add_step(s, &(spans_step){.step = 1, .begin_ns = 900, .duration_ns = 700});
    spans_finish(s);
    assert_int_equal(run_view_open(folder, &v, NULL), OK);
    assert_int_equal(trace_write_kineto(v, kineto, NULL), OK);
    const found f = read_rank(0);
    assert_int_equal(f.kernels, 1);
    run_view_close(v);
    free(path);
    free(kineto);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(work_has_the_names_that_tools_know, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(strings_are_escaped, make_folder, remove_folder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
