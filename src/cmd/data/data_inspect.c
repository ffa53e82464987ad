// data_inspect.c -- `trireme data inspect`: prints the header of a token shard, the lengths of its
// documents, the first documents and the facts of P.json. It only reads. data_sample.c shows samples.
#include "base/file.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/console.h"
#include "cmd/data/data_sample.h"
#include "data/sidecar.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokens.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_TOKENS = 64, BINS = 33 };

typedef struct inspect_flags {
    const char *tokenizer;
    int64_t documents;
    bool json;
    data_sample_flags sample;
} inspect_flags;

#define AT(field) offsetof(inspect_flags, field)
static const flag flags[] = {
    {"--tokenizer", FLAG_TEXT, AT(tokenizer), "FILE",
     "Names the tokenizer.json, or its folder, that decodes the documents (default: the one that "
     "P.json names)."},
    {"--documents", FLAG_COUNT, AT(documents), "N", "Shows the first N documents (default: 3)."},
    {"--sample", FLAG_COUNT, AT(sample.number), "N",
     "Shows the N-th sample of FILE.jsonl or of a shard: what is trained on, and its weight."},
    {"--row", FLAG_COUNT, AT(sample.row), "N",
     "Shows the N-th sequence into which the samples are packed."},
    {"--seq-len", FLAG_COUNT, AT(sample.seq_len), "N",
     "Sets the length of sequences for --row, in tokens (default: 1024)."},
    {"--format", FLAG_TEXT, AT(sample.format), "WORD",
     "Names the form of the lines, as data.format does (default: auto)."},
    {"--train-on", FLAG_TEXT, AT(sample.train_on), "assistant|completion|all",
     "Chooses what is trained on, as data.train_on does (default: assistant)."},
    {"--packing", FLAG_TEXT, AT(sample.packing), "bfd|next_fit|none",
     "Chooses the packing for --row, as data.packing does (default: bfd)."},
    {"--truncate", FLAG_TEXT, AT(sample.truncate), "WORD",
     "Chooses what happens to longer samples for --row, as data.truncate does (default: error)."},
    {"--json", FLAG_SWITCH, AT(json), NULL, "Prints one JSON object."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

// Lengths of documents. Bin b counts documents of 2^(b-1) to 2^b - 1 tokens, bin 0 empty ones.
typedef struct inspect_lengths {
    uint64_t shortest, longest, bin[BINS];
} inspect_lengths;

static inspect_lengths lengths_measure(const tokens *t)
{
    inspect_lengths l = {.shortest = tokens_documents(t) ? UINT64_MAX : 0};
    for (uint64_t d = 0; d < tokens_documents(t); d++) {
        uint64_t first, n;
        tokens_document(t, d, &first, &n);
        if (n < l.shortest) l.shortest = n;
        if (n > l.longest) l.longest = n;
        int b = n ? 64 - __builtin_clzll(n) : 0;
        l.bin[b < BINS ? b : BINS - 1]++;
    }
    return l;
}

static void ids_measure(const tokens *t, int32_t *lowest, int32_t *highest)
{
    int32_t ids[4096];
    *lowest = tokens_count(t) ? INT32_MAX : 0;
    *highest = tokens_count(t) ? INT32_MIN : 0;
    for (uint64_t first = 0; first < tokens_count(t); first += 4096) {
        size_t n = tokens_count(t) - first < 4096 ? (size_t)(tokens_count(t) - first) : 4096;
        tokens_read(t, first, n, ids);
        for (size_t i = 0; i < n; i++) {
            if (ids[i] < *lowest) *lowest = ids[i];
            if (ids[i] > *highest) *highest = ids[i];
        }
    }
}

static void histogram_print(const inspect_lengths *l)
{
    enum { WIDTH = 40 };
    uint64_t most = 1;
    int last = 0;
    for (int b = 0; b < BINS; b++) {
        if (l->bin[b] > most) most = l->bin[b];
        if (l->bin[b]) last = b;
    }
    bool begun = false;
    for (int b = 0; b <= last; b++) {
        begun = begun || l->bin[b];
        if (!begun) continue;
        uint64_t low = b ? (uint64_t)1 << (b - 1) : 0, high = b ? ((uint64_t)1 << b) - 1 : 0;
        int full = (int)((double)l->bin[b] / (double)most * WIDTH + 0.5);
        printf("  %10" PRIu64 " - %-10" PRIu64 " %10" PRIu64 " %.*s\n", low, high, l->bin[b], full,
               "########################################");
    }
}

// Prints the first bytes of a document as one line. An incomplete last character is left out.
static void excerpt_print(const char *start, size_t bytes)
{
    size_t valid = bytes;
    text_is_utf8(start, bytes, &valid);
    text line = {0};
    text_add_printable(&line, start, valid, "");
    fwrite(line.chars, 1, line.bytes, stdout);
    text_clear(&line);
}

static status documents_print(const tokens *t, const tokenizer *known, uint64_t count, err *e)
{
    status result = OK;
    text decoded = {0};
    for (uint64_t d = 0; d < count && d < tokens_documents(t); d++) {
        int32_t ids[SHOWN_TOKENS];
        uint64_t first, length;
        tokens_document(t, d, &first, &length);
        size_t n = length < SHOWN_TOKENS ? (size_t)length : SHOWN_TOKENS;
        tokens_read(t, first, n, ids);
        printf("document %" PRIu64 ", %" PRIu64 " tokens: ", d, length);
        for (size_t i = 0; known && i < n; i++)
            if (ids[i] < 0 || ids[i] >= tokenizer_vocab(known)) {
                putchar('\n');
                FAIL(E_USAGE,
                     "%s.bin: token %" PRIu64 ": found id %" PRId32
                     ", the tokenizer's vocabulary is %" PRId32,
                     tokens_prefix(t), first + i, ids[i], tokenizer_vocab(known));
            }
        if (known) {
            text_clear(&decoded);
            tokenizer_decode(known, ids, n, false, &decoded);
            TRY(text_check(&decoded, e));
            excerpt_print(decoded.chars ? decoded.chars : "", decoded.bytes);
        } else {
            for (size_t i = 0; i < n; i++) printf("%s%" PRId32, i ? " " : "", ids[i]);
        }
        puts(n < length ? " ..." : "");
    }
done:
    text_clear(&decoded);
    return result;
}

static void facts_print(const tokens *t, uint64_t text_size)
{
    inspect_lengths l = lengths_measure(t);
    int32_t lowest, highest;
    ids_measure(t, &lowest, &highest);
    uint64_t count = tokens_count(t), documents = tokens_documents(t);
    char size[24];
    printf("tokens      %" PRIu64 " (%s), ids %" PRId32 " to %" PRId32 "\n", count,
           dtype_name(tokens_dtype(t)), lowest, highest);
    printf("documents   %" PRIu64 " in %" PRIu64 " sequences\n", documents, tokens_sequences(t));
    if (text_size) {
        text_bytes(size, (double)text_size);
        printf("text        %s, %.3f bytes a token\n", size, (double)text_size / (double)count);
    }
    printf("lengths     %" PRIu64 " to %" PRIu64 ", mean %.1f tokens a document\n", l.shortest,
           l.longest, documents ? (double)count / (double)documents : 0);
    histogram_print(&l);
}

static void sidecar_print(const sidecar *s)
{
    text hash = {0};
    if (s->tokenizer_hash) text_addf(&hash, ", hash %016" PRIx64, s->tokenizer_hash);
    console_line("tokenizer   %s%s, vocabulary %" PRId32 "%s",
                 s->tokenizer ? s->tokenizer : "not recorded",
                 s->tokenizer && !file_exists(s->tokenizer) ? " (missing)" : "", s->vocab,
                 hash.chars ? hash.chars : "");
    text_clear(&hash);
    if (s->append_eod && s->eod >= 0)
        printf("end         every document ends with id %" PRId32 "\n", s->eod);
    if (s->add_special_tokens) puts("special     the tokenizer's special tokens were added");
}

static void sidecar_add_json(const sidecar *s, json_t *root)
{
    char hash[17];
    snprintf(hash, sizeof hash, "%016" PRIx64, s->tokenizer_hash);
    json_object_set_new(root, "tokenizer", s->tokenizer ? json_string(s->tokenizer) : json_null());
    json_object_set_new(root, "tokenizer_found",
                        json_boolean(s->tokenizer && file_exists(s->tokenizer)));
    json_object_set_new(root, "tokenizer_hash",
                        s->tokenizer_hash ? json_string(hash) : json_null());
    json_object_set_new(root, "eod", s->eod >= 0 ? json_integer(s->eod) : json_null());
    json_object_set_new(root, "add_special_tokens", json_boolean(s->add_special_tokens));
}

static void facts_print_json(const tokens *t, uint64_t text_size, const sidecar *s)
{
    inspect_lengths l = lengths_measure(t);
    int32_t lowest, highest;
    ids_measure(t, &lowest, &highest);
    json_t *root = json_pack("{s:s, s:I, s:I, s:I, s:s, s:i, s:i, s:I, s:I, s:I, s:[]}", "prefix",
                             tokens_prefix(t), "tokens", (json_int_t)tokens_count(t), "documents",
                             (json_int_t)tokens_documents(t), "sequences",
                             (json_int_t)tokens_sequences(t), "dtype", dtype_name(tokens_dtype(t)),
                             "lowest_id", (int)lowest, "highest_id", (int)highest, "text_bytes",
                             (json_int_t)text_size, "shortest", (json_int_t)l.shortest, "longest",
                             (json_int_t)l.longest, "documents_by_length_log2");
    json_t *bins = json_object_get(root, "documents_by_length_log2");
    for (int b = 0; b < BINS; b++) json_array_append_new(bins, json_integer((json_int_t)l.bin[b]));
    sidecar_add_json(s, root);
    json_dumpf(root, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(root);
}

// The tokenizer of --tokenizer, or the one that P.json names if that file exists; else NULL.
static status tokenizer_find(const inspect_flags *f, const sidecar *s, tokenizer **out, err *e)
{
    status result = OK;
    char *path = NULL;
    if (f->tokenizer && file_is_directory(f->tokenizer))
        TRY(tokenizer_folder_file(f->tokenizer, &path, e));
    else if (f->tokenizer)
        TRY(text_copy(f->tokenizer, &path, e));
    else if (s->tokenizer && file_exists(s->tokenizer))
        TRY(text_copy(s->tokenizer, &path, e));
    if (path) TRY(tokenizer_load(path, out, e));
done:
    free(path);
    return result;
}

static status inspect(const inspect_flags *f, const char *prefix, err *e)
{
    status result = OK;
    tokens *t = NULL;
    tokenizer *known = NULL;
    uint64_t text_size = 0;
    sidecar s = {.eod = -1};
    bool found = false;
    TRY(tokens_open(prefix, &t, e));
    TRY(tokens_text_bytes(t, &text_size, e));
    TRY(sidecar_read(prefix, &s, &found, e));
    if (f->json) {
        facts_print_json(t, text_size, &s);
        goto done;
    }
    if (f->documents) TRY(tokenizer_find(f, &s, &known, e));
    facts_print(t, text_size);
    if (found) sidecar_print(&s);
    TRY(documents_print(t, known, (uint64_t)f->documents, e));
done:
    sidecar_clear(&s);
    tokenizer_close(known);
    tokens_close(t);
    return result;
}

static status inspect_samples(const inspect_flags *f, const char *path, err *e)
{
    status result = OK;
    tokenizer *known = NULL;
    sidecar s = {.eod = -1};
    bool found = false;
    if (!samples_is_jsonl(path)) TRY(sidecar_read(path, &s, &found, e));
    TRY(tokenizer_find(f, &s, &known, e));
    if (!known)
        FAIL(E_USAGE, "--tokenizer: missing; valid: a model's folder or its tokenizer.json");
    TRY(data_sample_print(&f->sample, path, known, f->json, e));
done:
    sidecar_clear(&s);
    tokenizer_close(known);
    return result;
}

static int data_inspect(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    inspect_flags f = {.documents = 3, .sample.seq_len = 1024};
    flag_texts prefixes = {0};
    TRY(flags_parse(flags, FLAGS, argc, argv, &f, &prefixes, e));
    if (prefixes.count != 1)
        FAIL(E_USAGE, "data inspect: found %zu shards, valid is one prefix P", prefixes.count);
    const char *path = prefixes.items[0];
    const bool samples = f.sample.number > 0 || f.sample.row > 0 || samples_is_jsonl(path);
    TRY(samples ? inspect_samples(&f, path, e) : inspect(&f, path, e));
done:
    flag_texts_clear(&prefixes);
    return result == OK ? 0 : cmd_fail(e);
}

const command command_data_inspect = {
    .name = "inspect",
    .run = data_inspect,
    .usage = "P [flags]\n"
             "FILE.jsonl --tokenizer DIR [--sample N | --row N] [flags]",
    .help = "Shows the contents of the token shard P.bin, P.idx, or the samples of FILE.jsonl.",
    .flags = flags,
    .flag_count = FLAGS,
};
