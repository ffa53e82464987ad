// data_prepare.c -- `trireme data prepare`: flags, progress and the lines of the result. It
// deliberately does not know how texts become tokens (data/prepare.c).
//
// While files are being written, the signals that end a program are blocked and checked between
// rounds, so that an interrupted run removes its files. Before that they end the program as usual.
#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/console.h"
#include "cmd/data/data_sample.h"
#include "cmd/flags.h"
#include "data/prepare.h"
#include "data/tokens_raw.h"

#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Flags of Megatron's preprocess_data.py, so that its command lines run as they are.
typedef struct prepare_megatron_flags {
    const char *tokenizer_type, *tokenizer_model, *lang;
    int64_t partitions;
    bool split_sentences, keep_newlines, keep_order, find_workers;
} prepare_megatron_flags;

// Flags of the conversion of token ids, which reads no text.
typedef struct prepare_from_tokens_flags {
    const char *path, *dtype;
    int64_t eod; // -1: none
} prepare_from_tokens_flags;

typedef struct prepare_flags {
    flag_texts input, json_keys, include, exclude;
    const char *output_prefix, *separator, *tokenizer, *pattern, *save_tokenizer;
    int64_t train_bpe, seed, workers, log_interval;
    double valid_fraction;
    bool append_eod, add_special_tokens, skip_invalid, megatron_names, json, quiet, sft;
    const char *format, *train_on;
    prepare_from_tokens_flags from_tokens;
    prepare_megatron_flags megatron;
} prepare_flags;

