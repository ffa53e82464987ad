// A file tier returns the bytes that were written: with both engines, with and without O_DIRECT, for
// sizes around alignment and block size, with many requests, waits in any order, several threads,
// and without a wait.
#include "base/clock.h"
#include "tier_fixture.h"

#include <pthread.h>

enum { BLOCK = 64 << 10 };

// Sizes around the borders of alignment and block.
static const size_t SIZES[] = {
    0, 4096, 8192, BLOCK - 4096, BLOCK, BLOCK + 4096, 3 * BLOCK - 4096, 7 * BLOCK + 8192};
enum { SIZE_COUNT = sizeof SIZES / sizeof *SIZES };

static void round_trip(unsigned avoid, size_t block, int depth)
{
    tier *t = open_tier(
        (tier_options){.bytes = 16 * BLOCK, .block_bytes = block, .depth = depth, .avoid = avoid});
    char *memory = aligned(16 * BLOCK);
    uint64_t moved = 0;
    const double began = clock_seconds();
    for (int i = 0; i < SIZE_COUNT; i++) {
        const size_t bytes = SIZES[i];
        const uint64_t offset = i % 2 ? 16 * BLOCK - bytes : (uint64_t)i * 4096;
        tier_ticket w, r;
        fill(memory, offset, bytes, (uint64_t)i);
        CHECK(tier_write(t, offset, memory, bytes, &w, why));
        CHECK(tier_wait(t, w, why));
        memset(memory, 0, 16 * BLOCK);
        CHECK(tier_read(t, offset, memory, bytes, &r, why));
        assert_true(r == w + 1);
        CHECK(tier_wait(t, r, why));
        check(memory, offset, bytes, (uint64_t)i);
        CHECK(tier_wait(t, r, why)); // again
        CHECK(tier_wait(t, w, why));
        moved += bytes;
    }
    tier_counters c;
    tier_count(t, &c);
    assert_true(c.bytes_read == moved && c.bytes_written == moved);
    assert_true(c.seconds_waited >= 0 && c.seconds_waited <= clock_seconds() - began);
    assert_int_equal(files_in_folder(), 0);
    tier_close(t);
    free(memory);
}

static void written_data_reads_back(void **state)
{
    (void)state;
    for (int i = 0; i < WAY_COUNT; i++) {
        round_trip(WAYS[i], BLOCK, 4);
        round_trip(WAYS[i], 4096, 3);
        round_trip(WAYS[i], 0, 0);
        round_trip(WAYS[i] | TIER_AVOID_TMPFILE | TIER_AVOID_RESERVE, BLOCK, 1);
    }
}

// There are more requests than the queue holds, and more blocks than the depth.
static void tickets_may_be_waited_for_in_reverse(void **state)
{
    (void)state;
    enum { REQUESTS = 40, EACH = 5 * 4096 };
    for (int way = 0; way < WAY_COUNT; way++)
        for (int places = 1; places <= REQUESTS; places *= 40) {
            tier *t = open_tier((tier_options){.bytes = REQUESTS * EACH,
                                               .block_bytes = 8192,
                                               .depth = 6,
                                               .requests = places,
                                               .avoid = WAYS[way]});
            char *from = aligned(REQUESTS * EACH), *to = aligned(REQUESTS * EACH);
            tier_ticket tickets[REQUESTS];
            fill(from, 0, REQUESTS * EACH, 7);
            for (int i = 0; i < REQUESTS; i++)
                CHECK(tier_write(t, (uint64_t)i * EACH, from + i * EACH, EACH, &tickets[i], why));
            for (int i = REQUESTS; i-- > 0;) CHECK(tier_wait(t, tickets[i], why));
            for (int i = 0; i < REQUESTS; i++)
                CHECK(tier_read(t, (uint64_t)i * EACH, to + i * EACH, EACH, &tickets[i], why));
            for (int i = REQUESTS; i-- > 0;) {
                CHECK(tier_wait(t, tickets[i], why));
                check(to + i * EACH, (uint64_t)i * EACH, EACH, 7);
            }
            tier_close(t);
            free(from);
            free(to);
        }
}

