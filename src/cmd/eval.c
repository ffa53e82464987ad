// eval.c -- `trireme eval`: the loss of a model folder on a job's validation data; for text also
// the perplexity and the bits per byte.
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/console.h"

#include "data/tokens.h"
#include "infer/evaluate.h"
#include "session/preference/preference.h"
#include "session/preference/reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct eval_request {
    session_run run;
    bool json;
    session_model_names model;
    uint64_t text_bytes, text_tokens; // 0: not known
} eval_request;

static const flag flags[] = {
    {"--model", FLAG_TEXT, offsetof(eval_request, model.folder), "DIR",
     "Names the HuggingFace folder of the model, such as a checkpoint, or an adapter, which names "
     "its base."},
    {"--adapter", FLAG_TEXT, offsetof(eval_request, model.adapter), "DIR",
     "Names the folder of an adapter that is added to the model."},
    {"--json", FLAG_SWITCH, offsetof(eval_request, json), NULL, "Prints one JSON object."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

// One member of a JSON object. JSON has no infinity and no NaN: they become null.
static void print_member(const char *before, double value)
{
    printf(isfinite(value) ? "%s%.17g" : "%snull", before, value);
}

// `positions` labels are counted. accuracy is NAN where labels are not classes.
static void print_vectors(const eval_request *q, double loss, double accuracy, double positions)
{
    const double samples = positions / (double)q->run.inputs.valid->shape.labels;
    if (q->json) {
        print_member("{\"loss\":", loss);
        if (!isnan(accuracy)) print_member(",\"accuracy\":", accuracy);
        printf(",\"samples\":%.0f}\n", samples);
    } else {
        printf("loss %.4f", loss);
        if (!isnan(accuracy)) printf("  accuracy %.4f", accuracy);
        printf("  samples %.0f\n", samples);
    }
}

static void print_text(const eval_request *q, double loss, double positions)
{
    double bits =
        q->text_bytes ? loss * (double)q->text_tokens / (double)q->text_bytes / log(2) : NAN;
    if (q->json) {
        print_member("{\"loss\":", loss);
        print_member(",\"perplexity\":", exp(loss));
        printf(",\"tokens\":%.0f", positions);
        if (q->text_bytes) print_member(",\"bits_per_byte\":", bits);
        printf("}\n");
    } else {
        printf("loss %.4f  perplexity %.2f  tokens %.0f", loss, exp(loss), positions);
        if (q->text_bytes) printf("  bits per byte %.4f", bits);
        printf("\n");
    }
}

static void print_pairs(const eval_request *q, double loss, const event_preferences *p)
{
    const double margin = p->chosen - p->rejected;
    if (q->json) {
        print_member("{\"loss\":", loss);
        print_member(",\"rewards/chosen\":", p->chosen);
        print_member(",\"rewards/rejected\":", p->rejected);
        print_member(",\"rewards/accuracies\":", p->accuracy);
        print_member(",\"rewards/margins\":", margin);
        printf(",\"pairs\":%.0f}\n", p->pairs);
    } else {
        printf("loss %.4f  rewards chosen %.4f  rejected %.4f  margin %.4f  accuracy %.4f  pairs "
               "%.0f\n",
               loss, p->chosen, p->rejected, margin, p->accuracy, p->pairs);
    }
}

static status rank_eval(session_rank *r, void *arg, err *e)
{
    status result = OK;
    const eval_request *q = arg;
    trainer *t = r->session.trainer;
    const int64_t batches = q->run.job->train.eval_batches;
    double loss, positions, accuracy = NAN;
    TRY(session_reference_find(r, e));
    TRY(session_preference_evaluate(r, batches, e));
    TRY(infer_evaluate(t, batches, &loss, &positions, e));
    const event_preferences pairs = infer_evaluated_preferences(t);
    if (infer_has_accuracy(t)) {
        uint64_t right, labels;
        TRY(infer_accuracy(t, batches, &right, &labels, e));
        if (labels) accuracy = (double)right / (double)labels;
    }
    if (r->rank > 0) goto done;
    if (pairs.pairs > 0)
        print_pairs(q, loss, &pairs);
    else if (q->run.inputs.valid->shape.input_type == I32)
        print_text(q, loss, positions);
    else
        print_vectors(q, loss, accuracy, positions);
    TRY(console_flush(e));
done:
    return result;
}

// The bytes of text that the evaluated tokens encode, where `data prepare` wrote the shard.
static status text_size(eval_request *q, err *e)
{
    status result = OK;
    tokens *t = NULL;
    const job *j = q->run.job;
    bool one = j->data.valids == 1 || (j->data.valids == 0 && j->data.trains == 1);
    const char *path = j->data.valids ? j->data.valid[0].path : j->data.train[0].path;
    const dataset_shape *shape = &q->run.inputs.valid->shape;
    if (!one || shape->input_type != I32 || shape->documents || strcmp(path, "mock") == 0)
        goto done;
    TRY(tokens_open(path, &t, e));
    TRY(tokens_text_bytes(t, &q->text_bytes, e));
    q->text_tokens = tokens_count(t);
done:
    tokens_close(t);
    return result;
}

static int cmd_eval(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    eval_request q = {.run = {.main = rank_eval, .arg = &q}};
    TRY(join_open(&q.run.join, argc, argv, e));
    TRY(flags_take(flags, FLAGS, &argc, argv, &q, e));
    if (!q.model.folder) FAIL(E_USAGE, "eval: --model DIR is missing");
    TRY(join_attach(&q.run.join, e));
    TRY(cmd_open_model(&q.run, argc, argv, &q.model, e));
    TRY(text_size(&q, e));
    TRY(session_run_ranks(&q.run, e));
done:
    return cmd_end_run(&q.run, result, e);
}

const command command_eval = {
    .name = "eval",
    .run = cmd_eval,
    .usage = "JOB.yaml --model DIR [--key value ...] [--json]",
    .help = "Evaluates a model folder on a job's validation data.",
    .about =
        "Takes data.valid of the job (data.train when it has none), on the job's ranks, or on "
        "those that "
        "another launcher has started, as for train. Prints "
        "the loss (mean over tokens, in nats), the perplexity, and bits per byte when the "
        "shard knows the size of its text; of vectors it prints the loss (mean over samples, or "
        "over "
        "regression targets), the accuracy where labels are classes, and the number of samples. "
        "With train.loss dpo, orpo or kto it prints the loss (mean over pairs), the means of the "
        "rewards, and how often the chosen answer has the larger one.",
    .flags = flags,
    .flag_count = FLAGS,
    .takes_job = true,
};
