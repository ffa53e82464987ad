// Weights in several files: each file is as full as the limit allows, and only the given tensors are
// saved.
#include "ckpt_fixture.h"

// Counts the numbered files of weights in the checkpoint of step 1.
static int count_files(void)
{
    int files = 0;
    for (int number = 1; number < 4; number++)
        for (int count = 1; count < 4; count++) {
            char name[96];
            snprintf(name, sizeof name, "checkpoints/step-00000001/model-%05d-of-%05d.safetensors",
                     number, count);
            char *path = inside(name);
            files += file_exists(path);
            free(path);
        }
    return files;
}

// The fixture has tensors of 400, 200 and 300 bytes.
static void files_are_filled_up_to_their_limit(void **state)
{
    (void)state;
    static const struct {
        uint64_t limit;
        int files; // 0: one file without a number
    } cases[] = {{1, 3},   {400, 3}, {499, 3}, {500, 2}, {599, 2},
                 {600, 2}, {899, 2}, {900, 0}, {0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *folder = NULL;
        err e = {0};
        if (fixture_save(1, 3, 0, cases[i].limit, NULL, &folder, &e) != OK) fail_msg("%s", e.text);
        check_checkpoint(folder, 1, 3);
        if (count_files() != cases[i].files)
            fail_msg("%d files of at most %lu bytes", count_files(), (unsigned long)cases[i].limit);
        free(folder);
    }
}

static void tensors_beyond_the_count_are_not_saved(void **state)
{
    (void)state;
    char *folder = NULL;
    safetensors *s = NULL;
    err e = {0};
    ckpt_save_options o = {
        .step = 1, .config_json = "{\"model_type\": \"gpt2\"}\n", .state_json = "{}"};
    if (fixture_save_as(&o, 3, 2, 1, 500, &folder, &e) != OK) fail_msg("%s", e.text);
    if (safetensors_open_folder(folder, &s, &e) != OK) fail_msg("%s", e.text);
    check_tensors(s, FIXTURE_WEIGHTS, 2, 3);
    assert_int_equal(count_files(), 2);
    safetensors_close(s);
    free(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(files_are_filled_up_to_their_limit),
        IN_FOLDER(tensors_beyond_the_count_are_not_saved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
