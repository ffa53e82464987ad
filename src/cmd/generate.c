// generate.c -- `trireme generate`: samples text from a model folder.
#include "cmd/cmd.h"

#include "base/file.h"
#include "ckpt/ckpt.h"
#include "cmd/flags.h"
#include "data/tokenizer.h"
#include "train/decoder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct request {
    const char *model, *prompt, *precision;
    int64_t tokens, top_k, seed, threads;
    double temperature, top_p;
    bool json, help;
    dtype type;
} request;

#define AT(field) offsetof(request, field)
static const flag flags[] = {
    {"--model", FLAG_TEXT, AT(model), "DIR",
     "a HuggingFace folder with tokenizer.json, such as a checkpoint of a run"},
    {"--prompt", FLAG_TEXT, AT(prompt), "TEXT", "what the text begins with"},
    {"--tokens", FLAG_COUNT, AT(tokens), "N",
     "at most N new tokens (default: 100); ends earlier at the end-of-text token"},
    {"--temperature", FLAG_NUMBER, AT(temperature), "T",
     "0 = always the most likely token (default: 0.8)"},
    {"--top-k", FLAG_COUNT, AT(top_k), "K", "only the K most likely tokens (default: 0 = all)"},
    {"--top-p", FLAG_NUMBER, AT(top_p), "P",
     "only the most likely tokens that make up P of the probability (default: 1)"},
    {"--seed", FLAG_COUNT, AT(seed), "S", "the same seed gives the same text (default: 0)"},
    {"--threads", FLAG_COUNT, AT(threads), "N", "threads that compute (default: all cores)"},
    {"--precision", FLAG_TEXT, AT(precision), "P", "fp32 (default) or bf16"},
    {"--json", FLAG_SWITCH, AT(json), NULL, "prints {\"prompt\", \"text\"}"},
    {"--help", FLAG_SWITCH, AT(help), NULL, "this text"},
};
enum { FLAGS = sizeof flags / sizeof *flags };

static status settle(request *r, err *e)
{
    status result = OK;
    if (!r->model) FAIL(E_USAGE, "generate: --model DIR is missing");
    if (!r->prompt) FAIL(E_USAGE, "generate: --prompt TEXT is missing");
    if (r->tokens < 1) FAIL(E_USAGE, "generate: --tokens: found 0; valid: 1 or more");
    if (!(r->temperature >= 0 && r->temperature <= 100))
        FAIL(E_USAGE, "generate: --temperature: found %g; valid: 0 to 100", r->temperature);
    if (!(r->top_p >= 0 && r->top_p <= 1))
        FAIL(E_USAGE, "generate: --top-p: found %g; valid: 0 to 1", r->top_p);
    if (r->precision && strcmp(r->precision, "bf16") == 0)
        r->type = BF16;
    else if (r->precision && strcmp(r->precision, "fp32") != 0)
        FAIL(E_USAGE, "generate: --precision: found '%s'; valid: fp32, bf16", r->precision);
done:
    return result;
}

// Draws tokens after the prompt's until the end of text, the model's length or the request's.
static status continue_text(decoder *d, const tokenizer *t, const request *s, const float *logits,
                            int64_t room, text *out, err *e)
{
    status result = OK;
    for (int64_t i = 0; i < s->tokens; i++) {
        int32_t id;
        TRY(sample_token(logits, decoder_vocab(d), s->temperature, s->top_k, s->top_p,
                         (uint64_t)s->seed, (uint64_t)decoder_position(d), &id, e));
        if (id == tokenizer_end_of_text(t)) break;
        tokenizer_decode(t, &id, 1, true, out);
        if (decoder_position(d) == room) break;
        TRY(decoder_feed(d, &id, 1, &logits, e));
    }
done:
    return result;
}

static status generate_from(const request *r, const char *folder, text *out, err *e)
{
    status result = OK;
    model_config c;
    device *d = NULL;
    tokenizer *t = NULL;
    tokenizer_work *work = NULL;
    safetensors *weights = NULL;
    decoder *x = NULL;
    const int32_t *ids;
    size_t count;
    const float *logits;
    char *path = file_join(folder, "tokenizer.json");
    device_options options = {.threads = (int)r->threads};
    TRY(model_config_read(folder, &c, e));
    TRY(tokenizer_load(path, &t, e));
    TRY(tokenizer_work_open(t, &work, e));
    TRY(tokenizer_encode(work, r->prompt, strlen(r->prompt), &ids, &count, e));
    if (count == 0) FAIL(E_USAGE, "generate: --prompt: the prompt is empty");
    if ((int64_t)count >= c.max_seq)
        FAIL(E_USAGE, "generate: --prompt: %zu tokens, the model takes at most %lld", count,
             (long long)c.max_seq);
    TRY(safetensors_open_folder(folder, &weights, e));
    TRY(device_open("cpu", &options, &d, e));
    int64_t room = (int64_t)count + r->tokens < c.max_seq ? (int64_t)count + r->tokens : c.max_seq;
    TRY(decoder_open(d, family_find(c.family), &c, r->type, weights, room, &x, e));
    TRY(decoder_feed(x, ids, (int64_t)count, &logits, e));
    text_add(out, r->prompt);
    TRY(continue_text(x, t, r, logits, room, out, e));
done:
    decoder_close(x);
    device_close(d);
    safetensors_close(weights);
    tokenizer_work_close(work);
    tokenizer_close(t);
    free(path);
    return result;
}

static status generate(const request *r, text *out, err *e)
{
    status result = OK;
    char *folder = NULL;
    TRY(ckpt_locate(r->model, &folder, NULL, e));
    TRY(generate_from(r, folder, out, e));
done:
    free(folder);
    return result;
}

static void print_json(const char *prompt, text *out)
{
    json_t *j = json_object();
    // A sample may end inside a character: what cannot be JSON text is left out.
    size_t bytes = out->bytes;
    if (!text_is_utf8(out->at, bytes, &bytes)) out->at[bytes] = 0;
    json_object_set_new(j, "prompt", json_string(prompt));
    json_object_set_new(j, "text", json_string(out->at));
    json_dumpf(j, stdout, 0);
    putchar('\n');
    json_decref(j);
}

int cmd_generate(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    request r = {.tokens = 100, .temperature = 0.8, .top_p = 1};
    text out = {0};
    TRY(flags_parse(flags, FLAGS, argc, argv, &r, NULL, e));
    if (r.help) {
        puts("usage: trireme generate --model DIR --prompt TEXT [flags]\n");
        flags_help(flags, FLAGS, stdout);
        return 0;
    }
    TRY(settle(&r, e));
    TRY(generate(&r, &out, e));
    if (r.json)
        print_json(r.prompt, &out);
    else
        printf("%s\n", out.at ? out.at : "");
done:
    text_clear(&out);
    return result == OK ? 0 : cmd_fail(e);
}
