// test_hook.c -- a program's hook in the place of the reduction of gradients: the bits of no hook where it sums all, in
// one piece or in several; its buckets and their tensors; and the jobs that refuse it.
#include "unit/api/fixture.h"

enum { STEPS = 3, RANKS = 2, TENSORS_MOST = 64 };

typedef struct hook_notes {
    int pieces;  // in which the hook sums a bucket; 0: no hook
    bool scales; // it halves the sum
    const char *refusal;
    double loss[STEPS], grad_norm[STEPS];
    int calls[RANKS], lasts[RANKS], tensors[RANKS];
    size_t elements[RANKS];
    char name[TENSORS_MOST][96];
} hook_notes;

static trm_status reduce(void *state, trm_trainer *t, const trm_bucket *b, trm_error *e)
{
    hook_notes *n = state;
    const int rank = trm_trainer_rank(t);
    size_t first = 0;
    n->calls[rank]++;
    n->lasts[rank] += b->is_last;
    for (int i = 0; i < b->tensors; i++) {
        const trm_bucket_tensor *x = &b->tensor[i];
        if (x->first + x->count > b->count) return trm_fail(e, TRM_FAILED, "%s", x->name);
        n->elements[rank] += x->count;
        if (rank == 0 && n->tensors[0] < TENSORS_MOST)
            strncpy(n->name[n->tensors[0]], x->name, sizeof n->name[0] - 1);
        n->tensors[rank]++;
    }
    for (int i = 0; i < n->pieces; i++) {
        const size_t end = b->count * (size_t)(i + 1) / (size_t)n->pieces;
        const trm_status how = trm_bucket_all_reduce(t, first, end - first, e);
        if (how != TRM_OK) return how;
        first = end;
    }
    for (size_t i = 0; n->scales && i < b->count; i++) b->buffer[i] /= 2;
    if (trm_bucket_all_reduce(t, b->count, 1, e) != TRM_USAGE)
        return trm_fail(e, TRM_FAILED, "beyond the bucket");
    return TRM_OK;
}

static trm_status train(trm_trainer *t, void *arg, trm_error *e)
{
    hook_notes *n = arg;
    trm_step s;
    trm_status how = TRM_OK;
    if (trm_bucket_all_reduce(t, 0, 1, e) != TRM_USAGE) return trm_fail(e, TRM_FAILED, "outside");
    if (n->pieces) how = trm_trainer_register_comm_hook(t, n, reduce, e);
    while (how == TRM_OK && trm_trainer_steps_left(t) > 0) {
        how = trm_trainer_step(t, &s, e);
        if (how != TRM_OK || trm_trainer_rank(t) > 0) continue;
        n->loss[s.step - 1] = s.loss;
        n->grad_norm[s.step - 1] = s.grad_norm;
    }
    return how;
}

static void run_job(hook_notes *n, const char *const *settings, trm_rank_main main_of_rank)
{
    trm_job *job = new_gpt2();
    SET(job, "train.steps", "3", "train.micro_batch", "2", "model.layers", "2",
        "parallel.bucket_bytes", "4Ki", "train.clip_grad_norm", "0");
    for (; *settings; settings += 2) ACCEPT(trm_job_set(job, settings[0], settings[1], &error));
    if (n->refusal) {
        REFUSE(trm_run(job, main_of_rank, n, &error));
        HAS(n->refusal);
    } else {
        ACCEPT(trm_run(job, main_of_rank, n, &error));
    }
    trm_job_close(job);
}

#define SETTINGS(...) ((const char *[]){__VA_ARGS__, NULL})

static void hooks_have_the_bits_of_no_hook(const char *const *settings)
{
    hook_notes none = {.pieces = 0}, one = {.pieces = 1}, five = {.pieces = 5};
    run_job(&none, settings, train);
    run_job(&one, settings, train);
    run_job(&five, settings, train);
    assert_true(none.loss[0] > none.loss[2] && none.loss[2] > 0);
    assert_memory_equal(none.loss, one.loss, sizeof none.loss);
    assert_memory_equal(none.loss, five.loss, sizeof none.loss);
    assert_memory_equal(none.grad_norm, one.grad_norm, sizeof none.grad_norm);
    assert_int_equal(none.calls[0], 0);
    assert_true(one.calls[0] > 0);
}

static void a_hook_that_sums_all_has_the_bits_of_no_hook(void **state)
{
    (void)state;
    hooks_have_the_bits_of_no_hook(SETTINGS("parallel.dp", "ddp"));
    hooks_have_the_bits_of_no_hook(SETTINGS("parallel.dp", "ddp", "train.precision", "bf16"));
    hooks_have_the_bits_of_no_hook(SETTINGS("parallel.dp", "ddp", "parallel.cp", "2"));
    hooks_have_the_bits_of_no_hook(SETTINGS("parallel.dp", "ddp", "parallel.tp", "2"));
    hooks_have_the_bits_of_no_hook(SETTINGS("parallel.dp", "ddp", "parallel.pp", "2"));
    hooks_have_the_bits_of_no_hook(SETTINGS("launch.ranks", "1"));
}

