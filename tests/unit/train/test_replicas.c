// test_replicas.c -- ranks compare the weights that they must have in common, parameter group by
// parameter group. A damaged weight is noticed, and the message names the rank. Shards that differ
// because they are different shards are no difference.
#include "equiv/workers.h"

#include "train/trainer_private.h"

// The weight that is damaged: the first or the last one that a rank has of a group.
typedef struct damage {
    int rank, group;
    bool last;
} damage;

typedef struct comparison {
    const damage *damage; // NULL: none
    status found[WORKERS_MOST];
    err why[WORKERS_MOST];
} comparison;

static status spoil(trainer *t, const damage *d, err *e)
{
    const plan *p = t->plan;
    const plan_group *g = &p->group[d->group];
    if (g->buckets == 0) return err_set(e, E_INTERNAL, "group %d has no buckets here", d->group);
    const int bucket = d->last ? g->first_bucket + g->buckets - 1 : g->first_bucket;
    const plan_bucket *b = &p->bucket[bucket];
    float *weights = (float *)(void *)state_bucket(t, ARRAY_WEIGHTS, bucket);
    for (int i = 0; i < b->rows; i++) {
        const int at = b->first_row + (d->last ? b->rows - 1 - i : i);
        const plan_row *r = &p->row[p->order[at]];
        const plan_shard s = plan_local_shard(p, r, g->weight, p->coord);
        if (s.count == 0) continue;
        float *w = trainer_row_ptr(r, weights, g->weight) + (d->last ? s.count - 1 : 0);
        *w = nextafterf(*w, 9);
        return OK;
    }
    return err_set(e, E_INTERNAL, "no weight of group %d here", d->group);
}

static status compare(worker_group *all, int rank, golden *g, trainer *t, err *e)
{
    status result = OK;
    comparison *c = all->given;
    trainer_step_result r;
    (void)g;
    TRY(trainer_step(t, false, &r, e));
    if (c->damage && c->damage->rank == rank) TRY(spoil(t, c->damage, e));
    c->found[rank] = trainer_check_replicas(t, &c->why[rank]);
done:
    return result;
}

// Every rank must report `expected`; NULL: that nothing differs.
static void check(const scenario *s, const damage *d, const char *expected)
{
    comparison c = {.damage = d};
    workers_run("replicas", s, false, compare, &c);
    for (int r = 0; r < workers_ranks(s); r++) {
        if (!expected && c.found[r] != OK) fail_msg("rank %d: %s", r, c.why[r].text);
        if (!expected) continue;
        if (c.found[r] == OK) fail_msg("rank %d does not notice: %s", r, expected);
        assert_int_equal(c.found[r], E_NUMERIC);
        if (!strstr(c.why[r].text, expected))
            fail_msg("rank %d: %s; expected: %s", r, c.why[r].text, expected);
    }
}

static const scenario MIXED = {
    .replicate = 2, .shard = 2, .match = "*.mlp.*", .match_inner = "zero3"};

static void test_ranks_with_undamaged_weights_agree(void **state)
{
    (void)state;
    check(&MIXED, NULL, NULL);
    check(&(scenario){.shard = 4, .match = "*.mlp.*", .match_inner = "zero3"}, NULL, NULL);
    check(&(scenario){.shard = 2, .replicate = 2, .outer = "zero3", .inner = "zero3"}, NULL, NULL);
    check(&(scenario){.tp = 2, .replicate = 2, .match = "*.mlp.*", .freezes = true}, NULL, NULL);
}

// Rank 3 shares the shards of zero3 with rank 1 only, and full weights with all ranks.
static void test_a_damaged_weight_of_either_group_is_noticed(void **state)
{
    (void)state;
    for (int last = 0; last < 2; last++) {
        check(&MIXED, &(damage){.rank = 3, .group = 0, .last = last},
              "after step 1 rank 3's weights differ from rank 1's");
        check(&MIXED, &(damage){.rank = 3, .group = 1, .last = last},
              "after step 1 rank 3's weights differ from rank 0's");
    }
}

static void test_a_damaged_frozen_weight_is_noticed(void **state)
{
    (void)state;
    scenario s = MIXED;
    s.freezes = true;
    check(&s, &(damage){.rank = 2, .group = 0},
          "after step 1 rank 2's weights differ from rank 0's");
}

// The group lies on the first stage alone.
static void test_a_group_of_one_stage_is_compared_there(void **state)
{
    (void)state;
    const scenario s = {.pp = 2, .replicate = 2, .match = "*.h.0.*", .match_inner = "zero3"};
    check(&s, NULL, NULL);
    check(&s, &(damage){.rank = 1, .group = 0}, "rank 1's weights differ from rank 0's");
    check(&s, &(damage){.rank = 3, .group = 1}, "rank 3's weights differ from rank 2's");
}

// Context-parallel ranks have the same weights where these are not sharded, and read the same samples:
// their batches do not have to differ. Rank 1 shares the shards of zero3 with rank 3 only, and full
// weights with all ranks.
static void test_context_parallel_ranks_are_compared(void **state)
{
    (void)state;
    const scenario s = {.replicate = 2, .cp = 2, .match = "*.mlp.*", .match_inner = "zero3"};
    check(&(scenario){.cp = 4}, NULL, NULL);
    check(&s, NULL, NULL);
    for (int last = 0; last < 2; last++) {
        check(&(scenario){.cp = 2}, &(damage){.rank = 1, .last = last},
              "after step 1 rank 1's weights differ from rank 0's");
        check(&s, &(damage){.rank = 1, .group = 0, .last = last},
              "after step 1 rank 3's weights differ from rank 1's");
        check(&s, &(damage){.rank = 1, .group = 1, .last = last},
              "after step 1 rank 1's weights differ from rank 0's");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_with_undamaged_weights_agree),
        cmocka_unit_test(test_a_damaged_weight_of_either_group_is_noticed),
        cmocka_unit_test(test_a_damaged_frozen_weight_is_noticed),
        cmocka_unit_test(test_a_group_of_one_stage_is_compared_there),
        cmocka_unit_test(test_context_parallel_ranks_are_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
