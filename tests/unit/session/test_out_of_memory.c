// test_out_of_memory.c -- every operation of a run with an allocation that fails: it returns an
// error that names memory, and the same operation succeeds afterwards with the same result. Under
// the address sanitizer nothing is leaked either.
//
// The linker wraps malloc and its kin (--wrap), so that calls in Trireme's objects fail and calls
// in shared libraries (jansson, libyaml, the C library) do not. Only the thread that runs
// the operation fails: its allocations have the same order every time.
#include "infer/evaluate.h"
#include "infer/predict.h"
#include "session/session.h"

#include "base/file.h"
#include "ckpt/ckpt.h"
#include "infer/decoder.h"
#include "own_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static _Thread_local bool is_watched; // allocations of this thread count
static long counted;                  // so far
static long first_failure;            // the number of the first one that fails; 0: none
static bool all_after;                // those after it fail, too

static bool fails(void)
{
    if (!is_watched) return false;
    counted++;
    return first_failure && (counted == first_failure || (all_after && counted > first_failure));
}

#define WRAP(name, params, args)                                                                   \
    void *__real_##name params;                                                                    \
    void *__wrap_##name params;                                                                    \
    void *__wrap_##name params                                                                     \
    {                                                                                              \
        return fails() ? NULL : __real_##name args;                                                \
    }
WRAP(malloc, (size_t n), (n))
WRAP(calloc, (size_t n, size_t m), (n, m))
WRAP(realloc, (void *p, size_t n), (p, n))
WRAP(aligned_alloc, (size_t a, size_t n), (a, n))

int __real_posix_memalign(void **out, size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes)
{
    return fails() ? 12 : __real_posix_memalign(out, alignment, bytes);
}

// What is measured decides no test.
uint64_t __wrap_proc_own_bytes(void);
uint64_t __wrap_proc_own_bytes(void)
{
    return 10 << 20;
}

// ---- What a run holds

enum { ARGS_MAX = 32 };

static char folder[] = "/tmp/trireme-test-XXXXXX";

typedef struct run {
    const char *const *args; // ends with NULL
    job *job;
    session_inputs in;
    world *world;
    session session;
    text out; // what the operation gives, to compare
} run;

static int take_args(const run *r, char **argv)
{
    int argc = 0;
    static char out[64];
    snprintf(out, sizeof out, "--train.out=%s", folder);
    argv[argc++] = out;
    for (int i = 0; r->args[i]; i++) argv[argc++] = (char *)r->args[i];
    return argc;
}

static status open_job(run *r, err *e)
{
    char *argv[ARGS_MAX];
    const int argc = take_args(r, argv);
    return job_open(NULL, argc, argv, &r->job, e);
}

static status open_inputs(run *r, err *e)
{
    status result = OK;
    TRY(open_job(r, e));
    TRY(session_inputs_open(r->job, &r->in, e));
done:
    return result;
}

static status open_to_explain(run *r, err *e)
{
    status result = OK;
    TRY(open_job(r, e));
    TRY(session_inputs_open_to_explain(r->job, &r->in, e));
done:
    return result;
}

static status open_world(run *r, err *e)
{
    status result = OK;
    TRY(open_inputs(r, e));
    TRY(world_open(1, true, &r->world, e));
done:
    return result;
}

static status open_session(run *r, err *e)
{
    status result = OK;
    TRY(open_world(r, e));
    TRY(session_open(r->job, &r->in, r->world, 0, &r->session, e));
done:
    return result;
}

static status open_and_step(run *r, err *e)
{
    status result = OK;
    trainer_step_result step;
    TRY(open_session(r, e));
    TRY(trainer_step(r->session.trainer, false, &step, e));
done:
    return result;
}

static status open_and_save(run *r, err *e)
{
    status result = OK;
    TRY(open_and_step(r, e));
    TRY(session_save(&r->session, r->job, &r->in, NULL, &(trainer_best){.step = -1}, NULL, e));
    session_close(&r->session);
    world_close(r->world);
    r->world = NULL;
    TRY(world_open(1, true, &r->world, e));
    TRY(session_open(r->job, &r->in, r->world, 0, &r->session, e));
done:
    return result;
}

static void close_run(run *r)
{
    session_close(&r->session);
    world_close(r->world);
    session_inputs_close(&r->in);
    job_close(r->job);
    text_clear(&r->out);
}

// ---- Operations. Each adds what it found to r->out.

