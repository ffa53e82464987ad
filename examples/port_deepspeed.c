// port_deepspeed.c -- the training loop of a program that uses DeepSpeed, line for line: the dict of its configuration,
// deepspeed.initialize, and engine(batch), engine.backward, engine.step for each micro-batch. The comments at the right
// are the lines of Python. It runs two ranks, as threads, with ZeRO stage 2 and four micro-batches a step.
//
// Then it trains the same job by whole steps, and compares the losses: they have the same bits.
#include <trireme.h>

#include <stdio.h>
#include <string.h>

enum { STEPS = 20, MICROS = 4, POSITIONS = 16, VOCAB = 32 };

static const char ds_config[] = //                                     ds_config = {
    "{'train_micro_batch_size_per_gpu': 2,\n"
    " 'gradient_accumulation_steps': 4,\n"
    " 'optimizer': {'type': 'AdamW', 'params': {'lr': 0.01}},\n"
    " 'gradient_clipping': 1.0,\n"
    " 'bf16': {'enabled': true},\n"
    " 'zero_optimization': {'stage': 2}}\n"; //                        }

// Sample k counts from k on.                                          class Counting(Dataset):
static trm_status read_sample(void *context, uint64_t k, void *inputs, void *labels, trm_error *e)
{ //                                                                     def __getitem__(self, k):
    int32_t *in = inputs, *out = labels;
    for (uint64_t i = 0; i < POSITIONS; i++) {
        in[i] = (int32_t)((k + i * (1 + k % 3)) % VOCAB);
        out[i] = (int32_t)((k + (i + 1) * (1 + k % 3)) % VOCAB);
    }
    (void)context, (void)e;
    return TRM_OK;
}

typedef struct outcome {
    double loss[STEPS], last_micro_loss;
    int forwards;
} outcome;

// Runs on every rank.
static trm_status train(trm_trainer *engine, void *arg, trm_error *e)
{
    outcome *o = arg;
    const bool first = trm_trainer_rank(engine) == 0; //               rank == 0
    trm_status status = TRM_OK;
    trm_step s = {.step = 0};
    double loss;
    while (status == TRM_OK && trm_trainer_steps_left(engine) > 0) { //  for batch in loader:
        // boundary = engine.is_gradient_accumulation_boundary()
        const bool boundary = trm_engine_is_boundary(engine);
        status = trm_engine_forward(engine, &loss, e); //                  loss = engine(batch)
        if (status == TRM_OK) status = trm_engine_backward(engine, e); //  engine.backward(loss)
        if (status == TRM_OK) status = trm_engine_step(engine, &s, e); //  engine.step()
        if (status != TRM_OK || !first) continue;
        o->forwards++;
        o->last_micro_loss = loss; //                                      loss.item()
        if (!boundary) continue;
        o->loss[s.step - 1] = s.loss;
        if (s.step % 5 == 0) printf("step %2d  loss %.4f  lr %g\n", (int)s.step, s.loss, s.lr);
    }
    return status == TRM_OK ? trm_trainer_save(engine, e) : status; // engine.save_checkpoint(…)
}

static trm_status train_whole_steps(trm_trainer *t, void *arg, trm_error *e)
{
    outcome *o = arg;
    trm_status status = TRM_OK;
    trm_step s = {.step = 0};
    while (status == TRM_OK && trm_trainer_steps_left(t) > 0) {
        status = trm_trainer_step(t, &s, e);
        if (status == TRM_OK && trm_trainer_rank(t) == 0) o->loss[s.step - 1] = s.loss;
    }
    return status;
}

static const char *const settings[][2] = {
    {"model.family", "gpt2"},
    {"model.vocab", "32"},
    {"model.layers", "2"},
    {"model.hidden", "32"},
    {"model.heads", "2"},
    {"model.max_seq", "16"},
    {"train.steps", "20"},
    {"launch.ranks", "2"},
    {"launch.as", "threads"},
    // DeepSpeed keeps the learning rate where the dict has no scheduler.
    {"lr_schedule.name", "constant"},
};

static trm_status run(trm_rank_main fn, outcome *o, trm_error *e)
{
    const trm_dataset counting = {.samples = 512, .positions = POSITIONS, .read = read_sample};
    trm_job *job = NULL;
    const char *lost = NULL;
    trm_status status = trm_job_open(NULL, &job, e); //                deepspeed.initialize(
    for (size_t i = 0; status == TRM_OK && i < sizeof settings / sizeof *settings; i++)
        status = trm_job_set(job, settings[i][0], settings[i][1], e); //   model=model,
    // training_data=Counting(),
    if (status == TRM_OK) status = trm_job_use_data(job, TRM_TRAIN, &counting, e);
    // config=ds_config)
    if (status == TRM_OK) status = trm_job_set_dialect(job, "deepspeed", ds_config, &lost, e);
    if (status == TRM_OK && lost) fprintf(stderr, "without an equal:\n%s\n", lost);
    if (status == TRM_OK) status = trm_run(job, fn, o, e);
    trm_job_close(job);
    return status;
}

int main(void)
{
    trm_error error;
    outcome parts = {.forwards = 0}, whole = {.forwards = 0};
    trm_status status = run(train, &parts, &error);
    if (status == TRM_OK) status = run(train_whole_steps, &whole, &error);
    if (status == TRM_OK && memcmp(parts.loss, whole.loss, sizeof whole.loss) != 0)
        status = trm_fail(&error, TRM_FAILED, "a step in parts has other losses than a whole one");
    if (status == TRM_OK && (parts.forwards != STEPS * MICROS || !(parts.last_micro_loss < 2)))
        status = trm_fail(&error, TRM_FAILED, "%d forwards, loss %g at the end", parts.forwards,
                          parts.last_micro_loss);
    if (status != TRM_OK) fprintf(stderr, "port_deepspeed: %s\n", error.text);
    return status;
}
