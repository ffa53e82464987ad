// 02_language_model.c -- trains a tiny GPT-2 on the bytes of a few lines, on two ranks that are
// processes, and saves a checkpoint. Then it opens the checkpoint and continues the first words.
//
// It shows token data, checkpoints (transformers can load the folder, too) and text from a model.
#include <trireme.h>

#include <stdio.h>
#include <string.h>

static const char TEXT[] =
    "A trireme had three banks of oars on either side. One hundred and seventy rowers pulled as "
    "one, and a flute gave the stroke. ";

enum { LENGTH = sizeof TEXT - 1, POSITIONS = 32, PROMPT = 16, ANSWER = POSITIONS - PROMPT };

// Sample k is POSITIONS bytes from byte k on; after the last byte of the text comes its first one.
// The label of a byte is the next byte. A byte is its own token id.
static trm_status read_bytes(void *context, uint64_t sample, void *inputs, void *labels,
                             trm_error *error)
{
    int32_t *in = inputs, *out = labels;
    for (uint64_t i = 0; i < POSITIONS; i++) {
        in[i] = TEXT[(sample + i) % LENGTH];
        out[i] = TEXT[(sample + i + 1) % LENGTH];
    }
    (void)context;
    (void)error;
    return TRM_OK;
}

// Runs on every rank. A rank that is a process has its own memory, so it saves its result in a
// checkpoint.
static trm_status train(trm_trainer *t, void *arg, trm_error *error)
{
    trm_step s = {.loss = 0};
    while (trm_trainer_steps_left(t) > 0) {
        trm_status status = trm_trainer_step(t, &s, error);
        if (status != TRM_OK) return status;
        if (trm_trainer_rank(t) == 0 && s.step % 100 == 0)
            printf("step %3d  loss %.4f\n", (int)s.step, s.loss);
    }
    (void)arg;
    // The loss is the same on all ranks, so all of them return here or none does.
    if (s.loss > 0.5) return trm_fail(error, TRM_FAILED, "the loss is still %.3f", s.loss);
    return trm_trainer_save(t, error);
}

static const char *const settings[][2] = {
    {"model.family", "gpt2"}, {"model.vocab", "128"},       {"model.layers", "2"},
    {"model.hidden", "48"},   {"model.heads", "4"},         {"model.max_seq", "32"},
    {"train.steps", "300"},   {"train.global_batch", "16"}, {"train.out", "run"},
    {"optimizer.lr", "1e-2"}, {"launch.ranks", "2"},
};

static trm_status train_and_save(trm_error *error)
{
    const trm_dataset bytes = {.samples = LENGTH, .positions = POSITIONS, .read = read_bytes};
    trm_job *job = NULL;
    trm_status status = trm_job_open(NULL, &job, error);
    for (size_t i = 0; status == TRM_OK && i < sizeof settings / sizeof *settings; i++)
        status = trm_job_set(job, settings[i][0], settings[i][1], error);
    if (status == TRM_OK) status = trm_job_use_data(job, TRM_TRAIN, &bytes, error);
    if (status == TRM_OK) status = trm_run(job, train, NULL, error);
    trm_job_close(job);
    return status;
}

// Feeds the first words, then again and again the most likely next byte.
static trm_status go_on(trm_decoder *d, char *answer, trm_error *error)
{
    int32_t ids[PROMPT];
    for (int i = 0; i < PROMPT; i++) ids[i] = TEXT[i];
    trm_status status = trm_decoder_feed(d, ids, PROMPT, NULL, error);
    for (int i = 0; status == TRM_OK && i < ANSWER; i++) {
        status = trm_decoder_sample(d, 0, 0, 1, 0, ids, error);
        if (status != TRM_OK) break;
        answer[i] = (char)ids[0];
        status = trm_decoder_feed(d, ids, 1, NULL, error);
    }
    return status;
}

int main(void)
{
    trm_error error;
    trm_decoder *d = NULL;
    char answer[ANSWER + 1] = "";
    // Ranks are forked, so trm_run must come before the decoder, which starts threads.
    trm_status status = train_and_save(&error);
    if (status == TRM_OK)
        status =
            trm_decoder_open("run/checkpoints/latest", NULL, NULL, PROMPT + ANSWER, &d, &error);
    if (status == TRM_OK) status = go_on(d, answer, &error);
    trm_decoder_close(d);
    if (status == TRM_OK) {
        printf("%.*s|%s\n", PROMPT, TEXT, answer);
        if (memcmp(answer, TEXT + PROMPT, ANSWER) != 0)
            status = trm_fail(&error, TRM_FAILED, "the model does not continue the text");
    }
    if (status != TRM_OK) fprintf(stderr, "02_language_model: %s\n", error.text);
    return status;
}