static status do_open_job(run *r, err *e)
{
    const status result = open_job(r, e);
    if (result == OK) job_explain(r->job, true, &r->out);
    if (result == OK) job_write_yaml(r->job, &r->out);
    return result == OK ? text_check(&r->out, e) : result;
}

static status do_refuse_job(run *r, err *e)
{
    err why = {.code = OK};
    const status result = open_job(r, &why);
    if (result == E_USAGE) text_add(&r->out, why.text);
    if (result == E_USAGE) return text_check(&r->out, e);
    return err_set(e, result == OK ? E_INTERNAL : result, "%s", why.text);
}

static status do_open_inputs(run *r, err *e)
{
    return session_inputs_open(r->job, &r->in, e);
}

static status do_refuse_inputs(run *r, err *e)
{
    err why = {.code = OK};
    const status result = session_inputs_open(r->job, &r->in, &why);
    if (result == E_USAGE) text_add(&r->out, why.text);
    if (result == E_USAGE) return text_check(&r->out, e);
    return err_set(e, result == OK ? E_INTERNAL : result, "%s", why.text);
}

static status do_explain(run *r, err *e)
{
    status result = OK;
    text svg = {0};
    const explain_options plain = {.rank = 0}, json = {.json = true, .rank = 0, .svg = &svg};
    TRY(session_explain(r->job, &r->in, &plain, &r->out, e));
    TRY(session_explain(r->job, &r->in, &json, &r->out, e));
    TRY(text_check(&svg, e));
    text_add(&r->out, svg.chars ? svg.chars : "");
    TRY(text_check(&r->out, e));
done:
    text_clear(&svg);
    return result;
}

static status do_plan(run *r, err *e)
{
    return session_plan(r->job, &r->in, &(session_plan_options){.json = false}, &r->out, e);
}

static status add_weights(run *r, err *e)
{
    status result = OK;
    float weight[4096];
    const model *m = trainer_get_model(r->session.trainer);
    for (int p = 0; p < m->params; p++) {
        double sum = 0;
        assert_true(m->param[p].count <= 4096);
        TRY(trainer_read_state(r->session.trainer, STATE_WEIGHT, p, weight, e));
        for (int64_t i = 0; i < m->param[p].count; i++) sum += weight[i] * (double)(1 + i % 7);
        text_addf(&r->out, "%s %.17g\n", m->param[p].name, sum);
    }
    TRY(text_check(&r->out, e));
done:
    return result;
}

static status do_open_session(run *r, err *e)
{
    status result = OK;
    TRY(session_open(r->job, &r->in, r->world, 0, &r->session, e));
    TRY(add_weights(r, e));
done:
    return result;
}

static status do_steps(run *r, err *e)
{
    status result = OK;
    trainer_step_result step;
    for (int i = 0; i < 2; i++) {
        TRY(trainer_step(r->session.trainer, false, &step, e));
        text_addf(&r->out, "%.17g %.17g\n", step.loss, step.grad_norm);
    }
    TRY(add_weights(r, e));
done:
    return result;
}

static status do_evaluate(run *r, err *e)
{
    status result = OK;
    double loss, tokens;
    const infer_predict_options o = {.what = PREDICT_CLASSES};
    int32_t ids[64] = {1, 2, 3}, classes[64];
    TRY(infer_evaluate(r->session.trainer, 1, &loss, &tokens, e));
    text_addf(&r->out, "%.17g %.17g", loss, tokens);
    TRY(infer_predict(r->session.trainer, &o, ids, 4, classes, e));
    for (int i = 0; i < 64; i++) text_addf(&r->out, " %d", classes[i]);
    TRY(text_check(&r->out, e));
done:
    return result;
}

static status do_save(run *r, err *e)
{
    status result = OK;
    char *saved = NULL;
    TRY(session_save(&r->session, r->job, &r->in, NULL, &(trainer_best){.step = -1}, &saved, e));
    text_add(&r->out, saved);
    TRY(ckpt_verify(saved, e));
    TRY(text_check(&r->out, e));
done:
    free(saved);
    return result;
}

static status do_resume(run *r, err *e)
{
    status result = OK;
    char *found = NULL;
    uint64_t step;
    text warnings = {0};
    TRY(ckpt_newest(folder, &found, &warnings, e));
    TRY(text_check(&warnings, e));
    TRY(session_check_resume(r->job, &r->in, NULL, found, &step, e));
    TRY(trainer_resume(r->session.trainer, found, e));
    text_addf(&r->out, "%s %s %d\n", found, warnings.chars ? warnings.chars : "", (int)step);
    TRY(add_weights(r, e));
done:
    text_clear(&warnings);
    free(found);
    return result;
}

