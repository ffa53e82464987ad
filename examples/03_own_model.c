// 03_own_model.c -- a model family of the program: a residual stack of gated linear units on
// vectors, trained to compute a function of eight numbers. It runs two ranks, as processes.
//
// It shows a forward pass written with the builder (Trireme derives backward, memory and cost),
// blocks that share a graph, a regression, resuming from a checkpoint, and roles of parameters for
// tensor parallelism.
#include <trireme.h>

#include <math.h>
#include <stdio.h>

enum { INPUTS = 8, TARGETS = 2 };

typedef struct mixer {
    int layers, width, inner;
} mixer;

// Block 0 embeds, blocks 1 … layers mix, the last one predicts.
static int mixer_blocks(const void *config)
{
    return ((const mixer *)config)->layers + 2;
}

// The mixing blocks differ only in their weights, so they share one graph.
static int mixer_key(const void *config, int block)
{
    const int last = mixer_blocks(config) - 1;
    return block == 0 ? 0 : block == last ? 2 : 1;
}

// The role TRM_MLP lets tensor-parallel ranks shard the inner width.
static trm_value *matrix(trm_builder *b, const char *name, int64_t out, trm_role rows, int64_t in,
                         trm_role cols)
{
    trm_value *w = trm_weight(b, name, out, in, TRM_NORMAL, 1 / sqrt((double)in));
    trm_roles(b, w, rows, cols);
    return w;
}

static void mixer_trace(trm_builder *b, const void *config, int block)
{
    const mixer *m = config;
    if (block == 0) {
        trm_value *x = trm_features(b, INPUTS);
        trm_output(b, trm_linear(b, x, matrix(b, "embed", m->width, TRM_EMBED, INPUTS, TRM_NO_ROLE),
                                 NULL));
    } else if (block <= m->layers) {
        // x + down(silu(gate) * up), where [gate | up] is one linear layer of the normed x.
        trm_value *x = trm_input(b, m->width);
        trm_value *gain = trm_weight(b, "mix.{}.norm", m->width, 0, TRM_ONES, 0);
        trm_value *h = trm_rms_norm(b, x, gain, 1e-6);
        trm_value *up = matrix(b, "mix.{}.gate_up", 2 * m->inner, TRM_MLP, m->width, TRM_EMBED);
        trm_value *down = matrix(b, "mix.{}.down", m->width, TRM_EMBED, m->inner, TRM_MLP);
        h = trm_glu(b, trm_linear(b, h, up, NULL), TRM_SILU);
        h = trm_linear(b, h, down, NULL);
        trm_output(b, trm_add(b, x, h));
    } else {
        trm_value *x = trm_input(b, m->width);
        x = trm_rms_norm(b, x, trm_weight(b, "last.norm", m->width, 0, TRM_ONES, 0), 1e-6);
        trm_square_error(b, x, matrix(b, "last.weight", TARGETS, TRM_NO_ROLE, m->width, TRM_EMBED),
                         NULL);
    }
}

// Sample k is eight numbers in [-1, 1); its targets are the function of them that the model learns.
static trm_status read_sample(void *context, uint64_t sample, void *inputs, void *labels,
                              trm_error *error)
{
    float *x = inputs, *y = labels;
    uint64_t state = *(const uint64_t *)context + sample + 1;
    for (int i = 0; i < INPUTS; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)(state >> 40) / (float)(1 << 23) - 1;
    }
    y[0] = x[0] * x[1] + sinf(3 * x[2]);
    y[1] = fmaxf(x[3], x[4]);
    (void)error;
    return TRM_OK;
}

// Resumes from the newest checkpoint and trains to the job's last step. The last loss must be below
// *arg.
static trm_status train(trm_trainer *t, void *arg, trm_error *error)
{
    double loss = 0, aim = *(const double *)arg;
    trm_status status = trm_trainer_resume(t, NULL, error);
    while (status == TRM_OK && trm_trainer_steps_left(t) > 0)
        status = trm_trainer_step(t, NULL, error);
    if (status == TRM_OK) status = trm_trainer_evaluate(t, 0, &loss, error);
    if (status != TRM_OK) return status;
    if (trm_trainer_rank(t) == 0) printf("loss on unseen samples %.5f\n", loss);
    if (loss > aim) return trm_fail(error, TRM_FAILED, "the loss is %g, not below %g", loss, aim);
    return trm_trainer_save(t, error);
}

static trm_status run(trm_job *job, trm_error *error)
{
    static const char *const settings[][2] = {
        {"train.global_batch", "64"},     {"train.out", "run"},     {"train.steps", "150"},
        {"lr_schedule.name", "constant"}, {"optimizer.lr", "5e-3"}, {"launch.ranks", "2"}};
    static const mixer shape = {.layers = 3, .width = 32, .inner = 64};
    const trm_family family = {"mixer", mixer_blocks, mixer_key, NULL, mixer_trace};
    static uint64_t begin[] = {0, 65536};
    const trm_dataset samples = {.samples = 65536,
                                 .positions = 1,
                                 .features = INPUTS,
                                 .targets = TARGETS,
                                 .read = read_sample,
                                 .context = &begin[0]};
    trm_dataset unseen = samples;
    unseen.samples = 1024, unseen.context = &begin[1];
    double aim[2] = {0.2, 0.02};
    trm_status status = trm_job_use_model(job, &family, &shape, NULL, error);
    if (status == TRM_OK) status = trm_job_use_data(job, TRM_TRAIN, &samples, error);
    if (status == TRM_OK) status = trm_job_use_data(job, TRM_VALID, &unseen, error);
    for (size_t i = 0; status == TRM_OK && i < sizeof settings / sizeof *settings; i++)
        status = trm_job_set(job, settings[i][0], settings[i][1], error);
    if (status == TRM_OK) status = trm_run(job, train, &aim[0], error);
    // The same job with more steps resumes from the checkpoint, which does not depend on the mesh.
    // Now both ranks compute the same batch, each with a shard of every inner width.
    if (status == TRM_OK) status = trm_job_set(job, "parallel.tp", "2", error);
    if (status == TRM_OK) status = trm_job_set(job, "train.steps", "600", error);
    if (status == TRM_OK) status = trm_run(job, train, &aim[1], error);
    return status;
}

int main(void)
{
    trm_job *job = NULL;
    trm_error error;
    trm_status status = trm_job_open(NULL, &job, &error);
    if (status == TRM_OK) status = run(job, &error);
    if (status != TRM_OK) fprintf(stderr, "03_own_model: %s\n", error.text);
    trm_job_close(job);
    return status;
}
