// Tests traces: steps that are cut out of a run, slices that never overlap, the archive for Perfetto, and what is refused.
// A small decoder reads the archive back.
#include "monitor/trace/trace.h"

#include "base/file.h"
#include "base/size.h"
#include "made_run.h"
#include "monitor/trace/trace_rank.h"
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

// Four ranks on two hosts, a pipeline of two stages; a checkpoint after each second step.
static const made_run RUN = {.ranks = 4,
                             .steps = 10,
                             .hosts = 2,
                             .stages = 2,
                             .micro = 2,
                             .save_every = 2,
                             .save = 0.1,
                             .jitter = 0.1};

static run_view *open_run(const made_run *o)
{
    run_view *v = NULL;
    assert_int_equal(made_run_write(folder, o, NULL), OK);
    assert_int_equal(run_view_open(folder, &v, NULL), OK);
    return v;
}

static void set_clock(int rank, int64_t offset_ns, int64_t error_ns)
{
    char *path = NULL;
    const int64_t values[2] = {offset_ns, error_ns};
    assert_int_equal(run_view_spans_path(folder, rank, &path, NULL), OK);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(
        fseek(f, (long)(offsetof(spans_head, clock) + offsetof(spans_clock, offset_ns)), SEEK_SET),
        0);
    assert_int_equal(fwrite(values, sizeof values, 1, f), 1);
    fclose(f);
    free(path);
}

// ---- The copy

static void a_trace_is_a_run_of_its_steps(void **state)
{
    (void)state;
    run_view *v = open_run(&RUN), *cut;
    char *trace, *again;
    uint64_t first, last, from = 0, saves = 0;
    assert_int_equal(trace_cut(v, 4, 6, &trace, NULL), OK);
    assert_non_null(strstr(trace, "/traces/steps-00000004-00000006"));
    assert_int_equal(run_view_open(trace, &cut, NULL), OK);
    assert_int_equal(cut->recorded, 4);
    assert_true(run_view_common_steps(cut, &first, &last));
    assert_int_equal(first, 4);
    assert_int_equal(last, 6);
    const spans *s = cut->rank[3];
    span x[512];
    const size_t count = spans_read(s, &from, x, 512);
    for (size_t i = 0; i < count; i++) {
        saves += s->rows[x[i].row].kind == SPANS_SAVE;
        assert_in_range(x[i].step, 4, 6);
    }
    assert_int_equal(saves, 2); // after steps 4 and 6
    for (uint64_t step = 4; step <= 6; step++) {
        spans_step b, a;
        assert_true(run_view_step_of(v, 3, step, &b));
        assert_true(run_view_step_of(cut, 3, step, &a));
        assert_int_equal(a.duration_ns, b.duration_ns);
        assert_int_equal(a.spans, b.spans);
        assert_int_equal(x[a.first_span].step, step);
        assert_int_equal(x[a.first_span + a.spans - 1].step, step);
    }
    assert_int_equal(s->rows[0].count, 3);
    assert_int_equal(v->rank[3]->rows[0].count, 10);
    assert_string_equal(s->head->host, "b");
    assert_int_equal(trace_cut(v, 4, 6, &again, NULL), OK); // in the place of the first one
    assert_string_equal(again, trace);
    run_view_close(cut);
    run_view_close(v);
    free(trace);
    free(again);
}

static void expect_refused(const run_view *v, uint64_t first, uint64_t last, const char *words)
{
    char *trace = NULL;
    err error = {0};
    assert_int_equal(trace_cut(v, first, last, &trace, &error), E_USAGE);
    if (!strstr(error.text, words)) fail_msg("'%s' lacks '%s'", error.text, words);
    assert_null(trace);
}

static void steps_that_are_not_there_are_refused(void **state)
{
    (void)state;
    made_run o = RUN;
    o.steps = 80;
    o.ring = 1024;
    run_view *v = open_run(&o);
    expect_refused(v, 80, 81, "rank 0 has not recorded step 81 yet; its last is 80");
    expect_refused(v, 1, 2, "rank 0 no longer has the spans of step 1");
    expect_refused(v, 3, 2, "valid are at most 1024 steps, from 1");
    expect_refused(v, 0, 2, "from 1");
    char *path = own_path(folder, "traces/steps-00000001-00000002");
    assert_false(file_exists(path));
    free(path);
    run_view_close(v);
}