static void unwritten_bytes_read_as_zeros(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        tier *t = open_tier((tier_options){.bytes = 10000, .avoid = i ? TIER_AVOID_RESERVE : 0});
        char *memory = aligned(12288);
        tier_ticket r;
        memset(memory, 1, 12288);
        CHECK(tier_read(t, 0, memory, 12288, &r, why));
        CHECK(tier_wait(t, r, why));
        for (int k = 0; k < 12288; k++) assert_int_equal(memory[k], 0);
        tier_close(t);
        free(memory);
    }
}

static void a_close_waits_for_blocks_in_flight(void **state)
{
    (void)state;
    for (int i = 0; i < WAY_COUNT; i++) {
        tier *t =
            open_tier((tier_options){.bytes = 32 * BLOCK, .block_bytes = 4096, .avoid = WAYS[i]});
        char *memory = aligned(32 * BLOCK);
        tier_ticket w;
        memset(memory, 5, 32 * BLOCK);
        CHECK(tier_write(t, 0, memory, 32 * BLOCK, &w, why));
        tier_close(t);
        free(memory); // the address sanitizer reports a transfer that still uses it
    }
}

typedef struct tier_turn {
    tier *t;
    char *memory;
    tier_ticket ticket;
} tier_turn;

static void *submit_and_end(void *arg)
{
    tier_turn *x = arg;
    tier_write(x->t, 0, x->memory, 16 * BLOCK, &x->ticket, NULL);
    return NULL;
}

// The kernel cancels a thread's own io_uring requests when the thread ends, so the tier's thread
// must start them.
static void several_threads_may_use_a_tier_in_turn(void **state)
{
    (void)state;
    for (int i = 0; i < WAY_COUNT; i++) {
        tier_turn x = {
            .t = open_tier((tier_options){
                .bytes = 16 * BLOCK, .block_bytes = BLOCK, .depth = 16, .avoid = WAYS[i]}),
            .memory = aligned(16 * BLOCK)};
        for (uint64_t round = 0; round < 8; round++) {
            pthread_t thread;
            tier_ticket r;
            fill(x.memory, 0, 16 * BLOCK, round);
            assert_int_equal(pthread_create(&thread, NULL, submit_and_end, &x), 0);
            pthread_join(thread, NULL);
            CHECK(tier_wait(x.t, x.ticket, why));
            memset(x.memory, 0, 16 * BLOCK);
            CHECK(tier_read(x.t, 0, x.memory, 16 * BLOCK, &r, why));
            CHECK(tier_wait(x.t, r, why));
            check(x.memory, 0, 16 * BLOCK, round);
        }
        tier_close(x.t);
        free(x.memory);
    }
}

// There are more blocks than the depth, and the test only calls tier_count, which serves no block.
static void a_request_finishes_while_nobody_waits(void **state)
{
    (void)state;
    enum { BYTES = 256 * BLOCK };
    for (int i = 0; i < WAY_COUNT; i++) {
        tier *t = open_tier(
            (tier_options){.bytes = BYTES, .block_bytes = BLOCK, .depth = 2, .avoid = WAYS[i]});
        char *memory = aligned(BYTES);
        tier_ticket x;
        tier_counters c = {0};
        fill(memory, 0, BYTES, 9);
        CHECK(tier_write(t, 0, memory, BYTES, &x, why));
        CHECK(tier_wait(t, x, why));
        memset(memory, 0, BYTES);
        tier_count(t, &c);
        const double waited = c.seconds_waited, deadline = clock_seconds() + 200;
        CHECK(tier_read(t, 0, memory, BYTES, &x, why));
        while (c.bytes_read < BYTES && clock_seconds() < deadline) {
            usleep(20000);
            tier_count(t, &c);
        }
        assert_int_equal(c.bytes_read, BYTES);
        CHECK(tier_wait(t, x, why));
        check(memory, 0, BYTES, 9);
        tier_count(t, &c);
        assert_true(c.seconds_waited == waited);
        assert_true(c.seconds_moving > 0 && c.seconds_cpu > 0);
        const double moved = c.seconds_moving; // it does not grow while no block is in flight
        usleep(20000);
        tier_count(t, &c);
        assert_true(c.seconds_moving == moved);
        tier_close(t);
        free(memory);
    }
}

