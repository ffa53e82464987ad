// port_accelerate.c -- the training loop of a program that uses HuggingFace Accelerate, line for line: the file that
// `accelerate config` writes, accelerator.prepare, and `with accelerator.accumulate(model)` for each micro-batch. The
// comments at the right are the lines of Python. It runs two ranks, as threads, with FSDP and four micro-batches a step.
//
// Then it trains the same job by whole steps, and compares the losses: they have the same bits.
#include <trireme.h>

#include <stdio.h>
#include <string.h>

enum { STEPS = 20, MICROS = 4, POSITIONS = 16, VOCAB = 32 };

static const char default_config[] = // ~/.cache/huggingface/accelerate/default_config.yaml
    "compute_environment: LOCAL_MACHINE\n"
    "distributed_type: FSDP\n"
    "fsdp_config: {fsdp_version: 2, fsdp_reshard_after_forward: true}\n"
    "mixed_precision: bf16\n"
    "num_processes: 2\n"
    "use_cpu: true\n";

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
    double loss[STEPS], valid_loss;
    int syncs, micros; // micro-batches that end a step, and all
} outcome;

// Runs on every rank: accelerator.prepare has given it its weights, its share of the data and its optimizer.
static trm_status train(trm_trainer *accelerator, void *arg, trm_error *e)
{
    outcome *o = arg;
    const bool is_main =
        trm_trainer_rank(accelerator) == 0; //           accelerator.is_main_process
    trm_status status = TRM_OK;
    trm_step s = {.step = 0};
    double loss;
    while (status == TRM_OK && trm_trainer_steps_left(accelerator) > 0) { // for batch in loader:
        //                                                               with accelerator.accumulate(model):
        const bool sync =
            trm_engine_is_boundary(accelerator); //          accelerator.sync_gradients
        status =
            trm_engine_forward(accelerator, &loss, e); //             loss = model(**batch).loss
        if (status == TRM_OK)
            status =
                trm_engine_backward(accelerator, e); //               accelerator.backward(loss)
        // accelerator.clip_grad_norm_(model.parameters(), 1.0), optimizer.step(), scheduler.step(), optimizer.zero_grad()
        if (status == TRM_OK) status = trm_engine_step(accelerator, &s, e);
        if (status != TRM_OK || !is_main) continue;
        o->micros++;
        o->syncs += sync;
        if (!sync) continue;
        o->loss[s.step - 1] =
            s.loss; // accelerator.gather(loss).mean(), over the micro-batches of the step
        if (s.step % 5 == 0) printf("step %2d  loss %.4f  lr %g\n", (int)s.step, s.loss, s.lr);
    }
    // model.eval(), and accelerator.gather_for_metrics(loss) of each batch of the loader
    if (status == TRM_OK) status = trm_trainer_evaluate(accelerator, 0, &loss, e);
    if (status == TRM_OK && is_main) o->valid_loss = loss;
    return status == TRM_OK ? trm_trainer_save(accelerator, e)
                            : status; // accelerator.save_state(…)
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
    {"launch.as", "threads"},
    // Accelerator(gradient_accumulation_steps=4), DataLoader(Counting(), batch_size=2)
    {"train.accumulation", "4"},
    {"train.micro_batch", "2"},
    // torch.optim.AdamW(model.parameters(), lr=0.01), and no scheduler
    {"optimizer.lr", "0.01"},
    {"train.clip_grad_norm", "1.0"},
    {"lr_schedule.name", "constant"},
};

// model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
static trm_status run(trm_rank_main fn, outcome *o, trm_error *e)
{
    const trm_dataset counting = {.samples = 512, .positions = POSITIONS, .read = read_sample};
    const trm_dataset few = {.samples = 64, .positions = POSITIONS, .read = read_sample};
    trm_job *job = NULL;
    const char *lost = NULL;
    trm_status status = trm_job_open(NULL, &job, e);
    for (size_t i = 0; status == TRM_OK && i < sizeof settings / sizeof *settings; i++)
        status = trm_job_set(job, settings[i][0], settings[i][1], e);
    if (status == TRM_OK) status = trm_job_use_data(job, TRM_TRAIN, &counting, e);
    if (status == TRM_OK) status = trm_job_use_data(job, TRM_VALID, &few, e);
    if (status == TRM_OK) status = trm_job_set_dialect(job, "accelerate", default_config, &lost, e);
    if (status == TRM_OK && lost) fprintf(stderr, "without an equal:\n%s\n", lost);
    if (status == TRM_OK) status = trm_run(job, fn, o, e);
    trm_job_close(job);
    return status;
}

int main(void)
{
    trm_error error;
    outcome parts = {.micros = 0}, whole = {.micros = 0};
    trm_status status = run(train, &parts, &error);
    if (status == TRM_OK) status = run(train_whole_steps, &whole, &error);
    if (status == TRM_OK && memcmp(parts.loss, whole.loss, sizeof whole.loss) != 0)
        status = trm_fail(&error, TRM_FAILED, "a step in parts has other losses than a whole one");
    if (status == TRM_OK && (parts.micros != STEPS * MICROS || parts.syncs != STEPS ||
                             !(parts.valid_loss > 0 && parts.valid_loss < 2)))
        status = trm_fail(&error, TRM_FAILED, "%d micro-batches, %d steps, loss %g at the end",
                          parts.micros, parts.syncs, parts.valid_loss);
    if (status != TRM_OK) fprintf(stderr, "port_accelerate: %s\n", error.text);
    return status;
}