static void a_clock_that_was_not_measured_is_refused(void **state)
{
    (void)state;
    run_view *v = open_run(&RUN);
    set_clock(2, 0, -1);
    set_clock(3, 0, -1);
    expect_refused(v, 4, 6, "rank 2 (host b): its clock was not compared");
    set_clock(3, 5, 7); // one of the machine's ranks was
    char *trace;
    assert_int_equal(trace_cut(v, 4, 6, &trace, NULL), OK);
    free(trace);
    run_view_close(v);
}

// ---- Slices

enum { OUTER, INNER, NEXT, OTHER, MADE };

static void slices_never_overlap_but_by_nesting(void **state)
{
    (void)state;
    char *path = own_path(folder, "slices/spans/rank-00000.spans");
    spans *s;
    spans_head head = {.ranks = 1, .host = "a"};
    const spans_row rows[MADE] = {
        [OUTER] = {.name = "OUTER", .parent = -1, .peer = -1},
        [INNER] = {.name = "inner", .kind = SPANS_CALL, .parent = OUTER, .peer = -1},
        [NEXT] = {.name = "NEXT", .parent = -1, .peer = -1},
        [OTHER] = {.name = "OTHER", .parent = -1, .stream = 1, .peer = -1}};
    assert_int_equal(spans_create(path, &head, rows, MADE, (spans_room){1, 1}, &s, NULL), OK);
    spans_add(s, &(span){100, 50, 0, NEXT, 1, -1, 0});
    spans_add(s, &(span){0, 110, 0, OUTER, 1, -1, 0});    // ends within NEXT
    spans_add(s, &(span){-5, 200, 150, INNER, 1, -1, 0}); // longer than OUTER
    spans_add(s, &(span){90, 40, 0, OTHER, 1, -1, 0});
    trace_rank r = {0};
    trace_slice *slice;
    size_t count;
    assert_int_equal(trace_rank_read(s, &r, NULL), OK);
    assert_int_equal(r.parent[2], 1);
    assert_int_equal(trace_rank_slices(&r, TRACK_COMPUTE, &slice, &count, NULL), OK);
    assert_int_equal(count, 3);
    const int64_t expected[3][3] = {{OUTER, 0, 100}, {INNER, 0, 100}, {NEXT, 100, 150}};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(r.span[slice[i].span].row, expected[i][0]);
        assert_int_equal(slice[i].begin_ns, expected[i][1]);
        assert_int_equal(slice[i].end_ns, expected[i][2]);
    }
    free(slice);
    trace_rank_clear(&r);
    spans_finish(s);
    free(path);
}

// ---- The archive

typedef struct member {
    char name[100];
    const uint8_t *data;
    size_t bytes;
} member;

enum { MEMBERS = 8 };

static int read_tar(const file_map *m, member out[MEMBERS])
{
    int count = 0;
    size_t offset = 0;
    while (m->ptr[offset]) {
        const char *h = (const char *)m->ptr + offset;
        unsigned sum = 0;
        for (int i = 0; i < 512; i++) sum += i >= 148 && i < 156 ? ' ' : (unsigned char)h[i];
        assert_memory_equal(h + 257, "ustar\00000", 8);
        assert_int_equal(strtoul(h + 148, NULL, 8), sum);
        assert_true(count < MEMBERS);
        strcpy(out[count].name, h);
        out[count].bytes = strtoul(h + 124, NULL, 8);
        out[count++].data = m->ptr + offset + 512;
        offset += 512 + size_align(out[count - 1].bytes, 512);
    }
    assert_int_equal(offset + 1024, m->bytes);
    return count;
}

typedef struct field {
    int number;
    uint64_t value; // or the length
    const uint8_t *data;
} field;

static uint64_t read_varint(const uint8_t **p)
{
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        const uint8_t byte = *(*p)++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return value;
    }
}

