// test_clip.c -- each gradient is counted once in the norm, whichever ranks hold it.
#include "optim/clip.h"

#include "unit/parallel/planned.h"

// How often the ranks together count element e of the only parameter.
static int64_t times_counted(planned x, int64_t e)
{
    int64_t times = 0;
    const int ranks = at_least_1(x.replicate) * at_least_1(x.shard) * at_least_1(x.cp);
    for (x.rank = 0; x.rank < ranks; x.rank++) {
        plan *p = planned_open(&x);
        const plan_group *g = plan_group_of(p, 0);
        const plan_shard s = plan_local_shard(p, &p->row[0], g->optimizer, p->coord);
        int index, of;
        clip_share(p, g, &index, &of);
        assert_in_range(index, 0, of - 1);
        const int64_t from = s.first + s.count * index / of,
                      to = s.first + s.count * (index + 1) / of;
        times += e >= from && e < to;
        plan_free(p);
    }
    return times;
}

static void test_every_policy_counts_each_gradient_once(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        {"ddp", "ddp"}, {"ddp", "zero1"}, {"ddp", "zero3"}, {"zero1", "zero3"}, {"zero3", "ddp"}};
    for (int i = 0; i < 5; i++)
        for (int cp = 1; cp <= 2; cp++) {
            planned x = planned_blocks(1, 24, 5);
            x.replicate = 2, x.shard = 3, x.cp = cp;
            x.outer = names[i][0], x.inner = names[i][1];
            for (int64_t e = 0; e < 24 * 5; e += 7) assert_int_equal(times_counted(x, e), 1);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_policy_counts_each_gradient_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
