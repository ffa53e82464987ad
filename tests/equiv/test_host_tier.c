// test_host_tier.c -- a model that is too large for its device trains with its state on the host: one
// rank, weights, gradients and optimizer state on the host tier, a few blocks on the device at a time. The
// device limits its memory to a sixth of the model's state, and its streams run late. Losses and weights
// must have the bits of the device tier without a limit.
#include "../unit/train/golden.h"

#include "infer/evaluate.h"
#include "late/late_device.h"

#include <stdlib.h>

enum { LAYERS = 40, HIDDEN = 48, VOCAB = 61, LENGTH = 8, STEPS = 3, SEED = 3 };

typedef struct host_run {
    bool on_host, host_updates;
    late_order order;
    size_t limit; // of device memory in bytes; 0: none
    recompute_mode keep;
    dtype precision;
    int64_t global;
} host_run;

typedef struct host_outcome {
    status result;
    double loss[STEPS], valid_loss;
    uint64_t weights; // digest of all of them
    size_t peak, host_peak;
    uint64_t state,
        host_state; // bytes of weights, gradients and optimizer state; those on the host
} host_outcome;

static void make_config(model_config *c)
{
    err e = {0};
    model_config_defaults(model_family_find("gpt2"), c);
    c->layers = LAYERS;
    c->hidden = HIDDEN;
    c->heads = 4;
    c->vocab = VOCAB;
    c->max_seq = LENGTH;
    c->init_std = 0.1;
    if (model_config_finish(c, &e) != OK) fail_msg("%s", e.text);
}

static trainer_options make_options(const host_run *r, const model_config *c, dataset *data)
{
    trainer_options o = {
        .family = c->family,
        .config = c,
        .mesh = {.size = {1, 1, 1, 1, 1}, .ranks = 1},
        .strategy = {.dp = {*policy_find("ddp"), *policy_find("zero3")},
                     .no_sync = NO_SYNC_AUTO,
                     .reshard_after_forward = 1,
                     .pipeline = {.virtual_stages = 1},
                     .bucket_bytes = 8 << 10,
                     .offload = {.host_is_apart = true, .updates_on_host = r->host_updates},
                     .recompute = r->keep},
        .precision = r->precision,
        .micro_batch = 1,
        .global_batch = r->global,
        .seq_len = LENGTH,
        .seed = SEED,
        .optimizer = golden_optimizer(UPDATE_ADAMW),
        .clip_grad_norm = 0.5,
        .train = data,
        .valid = data};
    for (int k = 0; r->on_host && k < PLAN_STATES; k++) o.strategy.offload.tier[k] = TIER_HOST;
    lr_defaults(&o.lr);
    o.lr.name = LR_CONSTANT;
    o.lr.warmup_steps = 0;
    o.lr.total_steps = STEPS;
    return o;
}

static uint64_t digest(trainer *t)
{
    uint64_t sum = 0;
    const model *m = trainer_get_model(t);
    for (int p = 0; p < m->params; p++) {
        float *w = calloc((size_t)m->param[p].count, sizeof *w);
        assert_non_null(w);
        CHECK(trainer_read_state(t, STATE_WEIGHT, p, w, e));
        for (int64_t i = 0; i < m->param[p].count; i++) {
            uint32_t word;
            memcpy(&word, &w[i], sizeof word);
            sum = sum * 0x9E3779B97F4A7C15u + word;
        }
        free(w);
    }
    return sum;
}

static uint64_t state_bytes(const plan *p, bool with_device)
{
    uint64_t sum = 0;
    for (int c = BYTES_WEIGHTS; c <= BYTES_OPTIMIZER; c++)
        sum += p->host_bytes[c] + (with_device ? p->bytes[c] : 0);
    return sum;
}

static host_outcome run_on(const host_run *r)
{
    host_outcome out = {.result = OK};
    model_config config;
    dataset *data = NULL;
    trainer *t = NULL;
    err why = {0};
    make_config(&config);
    CHECK(dataset_open(&(dataset_source){.path = "mock", .weight = 1}, 1, LENGTH, VOCAB, SEED, 64,
                       &data, e));
    trainer_options o = make_options(r, &config, data);
    CHECK(late_device_open(r->order, &(device_options){.threads = 1}, &o.device, e));
    late_device_separate(o.device, r->limit);
    if (r->host_updates) CHECK(device_open("cpu", &(device_options){.threads = 1}, &o.host, e));
    CHECK(comm_solo_open(&o.comm, e));
    out.result = trainer_open(&o, &t, &why);
    for (int s = 0; s < STEPS && out.result == OK; s++) {
        trainer_step_result step = {0};
        out.result = trainer_step(t, false, &step, &why);
        out.loss[s] = step.loss;
    }
    if (out.result == OK) out.result = infer_evaluate(t, 2, &out.valid_loss, NULL, &why);
    if (out.result == OK) out.weights = digest(t);
    if (out.result == OK) {
        out.state = state_bytes(trainer_get_plan(t), true);
        out.host_state = state_bytes(trainer_get_plan(t), false);
    }
    if (out.result != OK && out.result != E_FIT) fail_msg("%s", why.text);
    trainer_close(t);
    out.peak = o.device->bytes_peak, out.host_peak = o.device->host_bytes_peak;
    comm_close(o.comm);
    device_close(o.host);
    device_close(o.device);
    dataset_close(data);
    return out;
}

static void check(host_run r)
{
    r.on_host = false;
    const host_outcome near = run_on(&r);
    assert_int_equal(near.result, OK);
    r.limit = near.state / 6;
    const host_outcome refused = run_on(&r);
    assert_int_equal(refused.result, E_FIT); // the limit holds
    r.on_host = true;
    for (int order = LATE_OTHERS_FIRST; order <= LATE_OTHERS_LAST; order++) {
        r.order = (late_order)order;
        const host_outcome far = run_on(&r);
        assert_int_equal(far.result, OK);
        assert_memory_equal(far.loss, near.loss, sizeof near.loss);
        assert_true(far.valid_loss == near.valid_loss && far.weights == near.weights);
        print_message("%llu bytes of state, %zu of the device, %zu of the host\n",
                      (unsigned long long)far.state, far.peak, far.host_peak);
        assert_true(far.peak <= r.limit && far.host_peak >= far.host_state);
        assert_true(far.host_state > far.state - far.state / 10);
    }
}

static void a_model_of_six_times_the_devices_memory_trains(void **state)
{
    (void)state;
    check((host_run){.order = LATE_OTHERS_FIRST, .keep = RECOMPUTE_FULL, .global = 1});
}

// Full gradients come back between micro-batches, and bf16 weights are only written by the update.
static void also_in_bf16_with_several_micro_batches(void **state)
{
    (void)state;
    check((host_run){
        .order = LATE_OTHERS_FIRST, .keep = RECOMPUTE_FULL, .global = 3, .precision = BF16});
}

// DeepSpeed's ZeRO-Offload: the host computes the optimizer steps. Its processor has the kernels of the
// device, so the bits are the same.
static void the_host_may_update_what_lies_there(void **state)
{
    (void)state;
    for (int type = F32; type <= BF16; type++)
        check((host_run){.order = LATE_OTHERS_FIRST,
                         .host_updates = true,
                         .keep = RECOMPUTE_FULL,
                         .global = 2,
                         .precision = (dtype)type});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_of_six_times_the_devices_memory_trains),
        cmocka_unit_test(also_in_bf16_with_several_micro_batches),
        cmocka_unit_test(the_host_may_update_what_lies_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
