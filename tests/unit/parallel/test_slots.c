// test_slots.c -- schedule_slot_take chooses the slot that a search through all slots would choose.
#include "parallel/schedule_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { SLOTS = 64, STEPS = 20000 };

typedef struct plain {
    int64_t elements[SLOTS];
    bool busy[SLOTS];
    int count;
} plain;

// The free slot that has to grow least, the first of several.
static int plain_take(plain *p, int64_t elements)
{
    int best = -1;
    for (int i = 0; i < p->count; i++)
        if (!p->busy[i] &&
            (best < 0 || llabs(p->elements[i] - elements) < llabs(p->elements[best] - elements)))
            best = i;
    if (best < 0) p->elements[best = p->count++] = 0;
    if (p->elements[best] < elements) p->elements[best] = elements;
    p->busy[best] = true;
    return best;
}

static void a_slot_is_the_one_that_grows_least(void **state)
{
    (void)state;
    plain want = {.count = 0};
    schedule_slots sizes = {0, NULL};
    schedule_slot_pool pool = {.sizes = &sizes};
    int taken[SLOTS], takes = 0;
    uint32_t random = 1;
    for (int i = 0; i < STEPS; i++) {
        random = random * 1664525u + 1013904223u;
        const bool take = takes == 0 || (takes < SLOTS && random >> 31);
        if (take) {
            const int64_t elements = 1 + (random >> 20) % 40;
            const int slot = schedule_slot_take(&pool, elements);
            assert_int_equal(slot, plain_take(&want, elements));
            taken[takes++] = slot;
        } else {
            const int k = (int)((random >> 12) % (uint32_t)takes);
            schedule_slot_give(&pool, taken[k]);
            want.busy[taken[k]] = false;
            taken[k] = taken[--takes];
        }
    }
    assert_int_equal(sizes.count, want.count);
    for (int i = 0; i < sizes.count; i++) assert_true(sizes.elements[i] == want.elements[i]);
    free(sizes.elements);
    free(pool.free);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_slot_is_the_one_that_grows_least)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
