// test_equiv_unkind.c -- every way of training on unkind devices, over the toy communicator: points that
// cover every pair of values of the matrix, by turns in the two orders of streams. Memory is not the host's, no rank
// reads another one's, and a send waits for its receive. The bits are those of the cpu device, and no rule
// of the unkind device is broken.
#include "equiv/matrix_cover.h"
#include "equiv/matrix_pool.h"

#include "late/late_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { LIMIT_S = 900, COVER = false, SAMPLE = 8 };
#else
enum { LIMIT_S = 600, COVER = true, SAMPLE = 0 };
#endif

static points chosen(void)
{
    points all = {NULL, 0, 0}, legal = {NULL, 0, 0};
    if (COVER) matrix_cover(&all);
    matrix_sample(&all, all.count + SAMPLE, 5);
    for (int i = 0; i < all.count; i++)
        if (matrix_legal_apart(&all.items[i])) points_add(&legal, &all.items[i]);
    points_clear(&all);
    return legal;
}

static void test_unkind_devices_give_the_same_bits(void **state)
{
    (void)state;
    points l = chosen();
    char name[MATRIX_NAME];
    trial *t = calloc((size_t)l.count, sizeof *t);
    assert_non_null(t);
    for (int i = 0; i < l.count; i++)
        t[i] = (trial){.point = l.items[i],
                       .unkind = true,
                       .late_order = i % 2 ? LATE_OTHERS_LAST : LATE_OTHERS_FIRST};
    const pool_options o = {.jobs = 2, .limit_s = LIMIT_S, .folder = pool_folder()};
    const int failed = pool_run(&o, t, l.count);
    for (int i = 0; i < l.count; i++) {
        matrix_print(&t[i].point, name);
        if (!t[i].passed) print_error("%s, order %d: %s\n", name, t[i].late_order, t[i].why);
    }
    print_message("%d points\n", l.count);
    free(t);
    points_clear(&l);
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_unkind_devices_give_the_same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