static status do_generate(run *r, err *e)
{
    status result = OK;
    char *found = NULL;
    model_config c;
    safetensors *weights = NULL;
    decoder *x = NULL;
    const float *logits;
    int32_t id = 1;
    TRY(ckpt_locate(folder, &found, NULL, e));
    TRY(model_config_read(found, &c, e));
    TRY(safetensors_open_folder(found, &weights, e));
    TRY(decoder_open(r->session.device, c.family, &c, F32, weights, NULL, 8, &x, e));
    for (int i = 0; i < 4; i++) {
        TRY(decoder_feed(x, &id, 1, &logits, e));
        const sample_options o = {.temperature = 1, .top_p = 0.9, .top_k = 8, .seed = 3};
        TRY(sample_token(logits, decoder_vocab(x), &o, (uint64_t)i, &id, e));
        text_addf(&r->out, "%d ", (int)id);
    }
    TRY(text_check(&r->out, e));
done:
    decoder_close(x);
    safetensors_close(weights);
    free(found);
    return result;
}

// ---- The operations with failing allocations

typedef status operation(run *r, err *e);

typedef struct trial {
    status result;
    err error;
    char *out; // what the operation gave; owned
    long allocations;
    bool failed; // an allocation did
} trial;

// Prepares without failures, runs, and closes while memory lacks where it lacked to the end.
static trial try_once(const char *const *args, operation *prepare, operation *act, long fail_at,
                      bool to_the_end)
{
    trial t = {.out = NULL};
    err e = {.code = OK};
    run r = {.args = args};
    is_watched = false; // a trial before this one may have ended early
    char *saved = own_path(folder, "checkpoints");
    assert_int_equal(file_remove_tree(saved, &e), OK);
    free(saved);
    if (prepare && prepare(&r, &e) != OK) fail_msg("%s", e.text);
    counted = 0;
    first_failure = fail_at;
    all_after = to_the_end;
    is_watched = true;
    t.result = act(&r, &t.error);
    t.failed = fail_at && counted >= fail_at;
    t.allocations = counted;
    if (t.result == OK) {
        is_watched = false;
        t.out = strdup(r.out.chars ? r.out.chars : "");
        is_watched = true;
    }
    close_run(&r);
    is_watched = false;
    return t;
}

static void check_trial(const trial *t, const trial *good, const char *name, long fail_at)
{
    if (!t->failed && t->result != OK)
        fail_msg("%s fails without a failing allocation: %s", name, t->error.text);
    // What only improves a message may be left out.
    size_t same = 0;
    while (t->result == OK && t->out[same] && t->out[same] == good->out[same]) same++;
    if (t->result == OK && (t->out[same] || good->out[same]))
        fail_msg("%s: allocation %ld fails, and it gives\n%.200s\ninstead of\n%.200s", name,
                 fail_at, t->out + same, good->out + same);
    if (t->result != OK && !strstr(t->error.text, "memory"))
        fail_msg("%s: allocation %ld fails, and the error is: %s", name, fail_at, t->error.text);
}

// Every allocation of the operation fails once, alone and with all that follow it. Beyond `every`
// of them, as many that lie evenly.
static void fail_each(const char *name, const char *const *args, operation *prepare, operation *act,
                      long every)
{
    trial good = try_once(args, prepare, act, 0, false);
    if (good.result != OK) fail_msg("%s: %s", name, good.error.text);
    const long step = good.allocations > every ? good.allocations / every : 1;
    long refused = 0, tried = 0;
    for (long n = 1; n <= good.allocations; n += step)
        for (int to_the_end = 0; to_the_end < 2; to_the_end++, tried++) {
            // A step that is not 1 is made to meet different remainders.
            const long at = step > 1 ? n + tried * 7 % step : n;
            trial t = try_once(args, prepare, act, at, to_the_end);
            check_trial(&t, &good, name, at);
            refused += t.result != OK;
            free(t.out);
        }
    trial again = try_once(args, prepare, act, 0, false);
    assert_int_equal(again.result, OK);
    assert_string_equal(again.out, good.out);
    print_message("%s: %ld allocations, %ld of %ld trials refused\n", name, good.allocations,
                  refused, tried);
    assert_true(good.allocations == 0 || refused > 0);
    free(good.out);
    free(again.out);
}

