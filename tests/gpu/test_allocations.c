// test_allocations.c -- opening a trainer, writing a checkpoint, reading weights and resuming allocate memory of
// the device, and pinned memory of the host, as often for a deep model as for a shallow one: nothing is allocated for each
// parameter. The cuda device of the stand-in counts.
#include "unit/train/golden.h"

#include "base/file.h"
#include "ckpt/ckpt.h"

enum { VOCAB = 61, LENGTH = 8, SEED = 3, SHALLOW = 2, DEEP = 7 };

typedef struct setting {
    const char *name, *dp, *frozen; // frozen: a pattern of tensors
    dtype precision;
    memory_tier tier;
} setting;

// Allocations of the device in each of these.
typedef struct counts {
    uint64_t draw, save, read, resume;
} counts;

static void make_config(int layers, model_config *c)
{
    model_config_defaults(model_family_find("gpt2"), c);
    c->layers = layers;
    c->hidden = 32;
    c->heads = 4;
    c->vocab = VOCAB;
    c->max_seq = LENGTH;
    CHECK(model_config_finish(c, e));
}

// `group` must live as long as the trainer.
static trainer_options make_options(const setting *s, const model_config *c, dataset *data,
                                    param_group group[2])
{
    trainer_options o = {.family = c->family,
                         .config = c,
                         .mesh = {.size = {1, 1, 1, 1, 1}, .ranks = 1},
                         .strategy = {.dp = {*policy_find("ddp"), *policy_find(s->dp)},
                                      .no_sync = NO_SYNC_AUTO,
                                      .reshard_after_forward = 1,
                                      .pipeline = {.virtual_stages = 1},
                                      .bucket_bytes = 8 << 10,
                                      .offload = {.host_is_apart = true}},
                         .precision = s->precision,
                         .micro_batch = 1,
                         .global_batch = 1,
                         .seq_len = LENGTH,
                         .seed = SEED,
                         .optimizer = golden_optimizer(UPDATE_ADAMW),
                         .train = data};
    for (int k = 0; k < PLAN_STATES; k++) o.strategy.offload.tier[k] = s->tier;
    lr_defaults(&o.lr);
    group[1] = (param_group){.dp = o.strategy.dp,
                             .over = POLICY_AXES,
                             .precision = o.precision,
                             .optimizer = o.optimizer,
                             .lr_scale = 1};
    memcpy(group[1].tier, o.strategy.offload.tier, sizeof group[1].tier);
    group[0] = group[1];
    group[0].match = s->frozen;
    group[0].frozen = true;
    if (s->frozen) o.groups = (param_groups){.items = group, .count = 2};
    return o;
}

static uint64_t since(const device *d, uint64_t *last)
{
    const uint64_t count = d->allocations - *last;
    *last = d->allocations;
    return count;
}

// Opens a trainer, which draws its weights; saves; opens another one with the saved weights; resumes.
static void count_life(trainer_options *o, const char *folder, counts *out)
{
    const trainer_save_options save = {.out = folder, .config_json = "{}"};
    uint64_t last = o->device->allocations;
    char *saved = NULL;
    safetensors *weights = NULL;
    trainer *t = NULL;
    trainer_step_result r;
    CHECK(trainer_open(o, &t, e));
    out->draw = since(o->device, &last);
    CHECK(trainer_step(t, false, &r, e));
    last = o->device->allocations;
    CHECK(trainer_save(t, &save, &saved, e));
    out->save = since(o->device, &last);
    trainer_close(t);
    CHECK(safetensors_open_folder(saved, &weights, e));
    o->weights = weights;
    last = o->device->allocations;
    CHECK(trainer_open(o, &t, e));
    out->read = since(o->device, &last);
    CHECK(trainer_resume(t, saved, e));
    out->resume = since(o->device, &last);
    trainer_close(t);
    safetensors_close(weights);
    free(saved);
}

static counts count(const setting *s, int layers)
{
    char folder[] = "/tmp/trireme-allocations.XXXXXX";
    counts out = {0};
    model_config config;
    dataset *data = NULL;
    param_group group[2];
    make_config(layers, &config);
    assert_non_null(mkdtemp(folder));
    CHECK(dataset_open(&(dataset_source){.path = "mock", .weight = 1}, 1, LENGTH, VOCAB, SEED, 64,
                       &data, e));
    trainer_options o = make_options(s, &config, data, group);
    CHECK(device_open("cuda", NULL, &o.device, e));
    CHECK(comm_solo_open(&o.comm, e));
    count_life(&o, folder, &out);
    comm_close(o.comm);
    device_close(o.device);
    dataset_close(data);
    CHECK(file_remove_tree(folder, e));
    return out;
}

static void test_no_parameter_has_an_allocation_of_its_own(void **state)
{
    (void)state;
    static const setting all[] = {
        {"fp32", "ddp", NULL, F32, TIER_DEVICE},
        {"bf16", "ddp", NULL, BF16, TIER_DEVICE},
        {"bf16, weights without fp32 master weights", "ddp", "*.mlp.*", BF16, TIER_DEVICE},
        {"fp16, all on the host", "zero3", NULL, F16, TIER_HOST},
        {"fp16, all on the host, some frozen", "zero3", "*.attn.*", F16, TIER_HOST},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const counts few = count(&all[i], SHALLOW), many = count(&all[i], DEEP);
        if (memcmp(&few, &many, sizeof few) != 0)
            fail_msg("%s: allocations to draw, save, read and resume of %d layers: %llu, %llu, "
                     "%llu, %llu; of %d layers: %llu, %llu, %llu, %llu",
                     all[i].name, SHALLOW, (unsigned long long)few.draw,
                     (unsigned long long)few.save, (unsigned long long)few.read,
                     (unsigned long long)few.resume, DEEP, (unsigned long long)many.draw,
                     (unsigned long long)many.save, (unsigned long long)many.read,
                     (unsigned long long)many.resume);
        assert_true(few.draw > 0 && few.read > 0); // the counter counts
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_parameter_has_an_allocation_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
