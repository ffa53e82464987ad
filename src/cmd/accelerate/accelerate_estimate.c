// accelerate_estimate.c -- `trireme accelerate estimate-memory`: Accelerate's table of the memory that a model takes. It
// counts what Accelerate counts: the base model of transformers (without its output layer) and its rotary tables, and
// no activations. It leaves out buffers of some tens of bytes that a few families have (the scale of an embedding).
// `trireme plan` counts a whole job.
#include "cmd/accelerate/accelerate_file.h"

#include "base/file.h"
#include "base/json.h"
#include "cmd/cmd.h"
#include "cmd/console.h"
#include "model/model.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct estimate_request {
    flag_texts dtypes;
    const char *library;
    bool trust;
} estimate_request;

static const flag flags[] = {
    {"--dtypes", FLAG_TEXTS, offsetof(estimate_request, dtypes), "float32|float16|int8|int4",
     "Names the types of the rows (default: all)."},
    {"--library_name", FLAG_TEXT, offsetof(estimate_request, library), "transformers",
     "Names the library of the model."},
    {"--trust_remote_code", FLAG_SWITCH, offsetof(estimate_request, trust), NULL,
     "Accepted; without effect, because no code of a model is run."},
};
enum { FLAGS = sizeof flags / sizeof *flags, COLUMNS = 4, CELL_BYTES = 40 };

// A type of the table. Gradients and two moments are added for `training`, in sizes of the fp32 weights; 0: no training.
typedef struct estimate_type {
    const char *name;
    int divisor; // of the bytes in fp32
    int training;
} estimate_type;

static const estimate_type TYPES[] = {
    {"float32", 1, 4}, {"float16", 2, 2}, {"int8", 4, 0}, {"int4", 8, 0}};
enum { TYPES_COUNT = sizeof TYPES / sizeof *TYPES };

// ---- counting

typedef struct estimate_sizes {
    uint64_t total, largest; // bytes in fp32
} estimate_sizes;

// Returns the length of the name of the module that a tensor belongs to, which is not split over devices: a layer
// ("h.3"), or what stands before the last point.
static size_t module_bytes(const char *tensor)
{
    const char *last = strrchr(tensor, '.');
    for (const char *p = strchr(tensor, '.'); p && p != last; p = strchr(p + 1, '.')) {
        const size_t digits = strspn(p + 1, "0123456789");
        if (digits && p[1 + digits] == '.') return (size_t)(p - tensor) + 1 + digits;
    }
    return last ? (size_t)(last - tensor) : strlen(tensor);
}

static void count_tensors(const model_param_files *files, estimate_sizes *out)
{
    const char *module = "";
    size_t bytes = 0;
    uint64_t sum = 0;
    for (int i = 0; i < files->count; i++) {
        const char *name = files->file[i].name;
        if (strncmp(name, "lm_head.", strlen("lm_head.")) == 0) continue;
        const size_t own = module_bytes(name);
        if (own != bytes || memcmp(name, module, bytes) != 0) sum = 0;
        module = name, bytes = own;
        sum += files->info[i].bytes;
        out->total += files->info[i].bytes;
        if (sum > out->largest) out->largest = sum;
    }
}

static status count_model(const char *folder, estimate_sizes *out, err *e)
{
    status result = OK;
    model *m = NULL;
    model_config c;
    model_param_files files = {.file = NULL};
    const model_options o = {.mode = GRAPH_EVAL, .type = F32, .batch = 1, .seq = 1};
    TRY(model_config_read(folder, &c, e));
    TRY(model_open(c.family, &c, &o, &m, e));
    TRY(model_param_files_make(m, F32, &files, e));
    count_tensors(&files, out);
    // transformers keeps the frequencies of each rotary table twice.
    for (int i = 0; i < m->ropes; i++)
        out->total += 2 * (uint64_t)m->rope[i].g->rope.pairs * sizeof(float);
done:
    model_param_files_clear(&files);
    model_close(m);
    return result;
}

// Warns where the folder's model has parts that Trireme does not compute.
static status warn_parts(const char *folder, err *e)
{
    status result = OK;
    char *path = NULL, *chars = NULL;
    size_t bytes;
    json_t *root = NULL;
    json_error_t problem;
    TRY(file_join(folder, "config.json", &path, e));
    TRY(file_read_small(path, FILE_MOST_CONFIG, &chars, &bytes, e));
    root = json_load_python(chars, bytes, JSON_ALLOW_NUL, &problem);
    if (json_object_get(root, "text_config"))
        console_warn("%s: counts the text model alone; Accelerate counts the other parts, too",
                     folder);
done:
    json_decref(root);
    free(chars);
    free(path);
    return result;
}

// ---- the table

// A size as Python prints it, rounded to two digits behind the point. A whole number of bytes has none.
static void print_size(double bytes, bool is_whole, char out[CELL_BYTES])
{
    static const char *const units[] = {"bytes", "KB", "MB", "GB", "TB", "PB"};
    int unit = 0;
    if (is_whole && bytes < 1024) {
        snprintf(out, CELL_BYTES, "%.0f bytes", bytes);
        return;
    }
    for (; bytes >= 1024 && unit < 5; unit++) bytes /= 1024;
    int length = snprintf(out, CELL_BYTES, "%.2f", bytes);
    if (out[length - 1] == '0') out[--length] = 0;
    snprintf(out + length, CELL_BYTES - (size_t)length, " %s", units[unit]);
}