static bool next_field(const uint8_t **p, const uint8_t *end, field *f)
{
    if (*p >= end) return false;
    const uint64_t key = read_varint(p);
    f->number = (int)(key >> 3);
    f->data = *p;
    if ((key & 7) == 0) f->value = read_varint(p);
    if ((key & 7) == 1) {
        memcpy(&f->value, *p, 8);
        *p += 8;
    }
    if ((key & 7) == 2) {
        f->value = read_varint(p);
        f->data = *p;
        *p += f->value;
    }
    assert_true((key & 7) <= 2 && *p <= end);
    return true;
}

// The field of a message, or NULL; of several the first.
static const field *find(const field *of, int number, field *out)
{
    const uint8_t *p = of->data, *end = of->data + of->value;
    while (next_field(&p, end, out))
        if (out->number == number) return out;
    return NULL;
}

static uint64_t number_of(const field *of, int number)
{
    field f;
    return find(of, number, &f) ? f.value : 0;
}

enum { SEQUENCES = 32, NAMES = 256, FLOWS = 4096 };

typedef struct decoded {
    int slices, ends, counters, flows, facts, depth[SEQUENCES];
    bool begun[SEQUENCES], named[SEQUENCES][NAMES];
    uint64_t clock[SEQUENCES], first[SEQUENCES], flow[FLOWS];
    int deepest;
    bool realtime; // the time of day stands beside the clock
} decoded;

static void decode_names(decoded *d, uint64_t sequence, const field *interned)
{
    const uint8_t *p = interned->data, *end = p + interned->value;
    for (field f; next_field(&p, end, &f);)
        if (f.number == 2) d->named[sequence][number_of(&f, 1) % NAMES] = true;
}

static void decode_event(decoded *d, uint64_t sequence, const field *event)
{
    const uint64_t type = number_of(event, 9);
    const uint8_t *p = event->data, *end = p + event->value;
    if (type == 1) {
        assert_true(d->named[sequence][number_of(event, 10) % NAMES]);
        d->slices++;
        if (++d->depth[sequence] > d->deepest) d->deepest = d->depth[sequence];
    }
    if (type == 2) {
        d->ends++;
        assert_true(d->depth[sequence]-- > 0);
    }
    d->counters += type == 4;
    for (field f; next_field(&p, end, &f);) {
        d->facts += f.number == 4;
        if (f.number == 47) d->flow[d->flows++] = f.value;
    }
}

static void decode(const member *m, decoded *d)
{
    const uint8_t *p = m->data, *end = p + m->bytes;
    memset(d, 0, sizeof *d);
    for (field packet; next_field(&p, end, &packet);) {
        const uint64_t sequence = number_of(&packet, 10);
        field f;
        assert_int_equal(packet.number, 1);
        assert_true(sequence < SEQUENCES);
        if (!sequence && find(&packet, 6, &f)) d->realtime = true;
        if (sequence &&
            find(&packet, 6, &f)) { // a snapshot: the clock of the sequence, and CLOCK_MONOTONIC
            const uint8_t *c = f.data;
            field clock;
            assert_true(next_field(&c, f.data + f.value, &clock));
            assert_int_equal(number_of(&clock, 1), 64);
            assert_int_equal(number_of(&clock, 2), 0);
            assert_true(next_field(&c, f.data + f.value, &clock));
            assert_int_equal(number_of(&clock, 1), 3);
            assert_int_equal(number_of(&clock, 2), 0);
            d->begun[sequence] = true;
        }
        if (find(&packet, 12, &f)) decode_names(d, sequence, &f);
        if (!find(&packet, 11, &f)) continue;
        assert_true(d->begun[sequence]);
        assert_true(number_of(&packet, 8) < UINT64_C(1) << 40); // times do not decrease
        d->clock[sequence] += number_of(&packet, 8);
        if (!d->first[sequence]) d->first[sequence] = d->clock[sequence];
        decode_event(d, sequence, &f);
    }
    assert_int_equal(d->slices, d->ends);
}

