// replay_delay.c -- a program for replay.py: trains a job in parts. Every rank sleeps BASE ms in each micro-batch, and in
// the steps of odd numbers rank SLOW sleeps MORE ms longer. So one run has steps with the delay and steps without it, on
// which other load of the machine weighs alike.
//   replay_delay JOB.yaml BASE SLOW MORE [--key value ...]
#include <trireme.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct delays {
    int base, slow, more;
} delays;

static void sleep_ms(int ms)
{
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&t, NULL);
}

static trm_status micro_batch(trm_trainer *t, const delays *d, trm_step *s, trm_error *error)
{
    trm_status result = trm_engine_forward(t, NULL, error);
    const bool slow = trm_trainer_rank(t) == d->slow && s->step % 2 == 0; // the steps that are done
    sleep_ms(d->base + (slow ? d->more : 0));
    if (result == TRM_OK) result = trm_engine_backward(t, error);
    return result == TRM_OK ? trm_engine_step(t, s, error) : result;
}

static trm_status train(trm_trainer *t, void *arg, trm_error *error)
{
    trm_step s = {.step = 0};
    trm_status result = TRM_OK;
    while (result == TRM_OK && trm_trainer_steps_left(t) > 0)
        result = micro_batch(t, arg, &s, error);
    return result;
}

int main(int argc, char **argv)
{
    trm_error error = {.code = TRM_OK};
    trm_job *job = NULL;
    if (argc < 5) return TRM_USAGE;
    delays d = {atoi(argv[2]), atoi(argv[3]), atoi(argv[4])};
    trm_status result = trm_job_open(argv[1], &job, &error);
    for (int i = 5; result == TRM_OK && i + 1 < argc; i += 2)
        result = trm_job_set(job, argv[i] + 2, argv[i + 1], &error);
    if (result == TRM_OK) result = trm_run(job, train, &d, &error);
    trm_job_close(job);
    if (result != TRM_OK) fprintf(stderr, "%s\n", error.text);
    return (int)result;
}
