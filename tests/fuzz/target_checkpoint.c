// The input is one file of a checkpoint: its name, a line break, its content. The other files are
// valid. The target verifies the checkpoint, and opens it whether that succeeds or not.
#include "fuzz.h"

#include "base/file.h"
#include "ckpt/ckpt.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const NAMES[] = {"config.json", "model.safetensors", "trireme/state.json",
                                    "trireme/state.safetensors", "trireme/manifest.json"};
enum { FILES = sizeof NAMES / sizeof *NAMES };

static struct {
    char *bytes;
    size_t count;
} valid[FILES];         // the files as ckpt_save wrote them
static char inside[64]; // the checkpoint's folder in the scratch folder

static status fill_with_ones(void *arg, const char *folder, err *e)
{
    status result = OK;
    const ckpt_files *files = arg;
    char ones[16], *path = NULL;
    memset(ones, 1, sizeof ones);
    for (size_t i = 0; i < files->count; i++) {
        TRY(file_join(folder, files->file[i].name, &path, e));
        const int fd = open(path, O_WRONLY);
        FUZZ_CLAIM(fd >= 0, "%s is not there", path);
        FUZZ_CLAIM(file_write_at(fd, path, ones, sizeof ones, files->file[i].layout.begin[0], e) ==
                       OK,
                   "%s", e->text);
        close(fd);
        free(path);
        path = NULL;
    }
done:
    free(path);
    return result;
}

static const char *path_of(int file)
{
    char name[128];
    snprintf(name, sizeof name, "%s%s", inside, NAMES[file]);
    return fuzz_path(name);
}

static void open_target(void)
{
    static const safetensors_tensor
        w = {.name = "w", .type = F32, .dims = 1, .dim = {4}, .bytes = 16},
        m = {.name = "m.w", .type = F32, .dims = 1, .dim = {4}, .bytes = 16};
    const ckpt_tensors weights = {&w, 1}, state = {&m, 1};
    ckpt_files files;
    err e = {.code = OK};
    FUZZ_CLAIM(ckpt_files_make(&weights, &state, 0, &files, &e) == OK, "%s", e.text);
    const ckpt_save_options o = {.out = fuzz_path(""),
                                 .step = 7,
                                 .weights = weights,
                                 .files = &files,
                                 .fill = fill_with_ones,
                                 .arg = &files,
                                 .config_json = "{\"model_type\": \"gpt2\"}\n",
                                 .state_json =
                                     "{\"tokens\": 12345678901, \"lr\": 0.1, \"job\": \"x\"}"};
    FUZZ_CLAIM(ckpt_save(&o, NULL, &e) == OK, "%s", e.text);
    ckpt_files_clear(&files);
    strcpy(inside, "checkpoints/step-00000007/");
    for (int i = 0; i < FILES; i++)
        FUZZ_CLAIM(file_read(path_of(i), &valid[i].bytes, &valid[i].count, &e) == OK, "%s", e.text);
}

static bool read_checkpoint(void)
{
    static const char *const keys[] = {"step", "tokens", "lr", "job", "nothing"};
    ckpt *c = NULL;
    err e = {.code = OK};
    const status s = ckpt_open(fuzz_path(inside), &c, &e);
    if (s != OK) fuzz_refused(s, &e);
    for (size_t i = 0; s == OK && i < sizeof keys / sizeof *keys; i++) {
        int64_t number;
        double real;
        const char *word;
        if (ckpt_int(c, keys[i], &number, &e) != OK) fuzz_refused(e.code, &e);
        if (ckpt_real(c, keys[i], &real, &e) != OK) fuzz_refused(e.code, &e);
        if (ckpt_text(c, keys[i], &word, &e) != OK) fuzz_refused(e.code, &e);
    }
    ckpt_close(c);
    return s == OK;
}

static bool run(const uint8_t *input, size_t bytes)
{
    err e = {.code = OK};
    int file = -1;
    const uint8_t *end = memchr(input, '\n', bytes);
    for (int i = 0; end && i < FILES; i++)
        if ((size_t)(end - input) == strlen(NAMES[i]) && !memcmp(input, NAMES[i], strlen(NAMES[i])))
            file = i;
    if (file < 0) return false;
    char name[128];
    snprintf(name, sizeof name, "%s%s", inside, NAMES[file]);
    const size_t count = bytes - (size_t)(end + 1 - input);
    fuzz_put(name, end + 1, count);
    const status verified = ckpt_verify(fuzz_path(inside), &e);
    if (verified != OK) fuzz_refused(verified, &e);
    const bool accepted = read_checkpoint();
    char *newest = NULL;
    text warnings = {0};
    const status s = ckpt_newest(fuzz_path(""), &newest, &warnings, &e);
    if (s != OK) fuzz_refused(s, &e);
    text_clear(&warnings);
    free(newest);
    fuzz_put(name, valid[file].bytes, valid[file].count);
    return accepted;
}

// Restores the first line when it is nearly the name of a file.
static void mend(uint8_t *input, size_t bytes)
{
    const uint8_t *end = memchr(input, '\n', bytes < 64 ? bytes : 64);
    if (!end) return;
    for (int i = 0; i < FILES; i++)
        if (strlen(NAMES[i]) == (size_t)(end - input) + 1 && input[0] == (uint8_t)NAMES[i][0])
            memcpy(input, NAMES[i], (size_t)(end - input));
}

const fuzz_target fuzz_this = {.open = open_target, .run = run, .mend = mend};