#define AT(field) offsetof(prepare_flags, field)
static const flag flags[] = {
    {"--input", FLAG_TEXTS, AT(input), "FILE",
     "Names text files, *.jsonl files, *.gz files of both, or folders of them."},
    {"--include", FLAG_TEXTS, AT(include), "GLOB",
     "Reads only files of folders that match, such as '*.txt' or 'docs/*.md'."},
    {"--exclude", FLAG_TEXTS, AT(exclude), "GLOB", "Skips files and folders that match."},
    {"--skip-invalid", FLAG_SWITCH, AT(skip_invalid), NULL,
     "Skips and counts documents that are not UTF-8 or not JSON, instead of stopping."},
    {"--output-prefix", FLAG_TEXT, AT(output_prefix), "P",
     "Names the shards: P.bin, P.idx, P.json and P.tokenizer.json are written."},
    {"--json-keys", FLAG_TEXTS, AT(json_keys), "KEY",
     "Names the keys of JSONL that hold text (default: text); several give P_KEY_document."},
    {"--document-separator", FLAG_TEXT, AT(separator), "S",
     "Splits text files into documents at S, which may contain \\n, \\t, \\r, \\f and \\\\."},
    {"--tokenizer", FLAG_TEXT, AT(tokenizer), "FILE",
     "Names a tokenizer.json, or a folder with one."},
    {"--sft", FLAG_SWITCH, AT(sft), NULL,
     "Reads JSONL as samples for fine-tuning, and writes P.labels: which tokens are trained on."},
    {"--format", FLAG_TEXT, AT(format), "WORD",
     "Names the form of the lines with --sft, as data.format does (default: auto)."},
    {"--train-on", FLAG_TEXT, AT(train_on), "assistant|completion|all",
     "Chooses the tokens with labels with --sft, as data.train_on does (default: assistant)."},
    {"--train-bpe", FLAG_COUNT, AT(train_bpe), "VOCAB",
     "Trains a byte-level BPE tokenizer with this many tokens, instead of --tokenizer."},
    {"--pattern", FLAG_TEXT, AT(pattern), "gpt2|llama3",
     "Chooses the pattern by which the trained tokenizer splits text into words (default: gpt2)."},
    {"--save-tokenizer", FLAG_TEXT, AT(save_tokenizer), "FILE",
     "Writes the trained tokenizer to this file, too."},
    {"--from-tokens", FLAG_TEXT, AT(from_tokens.path), "FILE",
     "Converts a .bin file of llm.c or nanoGPT, instead of --input."},
    {"--dtype", FLAG_TEXT, AT(from_tokens.dtype), "uint16|uint32",
     "Sets the type of the ids of --from-tokens (default: that of llm.c's header, else uint16)."},
    {"--eod", FLAG_COUNT, AT(from_tokens.eod), "ID",
     "Sets the id of --from-tokens that ends a document, such as GPT-2's 50256."},
    {"--append-eod", FLAG_SWITCH, AT(append_eod), NULL,
     "Ends every document with the end-of-text token."},
    {"--add-special-tokens", FLAG_SWITCH, AT(add_special_tokens), NULL,
     "Adds the special tokens of the tokenizer's post-processor to every document (BOS, EOS)."},
    {"--valid-fraction", FLAG_NUMBER, AT(valid_fraction), "F",
     "Puts this share of the documents into P_valid (default: 0)."},
    {"--seed", FLAG_COUNT, AT(seed), "N", "Seeds the choice of those documents (default: 0)."},
    {"--workers", FLAG_COUNT, AT(workers), "N",
     "Sets the number of threads; 0 takes all cores (default: 0)."},
    {"--log-interval", FLAG_COUNT, AT(log_interval), "N",
     "Prints a line on stderr about every N documents."},
    {"--megatron-names", FLAG_SWITCH, AT(megatron_names), NULL,
     "Writes P_KEY_document.bin and .idx."},
    {"--json", FLAG_SWITCH, AT(json), NULL, "Prints one JSON object."},
    {"--quiet", FLAG_SWITCH, AT(quiet), NULL, "Draws no progress bar."},
    {"--tokenizer-type", FLAG_TEXT, AT(megatron.tokenizer_type), "T",
     "Accepts Megatron's value HuggingFaceTokenizer, and implies --megatron-names."},
    {"--tokenizer-model", FLAG_TEXT, AT(megatron.tokenizer_model), "FILE",
     "Is Megatron's name of --tokenizer."},
    {"--partitions", FLAG_COUNT, AT(megatron.partitions), "N",
     "Accepts Megatron's flag; its value must be 1."},
    {"--keep-sequential-samples", FLAG_SWITCH, AT(megatron.keep_order), NULL,
     "Accepts Megatron's flag; the order is always kept."},
    {"--keep-newlines", FLAG_SWITCH, AT(megatron.keep_newlines), NULL,
     "Accepts Megatron's flag; line breaks are always kept."},
    {"--lang", FLAG_TEXT, AT(megatron.lang), "NAME",
     "Accepts Megatron's flag, which has no effect without --split-sentences."},
    {"--split-sentences", FLAG_SWITCH, AT(megatron.split_sentences), NULL,
     "Is a flag of Megatron that is not supported."},
    {"--find-optimal-num-workers", FLAG_SWITCH, AT(megatron.find_workers), NULL,
     "Is a flag of Megatron that is not supported."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

typedef struct prepare_bar {
    bool shown;   // stderr is a terminal
    bool blocked; // signals are blocked
    double last;  // clock_seconds of the latest drawing
} prepare_bar;

static void signals_block(void)
{
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
}

static bool signals_are_pending(void *arg)
{
    (void)arg;
    sigset_t waiting;
    return sigpending(&waiting) == 0 &&
           (sigismember(&waiting, SIGINT) == 1 || sigismember(&waiting, SIGTERM) == 1 ||
            sigismember(&waiting, SIGHUP) == 1);
}

static void bar_draw(void *arg, const char *what, double done)
{
    enum { WIDTH = 40 };
    prepare_bar *b = arg;
    if (!b->blocked && strcmp(what, "encoding") == 0) {
        signals_block();
        b->blocked = true;
    }
    double now = clock_seconds();
    if (!b->shown || (now - b->last < 0.1 && done < 1)) return;
    b->last = now;
    int full = (int)(done * WIDTH);
    fprintf(stderr, "\r\033[K%-20s [%.*s%*s] %3.0f %%", what, full,
            "########################################", WIDTH - full, "", done * 100);
}

static void bar_clear(const prepare_bar *b)
{
    if (b->shown) fputs("\r\033[K", stderr);
}

static void log_line(void *arg, uint64_t documents, uint64_t bytes)
{
    (void)arg;
    char size[24];
    text_bytes(size, (double)bytes);
    fprintf(stderr, "processed %" PRIu64 " documents (%s)\n", documents, size);
}

static status separator_unescape(const char *s, char **result, err *e)
{
    text out = {0};
    text_add(&out, "");
    for (; *s; s++) {
        static const char written[] = "ntrf\\", meant[] = "\n\t\r\f\\";
        char c = *s;
        const char *known = c == '\\' && s[1] ? strchr(written, s[1]) : NULL;
        if (known) {
            s++;
            c = meant[known - written];
        }
        text_add_bytes(&out, &c, 1);
    }
    return text_take(&out, result, e);
}

// The path of a tokenizer.json. For a folder, that of the file in it. The caller frees it.
static status tokenizer_path(const char *given, char **out, err *e)
{
    if (!given) return OK;
    return file_is_directory(given) ? tokenizer_folder_file(given, out, e)
                                    : text_copy(given, out, e);
}

// Refuses values of flags that are invalid or exclude each other.
static status flags_check(const prepare_flags *f, err *e)
{
    if (f->megatron.tokenizer_type &&
        strcmp(f->megatron.tokenizer_type, "HuggingFaceTokenizer") != 0)
        return err_set(e, E_USAGE, "--tokenizer-type: found %s, valid is HuggingFaceTokenizer",
                       f->megatron.tokenizer_type);
    if (f->tokenizer && f->megatron.tokenizer_model)
        return err_set(e, E_USAGE, "--tokenizer and --tokenizer-model: found both, valid is one");
    if (f->pattern && strcmp(f->pattern, "gpt2") != 0 && strcmp(f->pattern, "llama3") != 0)
        return err_set(e, E_USAGE, "--pattern: found %s, valid are gpt2 and llama3", f->pattern);
    if (f->pattern && !f->train_bpe)
        return err_set(e, E_USAGE, "--pattern: goes with --train-bpe only");
    if (f->megatron.partitions != 1)
        return err_set(e, E_USAGE,
                       "--partitions: found %" PRId64 ", valid is 1 (all threads share one input)",
                       f->megatron.partitions);
    if (f->megatron.split_sentences)
        return err_set(e, E_USAGE, "--split-sentences: is not supported; documents are not split");
    if (f->megatron.find_workers)
        return err_set(e, E_USAGE,
                       "--find-optimal-num-workers: is not supported; --workers 0 "
                       "takes all processors");
    if (f->train_bpe > INT32_MAX)
        return err_set(e, E_USAGE, "--train-bpe: found %" PRId64 ", valid is at most %d",
                       f->train_bpe, INT32_MAX);
    if (!f->from_tokens.path && (f->from_tokens.dtype || f->from_tokens.eod >= 0))
        return err_set(e, E_USAGE, "--dtype and --eod: go with --from-tokens only");
    if (!f->sft && (f->format || f->train_on))
        return err_set(e, E_USAGE, "--format and --train-on: go with --sft only");
    if (f->workers > INT32_MAX)
        return err_set(e, E_USAGE, "--workers: found %" PRId64 ", valid is at most 256",
                       f->workers);
    return OK;
}

static prepare_options options_from(const prepare_flags *f, prepare_bar *b)
{
    return (prepare_options){
        .inputs = f->input.items,
        .input_count = f->input.count,
        .filter = {.include = f->include.items,
                   .includes = f->include.count,
                   .exclude = f->exclude.items,
                   .excludes = f->exclude.count},
        .skip_invalid = f->skip_invalid,
        .output_prefix = f->output_prefix,
        .json_keys = f->json_keys.items,
        .json_key_count = f->json_keys.count,
        .train_bpe = (int32_t)f->train_bpe,
        .pattern =
            f->pattern && strcmp(f->pattern, "llama3") == 0 ? TOKENIZER_LLAMA3 : TOKENIZER_GPT2,
        .save_tokenizer = f->save_tokenizer,
        .append_eod = f->append_eod,
        .add_special_tokens = f->add_special_tokens,
        .megatron_names = f->megatron_names || f->megatron.tokenizer_type,
        .valid_fraction = f->valid_fraction,
        .seed = (uint64_t)f->seed,
        .sft = f->sft,
        .workers = (int)f->workers,
        .progress = bar_draw,
        .progress_arg = b,
        .stopped = signals_are_pending,
        .log = log_line,
        .log_interval = (uint64_t)f->log_interval,
    };
}

static void line_print(const char *prefix, const char *suffix, uint64_t documents, uint64_t tokens,
                       uint64_t bytes, uint64_t labels)
{
    char size[24];
    if (labels) {
        console_line("%s%s: %" PRIu64 " documents, %" PRIu64 " tokens, of which %" PRIu64
                     " are trained on",
                     prefix, suffix, documents, tokens, labels);
        return;
    }
    text_bytes(size, (double)bytes);
    console_line("%s%s: %" PRIu64 " documents, %" PRIu64 " tokens, %s of text, %.3f bytes a token",
                 prefix, suffix, documents, tokens, size,
                 tokens ? (double)bytes / (double)tokens : 0);
}

static void result_print(const prepare_flags *f, const prepare_result *r, double seconds)
{
    if (f->json) {
        json_t *root = json_pack(
            "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:f}",
            "output_prefix", f->output_prefix, "split_conversations",
            (json_int_t)r->splits.conversations, "split_samples", (json_int_t)r->splits.samples,
            "labels", (json_int_t)r->labels, "valid_labels", (json_int_t)r->valid_labels,
            "documents", (json_int_t)r->documents, "tokens", (json_int_t)r->tokens, "text_bytes",
            (json_int_t)r->bytes, "valid_documents", (json_int_t)r->valid_documents, "valid_tokens",
            (json_int_t)r->valid_tokens, "valid_text_bytes", (json_int_t)r->valid_bytes,
            "empty_documents", (json_int_t)r->empty_documents, "invalid_records",
            (json_int_t)r->invalid_records, "vocab", (int)r->vocab, "seconds", seconds);
        json_dumpf(root, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(root);
        return;
    }
    line_print(f->output_prefix, "", r->documents, r->tokens, r->bytes, r->labels);
    if (r->valid_documents)
        line_print(f->output_prefix, "_valid", r->valid_documents, r->valid_tokens, r->valid_bytes,
                   r->valid_labels);
    else if (f->valid_fraction > 0)
        console_line("no document was chosen for %s_valid, because there are few; another --seed "
                     "may choose some",
                     f->output_prefix);
    data_print_splits(&r->splits);
    if (r->empty_documents) printf("%" PRIu64 " empty documents skipped\n", r->empty_documents);
    if (r->invalid_records)
        console_line("%" PRIu64 " invalid documents skipped, the first: %s", r->invalid_records,
                     r->first_invalid.text);
    if (r->has_special_tokens && !f->add_special_tokens && !f->sft)
        printf("the tokenizer's post-processor adds special tokens; they were not added "
               "(--add-special-tokens adds them)\n");
    printf("vocabulary %" PRId32 ", %.1f s\n", r->vocab, seconds);
}

// --from-tokens: converts ids into a shard. The flags for text do not apply.
static status convert(const prepare_flags *f, err *e)
{
    status result = OK;
    tokens_raw_result r;
    tokens_raw_options o = {.path = f->from_tokens.path,
                            .output_prefix = f->output_prefix,
                            .eod = f->from_tokens.eod,
                            .stopped = signals_are_pending};
    if (f->input.count || f->tokenizer || f->megatron.tokenizer_model || f->train_bpe ||
        f->append_eod || f->valid_fraction > 0)
        FAIL(E_USAGE, "--from-tokens: goes with --output-prefix, --dtype, --eod and --json only");
    if (!f->output_prefix || !*f->output_prefix)
        FAIL(E_USAGE, "--output-prefix: missing, valid is the path of the shards");
    if (f->from_tokens.dtype && strcmp(f->from_tokens.dtype, "uint16") != 0 &&
        strcmp(f->from_tokens.dtype, "uint32") != 0)
        FAIL(E_USAGE, "--dtype: found %s, valid are uint16 and uint32", f->from_tokens.dtype);
    if (f->from_tokens.dtype) o.id_bytes = strcmp(f->from_tokens.dtype, "uint16") == 0 ? 2 : 4;
    signals_block();
    TRY(tokens_raw_convert(&o, &r, e));
    if (f->json)
        printf("{\"tokens\":%" PRIu64 ",\"documents\":%" PRIu64 ",\"highest_id\":%" PRId32 "}\n",
               r.tokens, r.documents, r.highest);
    else
        printf("%s: %" PRIu64 " documents, %" PRIu64 " tokens, ids up to %" PRId32 "%s\n",
               f->output_prefix, r.documents, r.tokens, r.highest, r.llm_c ? ", from llm.c" : "");
done:
    return result;
}

static int data_prepare(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    prepare_flags f = {.megatron.partitions = 1, .from_tokens.eod = -1};
    prepare_result r;
    prepare_bar b = {0};
    char *separator = NULL, *tokens_by = NULL;
    int format, train_on;
    double began = clock_seconds();
    TRY(flags_parse(flags, FLAGS, argc, argv, &f, NULL, e));
    TRY(flags_check(&f, e));
    if (f.from_tokens.path) {
        TRY(convert(&f, e));
        goto done;
    }
    b.shown = !f.quiet && isatty(STDERR_FILENO);
    prepare_options o = options_from(&f, &b);
    if (f.separator) TRY(separator_unescape(f.separator, &separator, e));
    TRY(tokenizer_path(f.tokenizer ? f.tokenizer : f.megatron.tokenizer_model, &tokens_by, e));
    TRY(flags_read_word("--format", f.format, SAMPLES_FORMAT_NAMES, &format, e));
    TRY(flags_read_word("--train-on", f.train_on, CHAT_TRAIN_ON_NAMES, &train_on, e));
    o.format = (samples_format)format;
    o.train_on = (chat_train_on)train_on;
    o.document_separator = separator;
    o.tokenizer = tokens_by;
    result = prepare_run(&o, &r, e);
    bar_clear(&b);
    if (result == OK) result_print(&f, &r, clock_seconds() - began);
done:
    free(separator);
    free(tokens_by);
    flag_texts_clear(&f.input);
    flag_texts_clear(&f.json_keys);
    flag_texts_clear(&f.include);
    flag_texts_clear(&f.exclude);
    return result == OK ? 0 : cmd_fail(e);
}

const command command_data_prepare = {
    .name = "prepare",
    .run = data_prepare,
    .usage = "--input FILE... --output-prefix P (--tokenizer FILE | --train-bpe VOCAB) [flags]\n"
             "--from-tokens FILE --output-prefix P [--dtype T] [--eod ID]",
    .help = "Turns text and JSONL into token shards.",
    .about =
        "A file of plain text is one document, a line of JSONL is one document. The shards have "
        "Megatron's format. All files appear at the end, or none. Symbolic links inside folders "
        "are not followed. --from-tokens reads token ids instead of text.",
    .flags = flags,
    .flag_count = FLAGS,
};