// Adds a text in the middle of a cell; the odd space stands where Python's str.center puts it.
static void add_centered(const char *s, size_t width, text *out)
{
    const size_t free_columns = width > strlen(s) ? width - strlen(s) : 0;
    const size_t left = free_columns / 2 + (free_columns & width & 1);
    text_addf(out, "%*s%s%*s", (int)left, "", s, (int)(free_columns - left), "");
}

static void add_line(const char *left, const char *between, const char *right, const size_t *width,
                     text *out)
{
    text_add(out, left);
    for (int c = 0; c < COLUMNS; c++) {
        if (c) text_add(out, between);
        for (size_t i = 0; i < width[c]; i++) text_add(out, "─");
    }
    text_addf(out, "%s\n", right);
}

static void add_row(char (*cell)[CELL_BYTES], const size_t *width, text *out)
{
    for (int c = 0; c < COLUMNS; c++) {
        text_add(out, "│");
        add_centered(cell[c], width[c], out);
    }
    text_add(out, "│\n");
}

// Accelerate's table: a long title makes the last column wider, by twice what the lines differ from it.
static void add_table(const char *title, char (*row)[COLUMNS][CELL_BYTES], size_t rows, text *out)
{
    size_t width[COLUMNS] = {0}, sum = 0;
    for (size_t r = 0; r < rows; r++)
        for (int c = 0; c < COLUMNS; c++)
            if (strlen(row[r][c]) > width[c]) width[c] = strlen(row[r][c]);
    for (int c = 0; c < COLUMNS; c++) sum += width[c];
    const size_t line = sum + COLUMNS + 1;
    if (strlen(title) > sum) {
        const size_t more = strlen(title) > line ? strlen(title) - line : line - strlen(title);
        width[COLUMNS - 1] += 2 * more, sum += 2 * more;
    }
    add_line("┌", "─", "┐", width, out);
    text_add(out, "│");
    add_centered(title, sum + COLUMNS - 1, out);
    text_add(out, "│\n");
    add_line("├", "┬", "┤", width, out);
    for (size_t r = 0; r < rows; r++) {
        add_row(row[r], width, out);
        if (r == 0) add_line("├", "┼", "┤", width, out);
    }
    add_line("└", "┴", "┘", width, out);
}

static status find_type(const char *name, const estimate_type **out, err *e)
{
    for (int i = 0; i < TYPES_COUNT; i++)
        if (strcmp(TYPES[i].name, name) == 0) return *out = &TYPES[i], OK;
    return err_set(e, E_USAGE, "--dtypes: found %.*s; valid: float32, float16, int8, int4",
                   TEXT_CUT(name, 60));
}

static void fill_row(const estimate_type *t, const estimate_sizes *s, char row[COLUMNS][CELL_BYTES])
{
    const bool whole = t->divisor == 1;
    snprintf(row[0], CELL_BYTES, "%s", t->name);
    print_size((double)s->largest / t->divisor, whole, row[1]);
    print_size((double)s->total / t->divisor, whole, row[2]);
    snprintf(row[3], CELL_BYTES, "N/A");
    if (t->training) print_size((double)s->total * t->training, true, row[3]);
}

static status estimate(const char *folder, const flag_texts *dtypes, err *e)
{
    status result = OK;
    estimate_sizes sizes = {0};
    char row[1 + TYPES_COUNT][COLUMNS][CELL_BYTES] = {
        {"dtype", "Largest Layer", "Total Size", "Training using Adam"}};
    const size_t rows = dtypes->count ? dtypes->count : TYPES_COUNT;
    text title = {0}, out = {0};
    if (rows > TYPES_COUNT) FAIL(E_USAGE, "--dtypes: found %zu types; valid: at most 4", rows);
    TRY(count_model(folder, &sizes, e));
    TRY(warn_parts(folder, e));
    for (size_t i = 0; i < rows; i++) {
        const estimate_type *t = &TYPES[i];
        if (dtypes->count) TRY(find_type(dtypes->items[i], &t, e));
        fill_row(t, &sizes, row[1 + i]);
    }
    text_addf(&title, "Memory Usage for loading `%s`", folder);
    TRY(text_check(&title, e));
    add_table(title.chars, row, 1 + rows, &out);
    TRY(text_check(&out, e));
    console_print(out.chars, out.bytes);
    console_line(
        "Activations are not counted; `trireme plan --model.path %s --data.train mock` counts "
        "them, for each strategy.",
        folder);
done:
    text_clear(&out);
    text_clear(&title);
    return result;
}

static int cmd_estimate_memory(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    estimate_request r = {.library = NULL};
    flag_texts words = {0};
    TRY(flags_parse(flags, FLAGS, argc, argv, &r, &words, e));
    if (r.library && strcmp(r.library, "transformers") != 0)
        FAIL(E_USAGE, "--library_name: found %.*s; valid: transformers", TEXT_CUT(r.library, 60));
    if (words.count != 1)
        FAIL(E_USAGE, "accelerate estimate-memory: found %zu models; valid: one HuggingFace folder",
             words.count);
    TRY(estimate(words.items[0], &r.dtypes, e));
done:
    flag_texts_clear(&words);
    flag_texts_clear(&r.dtypes);
    return result == OK ? 0 : cmd_fail(e);
}

const command command_accelerate_estimate = {
    .name = "estimate-memory",
    .run = cmd_estimate_memory,
    .usage = "MODEL_DIR [--dtypes float32 float16 int8 int4]",
    .help = "Prints the memory of a model's weights, and of training them with Adam.",
    .about = "MODEL_DIR is a HuggingFace folder; its config.json is enough.",
    .flags = flags,
    .flag_count = FLAGS,
};
