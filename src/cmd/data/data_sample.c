// data_sample.c -- see data_sample.h. A line of output is a run of tokens that are trained on, marked by ">", or of others;
// line breaks of the text end it, too. Control characters of the data are escaped. Labels in JSON stand at their own
// token, as HuggingFace has them: the id where the token is trained on, else -100.
#include "cmd/data/data_sample.h"

#include "base/alloc.h"
#include "base/text.h"
#include "cmd/console.h"
#include "cmd/flags.h"
#include "device/kernels.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Tokens to print: a document, or documents one after the other.
typedef struct sample_text {
    const tokenizer *t;
    const int32_t *ids;
    const bool *trained;
    size_t count;
} sample_text;

// ---- For people

static void print_piece(const char *chars, size_t bytes, bool trained)
{
    const bool colours = console_colours(stdout);
    text line = {0};
    text_add_printable(&line, chars, bytes, "");
    printf("%s %s%s%s\n", trained ? "  >" : "   ",
           colours ? (trained ? "\033[32m" : "\033[2m") : "", line.chars ? line.chars : "",
           colours ? "\033[0m" : "");
    text_clear(&line);
}

// Prints a run of tokens, a line for each of its lines.
static void print_run(const sample_text *s, size_t first, size_t end)
{
    text words = {0};
    for (size_t i = first; i < end; i++) tokenizer_decode_next(s->t, s->ids[i], false, &words);
    for (size_t begin = 0; begin < words.bytes;) {
        const char *rest = words.chars + begin;
        const char *line_break = memchr(rest, '\n', words.bytes - begin);
        const size_t bytes = line_break ? (size_t)(line_break - rest) + 1 : words.bytes - begin;
        print_piece(rest, bytes, s->trained[first]);
        begin += bytes;
    }
    text_clear(&words);
}

static void print_tokens(const sample_text *s)
{
    for (size_t first = 0, end; first < s->count; first = end) {
        end = first + 1;
        while (end < s->count && s->trained[end] == s->trained[first]) end++;
        print_run(s, first, end);
    }
}

static size_t count_trained(const sample_text *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++) n += s->trained[i];
    return n;
}

static void print_document(const sample_text *s, const char *name, double weight)
{
    printf("%s: %zu tokens, %zu trained on, weight %g\n", name, s->count, count_trained(s), weight);
    print_tokens(s);
}

// ---- For programs

static json_t *words_of(const sample_text *s)
{
    text words = {0}, quoted = {0};
    tokenizer_decode(s->t, s->ids, s->count, false, &words);
    json_t *out = json_stringn(words.chars ? words.chars : "", words.bytes);
    if (!out) { // a token may be part of a character
        text_add_json(&quoted, words.chars);
        out = json_loads(quoted.chars, JSON_DECODE_ANY, NULL);
    }
    text_clear(&words);
    text_clear(&quoted);
    return out;
}

static json_t *json_of(const sample_text *s, double weight)
{
    json_t *ids = json_array(), *labels = json_array();
    for (size_t i = 0; i < s->count; i++) {
        json_array_append_new(ids, json_integer(s->ids[i]));
        json_array_append_new(labels, json_integer(s->trained[i] ? s->ids[i] : IGNORED_LABEL));
    }
    return json_pack("{s:o, s:o, s:o, s:f}", "text", words_of(s), "ids", ids, "labels", labels,
                     "weight", weight);
}

