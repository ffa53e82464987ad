// test_parts.c -- steps in parts (train/step_parts.c) have the bits of whole steps on unkind devices, whose streams run
// late, and which record whole steps and replay them: alone, and where whole steps and steps in parts follow each other.
#include "workers.h"

enum { STEPS = 6 };

typedef enum way { WHOLE, PARTS, PARTS_WITHOUT_LOSSES, BY_TURNS, WAYS } way;

typedef struct outcome {
    way how;
    double loss[STEPS], norm[STEPS];
    uint64_t weights; // digest of all of them
} outcome;

// Of all weights; 0 on the ranks after the first. Collective over the trainer's ranks.
static status digest(trainer *t, int rank, uint64_t *sum, err *e)
{
    status result = OK;
    const model *m = trainer_get_model(t);
    for (int p = 0; p < m->params && result == OK; p++) {
        float *w = rank == 0 ? calloc((size_t)m->param[p].count, sizeof *w) : NULL;
        result = trainer_read_state(t, STATE_WEIGHT, p, w, e);
        for (int64_t i = 0; w && i < m->param[p].count; i++) {
            uint32_t word;
            memcpy(&word, &w[i], sizeof word);
            *sum = *sum * 0x9E3779B97F4A7C15u + word;
        }
        free(w);
    }
    return result;
}

static status take_parts(trainer *t, bool reads_losses, trainer_step_result *s, err *e)
{
    status result = OK;
    bool ended = false;
    double loss = 0;
    while (!ended) {
        TRY(trainer_forward(t, false, reads_losses ? &loss : NULL, e));
        TRY(trainer_backward(t, e));
        TRY(trainer_update(t, s, &ended, e));
    }
done:
    return result;
}

static status train_rank(worker_group *all, int rank, golden *g, trainer *t, err *e)
{
    status result = OK;
    outcome *out = &((outcome *)all->given)[rank];
    const way how = ((outcome *)all->given)->how;
    (void)g;
    for (int i = 0; i < STEPS; i++) {
        trainer_step_result s = {0};
        const bool whole = how == WHOLE || (how == BY_TURNS && i % 2 == 0);
        if (whole)
            TRY(trainer_step(t, false, &s, e));
        else
            TRY(take_parts(t, how != PARTS_WITHOUT_LOSSES && i % 4 != 3, &s, e));
        out->loss[i] = s.loss, out->norm[i] = s.grad_norm;
    }
    TRY(digest(t, rank, &out->weights, e));
done:
    return result;
}

static const scenario CASES[] = {
    {.apart = true},
    {.precision = F16, .model = "llama_gqa", .keep = RECOMPUTE_FULL},
    {.shard = 2, .inner = "zero3"},
    {.shard = 2, .inner = "zero2", .sync = true, .optimizer = TIER_HOST},
    {.shard = 2, .inner = "zero3", .weights = TIER_FILE, .optimizer = TIER_FILE},
    {.replicate = 2, .shard = 2, .inner = "zero3", .precision = BF16, .sync = true},
    {.replicate = 2, .hook = HOOK_POWERSGD, .feedback = true},
    {.tp = 2, .sequence = true, .shard = 2, .inner = "zero1"},
    {.cp = 2, .model = "llama_gqa", .inner = "zero2"},
};

static void test_steps_in_parts_have_the_bits_of_whole_steps(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof CASES / sizeof *CASES; k++) {
        outcome out[WAYS][WORKERS_MOST];
        scenario s = CASES[k];
        memset(out, 0, sizeof out);
        s.unkind = true, s.late_order = (int)(k % 2);
        for (int how = 0; how < WAYS; how++) {
            out[how][0].how = (way)how;
            workers_run("parts", &s, false, train_rank, out[how]);
        }
        for (int how = 1; how < WAYS; how++)
            for (int r = 0; r < workers_ranks(&s); r++) {
                const outcome *a = &out[WHOLE][r], *b = &out[how][r];
                if (memcmp(a->loss, b->loss, sizeof a->loss) != 0 ||
                    memcmp(a->norm, b->norm, sizeof a->norm) != 0 || a->weights != b->weights)
                    fail_msg("case %zu, way %d, rank %d: other bits", k, how, r);
            }
    }
}

// The program cannot read the memory of these devices.
static status no_hook(void *arg, const trainer_bucket *b, err *e)
{
    (void)arg, (void)b, (void)e;
    return OK;
}

static status register_hook(worker_group *all, int rank, golden *g, trainer *t, err *e)
{
    err why = {.code = OK};
    (void)all, (void)rank, (void)g;
    if (trainer_set_hook(t, no_hook, NULL, &why) != E_USAGE)
        return err_set(e, E_INTERNAL, "the hook was taken");
    if (!strstr(why.text, "the program cannot read the memory of device"))
        return err_set(e, E_INTERNAL, "%s", why.text);
    return OK;
}

static void test_devices_with_a_memory_of_their_own_refuse_a_hook(void **state)
{
    (void)state;
    const scenario s = {.replicate = 2, .unkind = true};
    workers_run("hook", &s, false, register_hook, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_in_parts_have_the_bits_of_whole_steps),
        cmocka_unit_test(test_devices_with_a_memory_of_their_own_refuse_a_hook),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