// Empty requests keep their order among the others and use no block.
static void empty_requests_finish(void **state)
{
    (void)state;
    for (int i = 0; i < WAY_COUNT; i++) {
        tier *t = open_tier((tier_options){.bytes = 8 * BLOCK, .requests = 2, .avoid = WAYS[i]});
        char *memory = aligned(8 * BLOCK);
        tier_ticket x = 0;
        memset(memory, 3, 8 * BLOCK);
        for (int k = 0; k < 12; k++)
            CHECK(tier_write(t, 0, memory, k % 3 == 1 ? 8 * BLOCK : 0, &x, why));
        CHECK(tier_wait(t, x, why));
        CHECK(tier_wait(t, x - 1, why));
        tier_counters c;
        tier_count(t, &c);
        assert_int_equal(c.bytes_written, 4 * 8 * BLOCK);
        tier_close(t);
        free(memory);
    }
}

static void the_note_names_each_slower_way(void **state)
{
    (void)state;
    static const char *const expected[][2] = {{NULL, NULL},
                                              {"buffered I/O instead of O_DIRECT", NULL},
                                              {"threads instead of io_uring", NULL},
                                              {"O_DIRECT", "io_uring"}};
    for (int i = 1; i < WAY_COUNT; i++) {
        tier *t = open_tier((tier_options){.bytes = 4096, .avoid = WAYS[i]});
        const char *note = tier_note(t);
        assert_non_null(note);
        assert_non_null(strstr(note, "optimizer state"));
        assert_non_null(strstr(note, folder));
        assert_null(strchr(note, '\n'));
        for (int k = 0; k < 2; k++)
            if (expected[i][k]) assert_non_null(strstr(note, expected[i][k]));
        tier_close(t);
    }
}

static void a_misaligned_request_is_refused(void **state)
{
    (void)state;
    tier *t = open_tier((tier_options){.bytes = 8192});
    char *memory = aligned(16384);
    tier_ticket r = 77;
    err e = {0};
    assert_int_equal(tier_read(t, 512, memory, 4096, &r, &e), E_INTERNAL);
    assert_non_null(strstr(e.text, "multiples of 4096"));
    assert_int_equal(tier_read(t, 0, memory + 8, 4096, &r, &e), E_INTERNAL);
    assert_int_equal(tier_write(t, 0, memory, 100, &r, &e), E_INTERNAL);
    assert_int_equal(tier_write(t, 4096, memory, 8192, &r, &e), E_INTERNAL);
    assert_non_null(strstr(e.text, "outside of the file's 8192"));
    assert_int_equal(tier_read(t, UINT64_MAX - 4095, memory, 4096, &r, &e), E_INTERNAL);
    assert_true(r == 77);
    assert_int_equal(tier_wait(t, 1, &e), E_INTERNAL);
    assert_int_equal(tier_wait(t, 0, &e), E_INTERNAL);
    CHECK(tier_read(t, 0, memory, 8192, &r, why)); // the tier still works
    CHECK(tier_wait(t, r, why));
    tier_close(t);
    free(memory);
}

static void bad_options_are_refused(void **state)
{
    (void)state;
    tier *t = NULL;
    err e = {0};
    tier_options o = {.folder = folder, .name = "x", .bytes = 4096, .block_bytes = 1000};
    assert_int_equal(tier_open(&o, &t, &e), E_USAGE);
    assert_string_equal(
        e.text, "x: found blocks of 1000 bytes; valid are multiples of 4096 up to 1073741824");
    o.block_bytes = 0;
    o.depth = 5000;
    assert_int_equal(tier_open(&o, &t, &e), E_USAGE);
    assert_string_equal(e.text, "x: found depth 5000; valid are 1 to 1024");
    assert_null(t);
    tier_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_data_reads_back),
        cmocka_unit_test(tickets_may_be_waited_for_in_reverse),
        cmocka_unit_test(unwritten_bytes_read_as_zeros),
        cmocka_unit_test(a_close_waits_for_blocks_in_flight),
        cmocka_unit_test(several_threads_may_use_a_tier_in_turn),
        cmocka_unit_test(a_request_finishes_while_nobody_waits),
        cmocka_unit_test(empty_requests_finish),
        cmocka_unit_test(the_note_names_each_slower_way),
        cmocka_unit_test(a_misaligned_request_is_refused),
        cmocka_unit_test(bad_options_are_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