static void print_json(json_t *root)
{
    json_dumpf(root, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(root);
}

// ---- A sample

typedef struct sample_request {
    const data_sample_flags *f;
    const char *path;
    const tokenizer *t;
    uint64_t number;
    bool json;
} sample_request;

static status check_ids(const tokenizer *t, const int32_t *ids, size_t count, err *e)
{
    for (size_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= tokenizer_vocab(t))
            return err_set(e, E_USAGE,
                           "token %zu: found id %" PRId32
                           ", the tokenizer's vocabulary is %" PRId32,
                           i, ids[i], tokenizer_vocab(t));
    return OK;
}

void data_print_splits(const samples_splits *s)
{
    text line = {0};
    samples_describe_splits(s, &line);
    if (line.bytes) console_print(line.chars, line.bytes);
    text_clear(&line);
}

// Document d of a line.
static sample_text document_of(const sample_request *p, const samples_view *s, size_t d)
{
    const size_t first = d > 0 ? s->end[d - 1] : 0;
    return (sample_text){.t = p->t,
                         .ids = s->ids + first,
                         .trained = s->trained + first,
                         .count = s->end[d] - first};
}

static const char *const PAIR[] = {"chosen", "rejected"};

// One sample is an object with its text; a pair, or several samples of one conversation, are one of these objects.
static json_t *json_of_line(const sample_request *p, const samples_view *s)
{
    json_t *root = json_object(), *list = json_array();
    for (size_t d = 0; d < s->documents; d++) {
        const sample_text one = document_of(p, s, d);
        if (s->pair)
            json_object_set_new(root, PAIR[d], json_of(&one, s->weight));
        else
            json_array_append_new(list, json_of(&one, s->weight));
    }
    if (!s->pair && s->documents == 1)
        json_object_update(root, json_array_get(list, 0));
    else if (!s->pair)
        json_object_set(root, "samples", list);
    json_decref(list);
    return root;
}

static void print_line(const sample_request *p, const samples_view *s)
{
    console_line("%s, sample %" PRIu64 "%s%s", p->path, p->number, s->format ? ", " : "",
                 s->format ? SAMPLES_FORMAT_NAMES[s->format] : "");
    if (!s->pair && s->documents > 1)
        data_print_splits(&(samples_splits){.conversations = 1, .samples = s->documents});
    for (size_t d = 0; d < s->documents; d++) {
        const sample_text one = document_of(p, s, d);
        char name[64] = "sample";
        if (!s->pair && s->documents > 1)
            snprintf(name, sizeof name, "sample %zu of %zu", d + 1, s->documents);
        print_document(&one, s->pair ? PAIR[d] : name, s->weight);
    }
}

static status print_sample(const samples_view *s, void *arg, err *e)
{
    const sample_request *p = arg;
    const status result = check_ids(p->t, s->ids, s->end[s->documents - 1], e);
    if (result != OK) return result;
    if (p->json)
        print_json(json_of_line(p, s));
    else
        print_line(p, s);
    return OK;
}

// ---- A sequence

typedef struct row_arrays {
    int32_t *inputs, *labels;
    bool *trained;
} row_arrays;

static void row_clear(row_arrays *a)
{
    free(a->inputs);
    free(a->labels);
    free(a->trained);
}

static status row_read(dataset *d, uint64_t row, row_arrays *a, err *e)
{
    status result = OK;
    const size_t length = (size_t)d->shape.labels;
    TRY(alloc_array(&a->inputs, 2 * length, sizeof *a->inputs, "a sequence", e));
    TRY(alloc_array(&a->labels, 2 * length, sizeof *a->labels, "a sequence", e));
    TRY(alloc_zeroed(&a->trained, length, sizeof *a->trained, "a sequence", e));
    TRY(d->read(d, row, a->inputs, a->labels, e));
    for (size_t i = 1; i < length; i++) a->trained[i] = a->labels[i - 1] != IGNORED_LABEL;
done:
    return result;
}

// The end of the document that begins at `first`.
static size_t document_end(const dataset *d, const row_arrays *a, size_t first)
{
    const size_t length = (size_t)d->shape.labels;
    size_t end = first + 1;
    while (end < length && a->inputs[length + end] == (int32_t)first) end++;
    return end;
}

static void row_print(const sample_request *p, const dataset *d, const row_arrays *a)
{
    const size_t length = (size_t)d->shape.labels;
    const float *weights =
        d->shape.extras ? (const float *)(const void *)(a->labels + length) : NULL;
    json_t *root = json_array();
    for (size_t first = 0, end; first < length; first = end) {
        end = document_end(d, a, first);
        const sample_text one = {.t = p->t,
                                 .ids = a->inputs + first,
                                 .trained = a->trained + first,
                                 .count = end - first};
        const double weight = weights ? (double)weights[first] : 1;
        const bool padding = end == length && count_trained(&one) == 0;
        if (p->json && !padding) json_array_append_new(root, json_of(&one, weight));
        if (!p->json && !padding) {
            printf("position %zu, ", first);
            print_document(&one, "document", weight);
        }
        if (!p->json && padding) printf("position %zu, %zu tokens of padding\n", first, one.count);
    }
    if (p->json)
        print_json(json_pack("{s:I, s:I, s:O}", "row", (json_int_t)p->number, "seq_len",
                             (json_int_t)length, "documents", root));
    json_decref(root);
}

static status print_row(const sample_request *p, const samples_options *o, err *e)
{
    status result = OK;
    dataset *d = NULL;
    row_arrays a = {NULL};
    samples_counts n;
    const dataset_source source = {.path = p->path, .weight = 1, .format = (int)o->format};
    TRY(samples_open(&source, 1, o, &n, &d, e));
    if (p->number > d->samples)
        FAIL(E_USAGE, "%s: has %" PRIu64 " sequences; found --row %" PRIu64, p->path, d->samples,
             p->number);
    TRY(row_read(d, p->number - 1, &a, e));
    if (!p->json)
        console_line("%s, sequence %" PRIu64 " of %" PRIu64 ", %" PRId64 " tokens", p->path,
                     p->number, d->samples, d->shape.labels);
    row_print(p, d, &a);
done:
    row_clear(&a);
    dataset_close(d);
    return result;
}

// ---- The command

static status print_counts(const sample_request *p, const samples_options *o, err *e)
{
    samples_counts n;
    dataset *d = NULL;
    const dataset_source source = {.path = p->path, .weight = 1, .format = (int)o->format};
    const status result = samples_open(&source, 1, o, &n, &d, e);
    if (result != OK) return result;
    console_line("%s: %" PRIu64 " samples, %" PRIu64 " tokens, %" PRIu64 " trained on, %" PRIu64
                 " sequences of %" PRId64 " tokens",
                 p->path, n.samples, n.tokens, n.labels, n.rows, o->seq_len);
    data_print_splits(&n.splits);
    if (n.too_long) printf("%" PRIu64 " lines are longer than a sequence\n", n.too_long);
    dataset_close(d);
    return OK;
}

static status read_words(const data_sample_flags *f, samples_options *o, err *e)
{
    status result = OK;
    int format, train_on, packing, truncate;
    TRY(flags_read_word("--format", f->format, SAMPLES_FORMAT_NAMES, &format, e));
    TRY(flags_read_word("--train-on", f->train_on, CHAT_TRAIN_ON_NAMES, &train_on, e));
    TRY(flags_read_word("--packing", f->packing, SAMPLES_PACKING_NAMES, &packing, e));
    TRY(flags_read_word("--truncate", f->truncate, SAMPLES_TRUNCATE_NAMES, &truncate, e));
    o->format = (samples_format)format;
    o->train_on = (chat_train_on)train_on;
    o->packing = (samples_packing)packing;
    o->truncate = (samples_truncate)truncate;
done:
    return result;
}

status data_sample_print(const data_sample_flags *f, const char *path, const tokenizer *t,
                         bool json, err *e)
{
    status result = OK;
    chat_template *chat = NULL;
    samples_options o = {.tokenizer = t, .seq_len = f->seq_len, .vocab = tokenizer_vocab(t)};
    sample_request p = {.f = f, .path = path, .t = t, .json = json};
    TRY(read_words(f, &o, e));
    TRY(chat_template_open(t, path, &chat, e));
    o.chat = chat;
    if (f->row > 0) {
        p.number = (uint64_t)f->row;
        TRY(print_row(&p, &o, e));
        goto done;
    }
    if (f->number == 0 && !json) TRY(print_counts(&p, &o, e));
    p.number = f->number > 0 ? (uint64_t)f->number : 1;
    o.any = true;
    TRY(samples_show(path, o.format, p.number, &o, print_sample, &p, e));
done:
    chat_template_close(chat);
    return result;
}
