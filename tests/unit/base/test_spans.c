// Tests the record of a rank: what is written is read from outside, what was overwritten is left out, damaged files are
// refused by name.
#include "base/spans.h"

#include "base/file.h"
#include "own_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
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

enum { ROWS = 3, RING = 1024, STEPS = 4 };

static spans *make(const char *path)
{
    spans *s;
    spans_head head = {.rank = 1, .ranks = 4, .host = "a"};
    spans_row rows[ROWS] = {{.name = "FORWARD", .phase = PHASE_FORWARD, .parent = -1, .peer = -1},
                            {.name = "REDUCE_GRAD", .phase = PHASE_COMM, .parent = -1, .peer = -1},
                            {.name = "all_reduce", .kind = SPANS_CALL, .parent = 1, .peer = -1}};
    assert_int_equal(spans_create(path, &head, rows, ROWS, (spans_room){STEPS, RING}, &s, NULL),
                     OK);
    return s;
}

static void what_a_rank_writes_is_read_from_outside(void **state)
{
    (void)state;
    char *path = own_path(folder, "spans/rank-00001.spans");
    spans *w = make(path), *r;
    span got[8];
    uint64_t from = 0;
    spans_add(w, &(span){.begin_ns = 10, .duration_ns = 5000, .row = 0, .step = 1, .last = -1});
    spans_add(w, &(span){20, 3000, 2000, 2, 1, 3, 0});
    assert_int_equal(spans_open(path, &r, NULL), OK);
    assert_int_equal(spans_read(r, &from, got, 8), 2);
    assert_int_equal(from, 2);
    assert_int_equal(got[1].waited_ns, 2000);
    assert_int_equal(r->rows[2].waited_ns, 2000);
    assert_int_equal(r->rows[0].bucket[spans_bucket_of(5000)], 1);
    assert_int_equal(r->waits[3], 2000);
    assert_int_equal(spans_read(r, &from, got, 8), 0);
    spans_finish(w);
    assert_int_equal(atomic_load(&r->head->ended), 1);
    spans_close(r);
    free(path);
}

static void spans_that_were_overwritten_are_left_out(void **state)
{
    (void)state;
    char *path = own_path(folder, "wraps");
    spans *w = make(path);
    static span got[3 * RING];
    uint64_t from = 0;
    for (int i = 0; i < 3 * RING; i++)
        spans_add(w, &(span){.begin_ns = i, .row = 0, .step = 1, .last = -1});
    const size_t count = spans_read(w, &from, got, 3 * RING);
    // The writer might be writing over the oldest one.
    assert_int_equal(count, RING - 1);
    assert_int_equal(got[0].begin_ns, 2 * RING + 1);
    assert_int_equal(got[count - 1].begin_ns, 3 * RING - 1);
    assert_int_equal(from, 3 * RING);
    assert_int_equal(w->rows[0].count, 3 * RING);
    spans_close(w);
    free(path);
}

static void the_last_steps_are_kept(void **state)
{
    (void)state;
    char *path = own_path(folder, "steps");
    spans *w = make(path);
    spans_step got;
    for (uint64_t i = 0; i < 10; i++) spans_add_step(w, &(spans_step){.step = i + 1});
    assert_true(spans_read_step(w, 9, &got));
    assert_int_equal(got.step, 10);
    assert_false(spans_read_step(w, 10, &got));
    assert_false(spans_read_step(w, 5, &got));
    assert_true(spans_read_step(w, 7, &got));
    assert_int_equal(got.step, 8);
    spans_close(w);
    free(path);
}

static void buckets_double(void **state)
{
    (void)state;
    assert_int_equal(spans_bucket_of(0), 0);
    assert_int_equal(spans_bucket_of(1023), 0);
    assert_int_equal(spans_bucket_of(INT64_MAX), SPANS_BUCKETS - 1);
    for (int b = 1; b < SPANS_BUCKETS; b++) {
        assert_int_equal(spans_bucket_of(spans_bucket_begin(b)), b);
        assert_int_equal(spans_bucket_of(spans_bucket_begin(b) - 1), b - 1);
    }
}

// Changes one word of a good file at `offset`, or cuts the file.
static void refuses(const char *path, size_t offset, uint32_t value, int64_t bytes,
                    const char *says)
{
    err why = {0};
    spans *r = NULL;
    spans_close(make(path));
    if (bytes >= 0) {
        assert_int_equal(truncate(path, bytes), 0);
    } else {
        spans *w = NULL;
        assert_int_equal(spans_open(path, &w, NULL), OK);
        const uint64_t all = w->bytes;
        spans_close(w);
        char *content = malloc(all);
        FILE *f = fopen(path, "r+");
        assert_int_equal(fread(content, 1, all, f), all);
        memcpy(content + offset, &value, sizeof value);
        rewind(f);
        assert_int_equal(fwrite(content, 1, all, f), all);
        fclose(f);
        free(content);
    }
    assert_int_equal(spans_open(path, &r, &why), E_USAGE);
    assert_non_null(strstr(why.text, path));
    assert_non_null(strstr(why.text, says));
}

static void damaged_files_are_refused_by_name(void **state)
{
    (void)state;
    char *path = own_path(folder, "damaged");
    refuses(path, 0, 0, -1, "not a record of spans");
    refuses(path, 0, 0, 100, "not a record of spans");
    refuses(path, 0, 0, (int64_t)sizeof(spans_head) + 8, "damaged");
    refuses(path, offsetof(spans_head, version), 9, -1, "version 9");
    refuses(path, offsetof(spans_head, rows), 1 << 30, -1, "damaged");
    refuses(path, offsetof(spans_head, ring), 1000, -1, "damaged");
    refuses(path, offsetof(spans_head, rank), 4, -1, "damaged");
    refuses(path, ((sizeof(spans_head) + 63) & ~(size_t)63) + offsetof(spans_row, phase), 77, -1,
            "a row is not valid");
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_rank_writes_is_read_from_outside),
        cmocka_unit_test(spans_that_were_overwritten_are_left_out),
        cmocka_unit_test(the_last_steps_are_kept),
        cmocka_unit_test(buckets_double),
        cmocka_unit_test(damaged_files_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
