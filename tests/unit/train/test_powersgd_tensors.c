// test_powersgd_tensors.c -- checkpoints contain PowerSGD's errors and factors: a run that resumes has
// the losses of a run that never stopped, with several parameter groups, and where a stage has only
// frozen parameters.
#include "equiv/workers.h"

#include "base/file.h"
#include "train/compress/powersgd_tensors.h"
#include "train/trainer_private.h"

enum { BEFORE = 3, STEPS = 6 };

typedef struct history {
    double loss[STEPS];
    char out[64]; // folder of the run
    char *folder; // of the checkpoint after step BEFORE
    int tensors;  // of PowerSGD that are saved
} history;

static status run_steps(history *h, int rank, trainer *t, int first, int last, err *e)
{
    status result = OK;
    for (int i = first; i < last; i++) {
        trainer_step_result r;
        TRY(trainer_step(t, false, &r, e));
        if (rank == 0) h->loss[i] = r.loss;
    }
    if (!powersgd_tensors_exist(t)) FAIL(E_INTERNAL, "no state of PowerSGD after a step");
done:
    return result;
}

static status train_and_save(worker_group *all, int rank, golden *g, trainer *t, err *e)
{
    status result = OK;
    history *h = all->given;
    powersgd_tensors list = {0};
    const trainer_save_options o = {.out = h->out, .config_json = "{}"};
    (void)g;
    if (powersgd_tensors_exist(t)) FAIL(E_INTERNAL, "there is state of PowerSGD before a step");
    TRY(run_steps(h, rank, t, 0, BEFORE, e));
    TRY(trainer_save(t, &o, rank == 0 ? &h->folder : NULL, e));
    TRY(powersgd_tensors_list(t, &list, e));
    if (rank == 0) h->tensors = list.count;
    TRY(run_steps(h, rank, t, BEFORE, STEPS, e));
done:
    free(list.items);
    return result;
}

static status resume(worker_group *all, int rank, golden *g, trainer *t, err *e)
{
    status result = OK;
    history *h = all->given;
    (void)g;
    TRY(trainer_resume(t, h->folder, e));
    if (trainer_note(t)) FAIL(E_INTERNAL, "%s", trainer_note(t));
    TRY(run_steps(h, rank, t, BEFORE, STEPS, e));
done:
    return result;
}

// `tensors`: how many tensors of PowerSGD the checkpoint has.
static void check(const char *name, const scenario *s, int tensors)
{
    history straight = {.out = "/tmp/trireme-powersgd.XXXXXX"}, resumed;
    assert_non_null(mkdtemp(straight.out));
    workers_run(name, s, false, train_and_save, &straight);
    resumed = straight;
    memset(resumed.loss, 0, sizeof resumed.loss);
    workers_run(name, s, false, resume, &resumed);
    for (int i = BEFORE; i < STEPS; i++)
        if (memcmp(&resumed.loss[i], &straight.loss[i], sizeof(double)) != 0)
            fail_msg("%s: step %d has loss %.17g, resumed %.17g", name, i + 1, straight.loss[i],
                     resumed.loss[i]);
    assert_int_equal(straight.tensors, tensors);
    CHECK(file_remove_tree(straight.out, e));
    free(straight.folder);
}

// For each matrix: the errors of all ranks that sum its gradient, and one Q and one start of it.
static void test_state_is_saved_with_the_parameters_of_each_group(void **state)
{
    (void)state;
    scenario s = {.model = "llama_gqa", .replicate = 2, .shard = 2, .inner = "zero3"};
    s.hook = HOOK_POWERSGD, s.feedback = true;
    const int layers = 2, matrices = 4, ends = 2; // of a layer; the embedding and the head
    check("one group", &s, (layers * matrices + ends) * (4 + 2));
    s.match = "*.mlp.*", s.match_inner = "ddp";
    check("two groups", &s, (layers * matrices + ends) * (4 + 2));
    s.freezes = true;
    check("one group frozen", &s, (layers * (matrices - 2) + ends) * (4 + 2));
}

// Rank 0 factors nothing itself, but it writes the checkpoint.
static void test_state_is_saved_where_the_first_stage_is_frozen(void **state)
{
    (void)state;
    const scenario s = {.model = "llama_gqa",
                        .pp = 2,
                        .replicate = 2,
                        .match = "model.*",
                        .freezes = true,
                        .hook = HOOK_POWERSGD,
                        .feedback = true};
    check("the head alone is trained", &s, 2 + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_state_is_saved_with_the_parameters_of_each_group),
        cmocka_unit_test(test_state_is_saved_where_the_first_stage_is_frozen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