#define TINY                                                                                       \
    "--model={family: llama, layers: 2, hidden: 16, heads: 2, ffn: 32, vocab: 32, max_seq: 16}",   \
        "--data.train=mock", "--data.valid=mock", "--data.seq_len=16",                             \
        "--train={steps: 4, global_batch: 4, micro_batch: 2}", "--launch.threads_per_rank=1",      \
        "--memory.budget=1Gi"

static const char *const alone[] = {TINY, "--launch.ranks=1", NULL};
static const char *const files[] = {TINY,
                                    "--launch.ranks=1",
                                    "--parallel.dp=zero3",
                                    "--train.precision=bf16",
                                    "--parallel.offload.weights=file",
                                    "--parallel.offload.gradients=file",
                                    "--parallel.offload.optimizer=file",
                                    "--parallel.offload.path=/tmp",
                                    "--parallel.no_sync=true",
                                    NULL};
static const char *const stages[] = {TINY,
                                     "--launch.ranks=8",
                                     "--parallel.pp=2",
                                     "--parallel.tp=2",
                                     "--parallel.dp=zero2",
                                     "--parallel.pp_schedule=zb",
                                     NULL};
static const char *const groups[] = {
    TINY, "--launch.ranks=1",
    "--groups=[{match: '*norm*', lr_scale: 2, offload: {weights: host}}, {match: '*embed*', "
    "trainable: false}]",
    NULL};
static const char *const no_match[] = {TINY, "--launch.ranks=1", "--groups=[{match: '*.bais'}]",
                                       NULL};
static const char *const no_setting[] = {TINY, "--launch.ranks=1",
                                         "--groups=[{match: a, offload: {weigths: host}}]", NULL};
static const char *const unknown[] = {TINY, "--parallel.sequenz_parallel=true", NULL};
static const char *const mistaken[] = {TINY, "--launch.ranks=1", "--train.precision=fp33", NULL};

// Trials of one operation that take long to prepare: FEW.
enum { EVERY = 80, FEW = 16 };

static void opening_a_job(void **state)
{
    (void)state;
    fail_each("job", alone, NULL, do_open_job, EVERY);
    fail_each("job with files", files, NULL, do_open_job, EVERY);
    fail_each("job with groups", groups, NULL, do_open_job, EVERY);
    fail_each("job with an unknown key in a group", no_setting, NULL, do_refuse_job, EVERY);
    fail_each("job with an unknown key", unknown, NULL, do_refuse_job, EVERY);
    fail_each("job with a wrong value", mistaken, NULL, do_refuse_job, EVERY);
}

static void planning(void **state)
{
    (void)state;
    fail_each("inputs", alone, open_job, do_open_inputs, EVERY);
    fail_each("explain", alone, open_to_explain, do_explain, EVERY);
    fail_each("explain groups", groups, open_to_explain, do_explain, EVERY);
    fail_each("inputs with groups", groups, open_job, do_open_inputs, EVERY);
    fail_each("inputs without members of a group", no_match, open_job, do_refuse_inputs, EVERY);
    fail_each("explain a pipeline", stages, open_to_explain, do_explain, EVERY);
    fail_each("plan", alone, open_to_explain, do_plan, EVERY);
}

static void opening_a_trainer(void **state)
{
    (void)state;
    fail_each("session", alone, open_world, do_open_session, EVERY);
    fail_each("session with files", files, open_world, do_open_session, EVERY);
}

static void a_step(void **state)
{
    (void)state;
    fail_each("steps", alone, open_session, do_steps, EVERY);
    fail_each("steps with files", files, open_session, do_steps, EVERY);
    fail_each("evaluate and predict", alone, open_session, do_evaluate, EVERY);
}

static void saving_and_going_on(void **state)
{
    (void)state;
    fail_each("save", alone, open_and_step, do_save, FEW);
    fail_each("resume", alone, open_and_save, do_resume, FEW);
    fail_each("generate", alone, open_and_save, do_generate, FEW);
}

static int open_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int close_folder(void **state)
{
    (void)state;
    return file_remove_tree(folder, NULL) == OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_a_job),       cmocka_unit_test(planning),
        cmocka_unit_test(opening_a_trainer),   cmocka_unit_test(a_step),
        cmocka_unit_test(saving_and_going_on),
    };
    return cmocka_run_group_tests(tests, open_folder, close_folder);
}
