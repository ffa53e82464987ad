// own_zero3.c -- a model of the program, an autoencoder of residual layers, under ZeRO-3 with the
// optimizer state in files. Each of two ranks has a shard of all weights and gradients, and Adam's
// moments pass through buffers. Three keys of the job choose all this; the model does not change.
#include <trireme.h>

#include <math.h>
#include <stdio.h>

enum { INPUTS = 32, WIDTH = 64, CODE = 8 };

static trm_value *layer(trm_builder *b, trm_value *x, const char *name, int64_t out, int64_t in)
{
    return trm_linear(b, x, trm_weight(b, name, out, in, TRM_NORMAL, 1 / sqrt((double)in)), NULL);
}

static int blocks(const void *config)
{
    return *(const int *)config + 2;
}

// The forward pass: block 0 encodes, the last block decodes, the blocks between refine.
static void trace(trm_builder *b, const void *config, int block)
{
    trm_value *x = block ? trm_input(b, WIDTH) : trm_features(b, INPUTS);
    if (block == 0) {
        trm_output(b, layer(b, layer(b, x, "encode", CODE, INPUTS), "widen", WIDTH, CODE));
    } else if (block < blocks(config) - 1) {
        trm_value *gain = trm_weight(b, "refine.{}.norm", WIDTH, 0, TRM_ONES, 0);
        trm_value *h = layer(b, trm_rms_norm(b, x, gain, 1e-6), "refine.{}.up", 2 * WIDTH, WIDTH);
        h = layer(b, trm_activation(b, h, TRM_GELU), "refine.{}.down", WIDTH, 2 * WIDTH);
        trm_output(b, trm_add(b, x, h));
    } else {
        trm_square_error(b, x, trm_weight(b, "decode", INPUTS, WIDTH, TRM_NORMAL, 0.1), NULL);
    }
}

// Sample k is a wave whose length and phase depend on k. It is its own target.
static trm_status read_wave(void *context, uint64_t k, void *inputs, void *labels, trm_error *error)
{
    float *x = inputs, *y = labels;
    for (int i = 0; i < INPUTS; i++)
        x[i] = y[i] = sinf((0.1f + (float)(k % 64) / 256) * (float)i + 6 * (float)(k / 64) / 64);
    (void)context, (void)error;
    return TRM_OK;
}

static trm_status train(trm_trainer *t, void *arg, trm_error *error)
{
    trm_step s = {.loss = 0};
    trm_status status = TRM_OK;
    while (status == TRM_OK && trm_trainer_steps_left(t) > 0)
        status = trm_trainer_step(t, &s, error);
    if (status == TRM_OK && s.loss > 0.05)
        status = trm_fail(error, TRM_FAILED, "the loss is still %.3f", s.loss);
    (void)arg;
    return status;
}

int main(void)
{
    static const char *const settings[][2] = {
        {"parallel.dp", "zero3"}, {"parallel.offload.optimizer", "file"}, {"train.steps", "400"},
        {"launch.ranks", "2"},    {"parallel.offload.path", "."},         {"optimizer.lr", "2e-3"},
    };
    const int layers = 3;
    const trm_family family = {.name = "waves", .blocks = blocks, .trace = trace};
    const trm_dataset waves = {
        .samples = 4096, .positions = 1, .features = INPUTS, .targets = INPUTS, .read = read_wave};
    trm_job *job;
    trm_error error;
    trm_status status = trm_job_open(NULL, &job, &error);
    for (size_t i = 0; status == TRM_OK && i < sizeof settings / sizeof *settings; i++)
        status = trm_job_set(job, settings[i][0], settings[i][1], &error);
    if (status == TRM_OK) status = trm_job_use_model(job, &family, &layers, NULL, &error);
    if (status == TRM_OK) status = trm_job_use_data(job, TRM_TRAIN, &waves, &error);
    if (status == TRM_OK) status = trm_run(job, train, NULL, &error);
    fprintf(stderr, "own_zero3: %s\n", status == TRM_OK ? "the waves are learned" : error.text);
    trm_job_close(job);
    return status;
}
