// 01_classifier.c -- trains a classifier on data that the program computes: points of two spirals,
// each of which turns twice around the other. It runs two ranks, as threads of this process.
//
// It shows a job in code, data from a callback, the training loop, evaluation, predictions, and
// results that ranks return through memory, which threads share.
#include <trireme.h>

#include <math.h>
#include <stdio.h>

// A random number in [0, 1) that depends only on its index, so that a sample is the same on every
// rank.
static double noise(uint64_t index)
{
    uint64_t x = (index + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (double)((x ^ (x >> 31)) >> 11) / 9007199254740992.0;
}

// Sample k is a point [x, y] of spiral k % 2. `context` is the index of the data set's first random
// number.
static trm_status read_point(void *context, uint64_t sample, void *inputs, void *labels,
                             trm_error *error)
{
    const uint64_t first = *(const uint64_t *)context + 3 * sample;
    const double along = 0.1 + 0.9 * noise(first); // from the centre outwards
    const double angle = 4 * M_PI * along + (sample % 2 ? M_PI : 0);
    float *xy = inputs;
    xy[0] = (float)(along * cos(angle) + 0.01 * (noise(first + 1) - 0.5));
    xy[1] = (float)(along * sin(angle) + 0.01 * (noise(first + 2) - 0.5));
    *(int32_t *)labels = sample % 2;
    (void)error; // reading cannot fail
    return TRM_OK;
}

typedef struct outcome {
    double first_loss, valid_loss, accuracy;
} outcome;

// Predicts the spiral of points that are not in the training data. Every rank passes the same
// points and gets all predictions.
static trm_status classify(trm_trainer *t, outcome *o, trm_error *error)
{
    enum { POINTS = 100 };
    uint64_t unseen = 2000000;
    float points[POINTS][2];
    int32_t spiral[POINTS], found[POINTS], right = 0;
    for (int i = 0; i < POINTS; i++) read_point(&unseen, i, points[i], &spiral[i], error);
    trm_status status =
        trm_trainer_predict(t, TRM_CLASSES, false, points, POINTS, found, POINTS, error);
    for (int i = 0; status == TRM_OK && i < POINTS; i++) right += found[i] == spiral[i];
    if (status == TRM_OK && trm_trainer_rank(t) == 0) o->accuracy = (double)right / POINTS;
    return status;
}

// Runs on every rank.
static trm_status train(trm_trainer *t, void *arg, trm_error *error)
{
    outcome *o = arg;
    trm_step s;
    double loss;
    while (trm_trainer_steps_left(t) > 0) {
        trm_status status = trm_trainer_step(t, &s, error);
        if (status != TRM_OK) return status;
        if (trm_trainer_rank(t) > 0) continue;
        if (s.step == 1) o->first_loss = s.loss;
        if (s.step % 200 == 0) printf("step %4d  loss %.4f\n", (int)s.step, s.loss);
    }
    // Every rank evaluates some of the samples, and all get the same mean; rank 0 stores it.
    trm_status status = trm_trainer_evaluate(t, 0, &loss, error);
    if (status == TRM_OK && trm_trainer_rank(t) == 0) o->valid_loss = loss;
    return status == TRM_OK ? classify(t, o, error) : status;
}

static const char *const settings[][2] = {
    {"model.family", "mlp"},  {"model.features", "2"},      {"model.classes", "2"},
    {"model.hidden", "64"},   {"model.layers", "4"},        {"train.steps", "1000"},
    {"train.seed", "1"},      {"train.global_batch", "64"}, {"optimizer.lr", "3e-3"},
    {"launch.as", "threads"}, {"launch.ranks", "2"},
};

static trm_status run(trm_job *job, outcome *o, trm_error *error)
{
    static uint64_t train_noise = 0, valid_noise = 1000000; // not in the training data
    const trm_dataset points = {.samples = 4096,
                                .positions = 1,
                                .features = 2,
                                .read = read_point,
                                .context = &train_noise};
    const trm_dataset unseen = {
        .samples = 512, .positions = 1, .features = 2, .read = read_point, .context = &valid_noise};
    trm_status status = TRM_OK;
    for (size_t i = 0; status == TRM_OK && i < sizeof settings / sizeof *settings; i++)
        status = trm_job_set(job, settings[i][0], settings[i][1], error);
    if (status == TRM_OK) status = trm_job_use_data(job, TRM_TRAIN, &points, error);
    if (status == TRM_OK) status = trm_job_use_data(job, TRM_VALID, &unseen, error);
    if (status == TRM_OK) status = trm_run(job, train, o, error);
    return status;
}

int main(void)
{
    trm_job *job = NULL;
    trm_error error;
    outcome o = {0, 0, 0};
    trm_status status = trm_job_open(NULL, &job, &error);
    if (status == TRM_OK) status = run(job, &o, &error);
    if (status == TRM_OK) {
        printf("loss of the first step %.4f, on unseen points at the end %.4f, accuracy %.2f\n",
               o.first_loss, o.valid_loss, o.accuracy);
        if (!(o.valid_loss < 0.1) || o.accuracy < 0.95)
            status = trm_fail(&error, TRM_FAILED, "the spirals were not told apart");
    }
    if (status != TRM_OK) fprintf(stderr, "01_classifier: %s\n", error.text);
    trm_job_close(job);
    return status;
}