static void check_manifest(const member *m)
{
    json_t *j = json_loadb((const char *)m->data, m->bytes, 0, NULL);
    json_t *x = json_object_get(j, "perfetto_manifest"), *files = json_object_get(x, "files");
    json_t *b = json_array_get(files, 2), *clocks = json_object_get(b, "clocks");
    assert_memory_equal(m->data, "{\"perfetto_manifest\"", 20);
    assert_int_equal(json_integer_value(json_object_get(x, "version")), 1);
    assert_int_equal(json_array_size(files), 5);
    assert_string_equal(json_string_value(json_object_get(b, "path")), "rank-00002.pftrace");
    assert_string_equal(json_string_value(json_object_get(json_object_get(b, "machine"), "name")),
                        "b");
    assert_string_equal(json_string_value(json_object_get(clocks, "clock")), "MONOTONIC");
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(clocks, "sync_to"), "file")),
        "rank-00000.pftrace");
    assert_int_equal(json_integer_value(json_object_get(clocks, "offset_ns")), 5000);
    assert_null(json_object_get(json_array_get(files, 1), "clocks")); // the machine of rank 0
    assert_null(json_object_get(json_array_get(files, 3), "clocks")); // related once
    x = json_object_get(x, "attributes");
    assert_int_equal(json_integer_value(json_object_get(x, "trireme.clock_error_ns.b")), 300);
    json_decref(j);
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

// How many ids occur `times` times.
static int joined(uint64_t *flow, int count, int times)
{
    int found = 0;
    qsort(flow, (size_t)count, sizeof *flow, compare);
    for (int i = 0, n; i < count; i += n) {
        for (n = 1; i + n < count && flow[i + n] == flow[i];) n++;
        found += n == times;
    }
    return found;
}

static void the_archive_has_every_span_and_joins_calls(void **state)
{
    (void)state;
    run_view *v = open_run(&RUN), *cut;
    char *trace, *path;
    file_map map;
    member m[MEMBERS];
    static decoded d;
    uint64_t first[4];
    set_clock(2, 5000, 300);
    set_clock(3, 5200, 900);
    assert_int_equal(trace_cut(v, 4, 6, &trace, NULL), OK);
    assert_int_equal(run_view_open(trace, &cut, NULL), OK);
    path = own_path(trace, "steps-00000004-00000006.tar");
    assert_int_equal(file_map_open(path, &map, NULL), OK);
    assert_int_equal(read_tar(&map, m), 6);
    assert_string_equal(m[0].name, "perfetto_manifest.json");
    check_manifest(&m[0]);
    for (int r = 0; r < 4; r++) {
        decode(&m[1 + r], &d);
        first[r] = d.first[1 + TRACK_COMM];
        assert_int_equal(d.slices, (int)atomic_load(&cut->rank[r]->head->spans) + 3);
        assert_int_equal(d.counters, SPANS_MEMORIES + 3);
        assert_int_equal(d.deepest, 2);
        assert_int_equal(d.flows, 0);
        assert_int_equal(d.realtime, r == 0);
        assert_true(d.facts > d.slices);
    }
    assert_string_equal(m[5].name, "ranks-calls.pftrace");
    for (int i = 1; i < 6; i++) assert_true(strcmp(m[i - 1].name, m[i].name) < 0);
    decode(&m[5], &d);
    // Rank 1 is of rank 0's machine.
    assert_int_equal(d.first[1 * 4 + TRACK_COMM + 1], first[1]);
    assert_int_equal(d.first[2 * 4 + TRACK_COMM + 1], first[2] + 5000);
    // In each step and pair of ranks: messages of two micro-batches, there and back. A stage of two ranks has one
    // all_reduce, the world of four another one.
    assert_int_equal(joined(d.flow, d.flows, 2), 3 * (2 * 2 * 2 + 2));
    assert_int_equal(joined(d.flow, d.flows, 4), 3);
    file_unmap(&map);
    run_view_close(cut);
    run_view_close(v);
    free(path);
    free(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_trace_is_a_run_of_its_steps, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(steps_that_are_not_there_are_refused, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_clock_that_was_not_measured_is_refused, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(slices_never_overlap_but_by_nesting, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(the_archive_has_every_span_and_joins_calls, make_folder,
                                        remove_folder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