// Gradients are reduced in the backward of the last micro-batch. That of the loss may be reduced after its forward.
static trm_status train_in_parts(trm_trainer *t, void *arg, trm_error *e)
{
    hook_notes *n = arg;
    trm_step s;
    trm_status how = trm_trainer_register_comm_hook(t, n, reduce, e);
    const int rank = trm_trainer_rank(t);
    while (how == TRM_OK && trm_trainer_steps_left(t) > 0) {
        const int before = n->calls[rank], lasts = n->lasts[rank];
        for (int i = 0; how == TRM_OK && i < 2; i++) {
            how = trm_engine_forward(t, NULL, e);
            if (n->calls[rank] > before + i || n->lasts[rank] > lasts)
                return trm_fail(e, TRM_FAILED, "a reduction before the backward");
            if (how == TRM_OK) how = trm_engine_backward(t, e);
        }
        if (how != TRM_OK || n->lasts[rank] != lasts + 1)
            return trm_fail(e, TRM_FAILED, "no reduction in the backward");
        how = trm_engine_step(t, &s, e);
        if (how == TRM_OK && rank == 0) n->loss[s.step - 1] = s.loss;
    }
    return how;
}

static void a_step_in_parts_calls_the_hook_in_its_last_backward(void **state)
{
    (void)state;
    hook_notes n = {.pieces = 1}, straight = {.pieces = 0};
    const char *const settings[] = {"parallel.dp", "ddp", NULL};
    run_job(&straight, settings, train);
    run_job(&n, settings, train_in_parts);
    assert_memory_equal(n.loss, straight.loss, sizeof n.loss);
}

static void a_hook_sees_every_bucket_and_every_tensor_once_a_step(void **state)
{
    (void)state;
    hook_notes n = {.pieces = 1};
    run_job(&n, SETTINGS("parallel.dp", "ddp"), train);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(n.lasts[r], STEPS);
        assert_true(n.calls[r] > STEPS && n.calls[r] % STEPS == 0); // several buckets
        // Two layers of width 16, the embeddings, and the last norm.
        assert_int_equal(n.tensors[r], STEPS * (2 * 12 + 2 + 2));
        assert_int_equal(n.elements[r], STEPS * (2 * (12 * 256 + 13 * 16) + 2 * 256 + 32));
    }
    bool found = false;
    for (int i = 0; i < TENSORS_MOST; i++)
        found = found || strcmp(n.name[i], "transformer.h.0.mlp.c_fc.weight") == 0;
    assert_true(found);
}

// The norm is that of the halved gradients, so what the hook leaves in the buffer is what the update reads.
static void what_a_hook_leaves_is_the_gradient(void **state)
{
    (void)state;
    hook_notes straight = {.pieces = 1}, halved = {.pieces = 1, .scales = true};
    run_job(&straight, SETTINGS("parallel.dp", "ddp"), train);
    run_job(&halved, SETTINGS("parallel.dp", "ddp"), train);
    assert_true(straight.grad_norm[0] == 2 * halved.grad_norm[0]);
}

static void jobs_without_full_gradients_refuse_a_hook(void **state)
{
    static const char SHARDS[] = "reduce gradients to shards, or in other memory; valid: full "
                                 "gradients on the device, as under parallel.dp ddp";
    (void)state;
    run_job(&(hook_notes){.pieces = 1, .refusal = SHARDS}, SETTINGS("parallel.dp", "zero1"), train);
    run_job(&(hook_notes){.pieces = 1, .refusal = SHARDS}, SETTINGS("parallel.dp", "zero2"), train);
    run_job(&(hook_notes){.pieces = 1, .refusal = "this job (zero3) reduce"},
            SETTINGS("parallel.dp", "zero3"), train);
    run_job(&(hook_notes){.pieces = 1, .refusal = "compresses the gradients already"},
            SETTINGS("parallel.dp", "ddp", "parallel.hook", "bf16"), train);
    run_job(&(hook_notes){.pieces = 1, .refusal = "compresses the gradients already"},
            SETTINGS("parallel.dp", "ddp", "train.reduce_dtype", "bf16"), train);
}

static trm_status give_up(void *state, trm_trainer *t, const trm_bucket *b, trm_error *e)
{
    (void)state, (void)b;
    if (trm_trainer_rank(t) == 1) return trm_fail(e, TRM_FAILED, "no more");
    return trm_bucket_all_reduce(t, 0, b->count, e);
}

static trm_status train_and_fail(trm_trainer *t, void *arg, trm_error *e)
{
    const trm_status how = trm_trainer_register_comm_hook(t, arg, give_up, e);
    return how == TRM_OK ? trm_trainer_step(t, NULL, e) : how;
}

static void a_hook_that_fails_ends_the_run(void **state)
{
    (void)state;
    trm_job *job = new_gpt2();
    assert_int_equal(trm_run(job, train_and_fail, NULL, &error), TRM_FAILED);
    assert_string_equal(error.text, "rank 1: no more");
    trm_job_close(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hook_that_sums_all_has_the_bits_of_no_hook),
        cmocka_unit_test(a_step_in_parts_calls_the_hook_in_its_last_backward),
        cmocka_unit_test(a_hook_sees_every_bucket_and_every_tensor_once_a_step),
        cmocka_unit_test(what_a_hook_leaves_is_the_gradient),
        cmocka_unit_test(jobs_without_full_gradients_refuse_a_hook),
        cmocka_unit_test(a_hook_that_fails_ends_the_run),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
