// Checkpoints: an opened checkpoint equals the saved one, broken ones are found and skipped, and old
// ones are removed.
#include "ckpt_fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

static void an_opened_checkpoint_equals_the_saved_one(void **state)
{
    (void)state;
    err e = {0};
    char *folder = NULL;
    if (fixture_save(500, 3, 2, 0, NULL, &folder, &e) != OK) fail_msg("%s", e.text);
    assert_string_equal(strrchr(folder, '/') + 1, "step-00000500");
    check_checkpoint(folder, 500, 3);
    free(folder);
    assert_true(present("checkpoints/step-00000500/config.json"));
    assert_true(present("checkpoints/step-00000500/model.safetensors"));
    assert_true(present("checkpoints/step-00000500/trireme/manifest.json"));
    assert_true(present("checkpoints/latest/config.json"));
    assert_int_equal(count_entries(), 2);
    expect_newest("step-00000500", NULL);
}

static void weights_above_the_limit_are_written_as_shards(void **state)
{
    (void)state;
    err e = {0};
    char *folder = NULL;
    if (fixture_save(7, 3, 0, 600, NULL, &folder, &e) != OK) fail_msg("%s", e.text);
    check_checkpoint(folder, 7, 3);
    free(folder);
    assert_true(present("checkpoints/step-00000007/model-00001-of-00002.safetensors"));
    assert_true(present("checkpoints/step-00000007/model-00002-of-00002.safetensors"));
    assert_true(present("checkpoints/step-00000007/model.safetensors.index.json"));
    assert_false(present("checkpoints/step-00000007/model.safetensors"));
    // a tensor above the limit has a shard of its own
    if (fixture_save(8, 4, 0, 1, NULL, &folder, &e) != OK) fail_msg("%s", e.text);
    check_checkpoint(folder, 8, 4);
    free(folder);
    assert_true(present("checkpoints/step-00000008/model-00003-of-00003.safetensors"));
}

static void the_tokenizer_is_copied_beside_the_weights(void **state)
{
    (void)state;
    char *from = inside("tok");
    assert_int_equal(mkdir(from, 0777), 0);
    put("tok/tokenizer.json", "{}");
    put("tok/chat_template.jinja", "");
    put("tok/notes.txt", "not ours");
    err e = {0};
    char *folder = NULL;
    if (fixture_save(1, 1, 0, 0, from, &folder, &e) != OK) fail_msg("%s", e.text);
    check_checkpoint(folder, 1, 1);
    free(folder);
    free(from);
    assert_true(present("checkpoints/step-00000001/tokenizer.json"));
    assert_true(present("checkpoints/step-00000001/chat_template.jinja"));
    assert_false(present("checkpoints/step-00000001/notes.txt"));
}

static void a_run_without_checkpoints_has_none(void **state)
{
    (void)state;
    char *folder = (char *)1;
    assert_int_equal(ckpt_newest(out_folder, &folder, NULL, NULL), OK);
    assert_null(folder);
    char *path = inside("checkpoints/.tmp-step-00000001-1");
    assert_int_equal(file_make_directories(path, NULL), OK);
    free(path);
    assert_int_equal(ckpt_newest(out_folder, &folder, NULL, NULL), OK);
    assert_null(folder);
}

static void only_the_newest_are_kept(void **state)
{
    (void)state;
    for (int64_t step = 1; step <= 5; step++) save_good(step * 10, step, 2);
    assert_true(present("checkpoints/step-00000050") && present("checkpoints/step-00000040"));
    assert_int_equal(count_entries(), 3);
    save_good(60, 6, 0);
    assert_int_equal(count_entries(), 4); // 0 keeps all
    save_good(70, 7, 1);
    assert_int_equal(count_entries(), 2);
    expect_newest("step-00000070", NULL);
}

static void a_checkpoint_saved_again_is_replaced(void **state)
{
    (void)state;
    save_good(10, 1, 0);
    save_good(10, 2, 0);
    assert_int_equal(count_entries(), 2);
    char *path = inside("checkpoints/step-00000010");
    check_checkpoint(path, 10, 2);
    free(path);
}

// A save may be killed before it sets the link, so the link does not decide.
static void the_highest_step_is_the_newest_whatever_the_link_says(void **state)
{
    (void)state;
    save_good(10, 1, 0);
    save_good(20, 2, 0);
    char *path = inside("checkpoints/latest");
    assert_int_equal(unlink(path), 0);
    expect_newest("step-00000020", NULL);
    assert_int_equal(symlink("step-00000099", path), 0);
    expect_newest("step-00000020", NULL);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("step-00000010", path), 0);
    expect_newest("step-00000020", NULL);
    free(path);
}

static void a_removed_run_folder_is_not_made_again(void **state)
{
    (void)state;
    err e = {0};
    assert_int_equal(file_remove_tree(out_folder, NULL), OK);
    assert_int_equal(fixture_save(10, 1, 0, 0, NULL, NULL, &e), E_IO);
    assert_non_null(strstr(e.text, "the folder was removed during the run"));
    assert_false(file_exists(out_folder));
}

static void a_file_that_is_lost_while_it_is_saved_is_no_bad_input(void **state)
{
    (void)state;
    err e = {0};
    assert_int_equal(fixture_save(10, -1, 0, 0, NULL, NULL, &e), E_IO);
    assert_int_equal(e.code, E_IO);
    assert_non_null(strstr(e.text, "the checkpoint of step 10 is not saved, older ones stay: "));
    assert_non_null(strstr(e.text, "No such file"));
}

static void flip_byte(const char *name, long offset)
{
    char *path = inside(name);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    fseek(f, offset, SEEK_SET);
    int c = fgetc(f);
    fseek(f, offset, SEEK_SET);
    fputc(c ^ 0x10, f);
    fclose(f);
    free(path);
}

static void a_broken_newest_checkpoint_is_skipped_with_its_reason(void **state)
{
    (void)state;
    save_good(10, 1, 0);
    save_good(20, 2, 0);
    flip_byte("checkpoints/step-00000020/model.safetensors", 700);
    expect_newest("step-00000010", "step-00000020/model.safetensors: its checksum is");
    flip_byte("checkpoints/step-00000020/model.safetensors", 700);
    expect_newest("step-00000020", NULL);
    char *path = inside("checkpoints/step-00000020/trireme/state.safetensors");
    assert_int_equal(truncate(path, 1000), 0);
    expect_newest("step-00000010", "state.safetensors: 1000 bytes long, but it was saved with");
    assert_int_equal(unlink(path), 0);
    expect_newest("step-00000010", "state.safetensors");
    free(path);
    flip_byte("checkpoints/step-00000010/config.json", 3);
    err e = {0};
    char *folder = NULL;
    assert_int_equal(ckpt_newest(out_folder, &folder, NULL, &e), E_USAGE);
    assert_null(folder);
    assert_non_null(strstr(e.text, "none of 2 checkpoints is valid"));
}

static void refuse_manifest(const char *json, const char *because)
{
    err e = {0};
    char *folder = inside("checkpoints/step-00000010");
    put("checkpoints/step-00000010/trireme/manifest.json", json);
    assert_int_equal(ckpt_verify(folder, &e), E_USAGE);
    if (!strstr(e.text, because)) fail_msg("\"%s\" does not say \"%s\"", e.text, because);
    free(folder);
}

static void a_broken_manifest_is_refused(void **state)
{
    (void)state;
    save_good(10, 1, 0);
    refuse_manifest("", "not valid JSON");
    refuse_manifest("[]", "not a JSON object");
    refuse_manifest("{\"version\": 3}", "version");
    refuse_manifest("{\"version\": 2}", "its own checksum, manifest_xxh3_64, is missing");
    refuse_manifest("{\"version\": 1}", "does not list config.json");
    refuse_manifest("{\"version\": 1, \"files\": [{\"path\": \"config.json\"},"
                    "{\"path\":\"trireme/state.json\"},{\"path\":\"trireme/state.safetensors\"}]}",
                    "does not list model.safetensors");
    refuse_manifest("{\"version\": 1, \"files\": [{\"path\": \"config.json\"},"
                    "{\"path\":\"trireme/state.json\"},{\"path\":\"trireme/state.safetensors\"},"
                    "{\"path\":\"model.safetensors\"}]}",
                    "an entry is not");
    refuse_manifest(
        "{\"version\": 1, \"files\": [{\"path\": \"../../x\", \"bytes\": 1, \"xxh3_64\":"
        "\"0\"}, {\"path\": \"config.json\"},"
        "{\"path\":\"trireme/state.json\"},{\"path\":\"trireme/state.safetensors\"},"
        "{\"path\":\"model.safetensors\"}]}",
        "an entry is not");
}

// A change of any byte of the manifest is found, also when the changed step, size or name would be
// valid.
static void a_changed_manifest_is_refused(void **state)
{
    (void)state;
    err e = {0};
    char *json = NULL;
    size_t bytes;
    save_good(10, 1, 0);
    char *folder = inside("checkpoints/step-00000010"),
         *path = inside("checkpoints/step-00000010/trireme/manifest.json");
    assert_int_equal(file_read(path, &json, &bytes, &e), OK);
    char *step = strstr(json, "\"step\": 10");
    assert_non_null(step);
    step[9] = '7';
    refuse_manifest(json, "manifest.json: its checksum is ");
    step[9] = '0';
    assert_int_equal(file_replace(path, json, bytes, NULL), OK);
    assert_int_equal(ckpt_verify(folder, &e), OK);
    for (size_t i = 0; i < bytes; i++) {
        flip_byte("checkpoints/step-00000010/trireme/manifest.json", (long)i);
        if (ckpt_verify(folder, &e) == OK) fail_msg("byte %zu of %s", i, json);
        flip_byte("checkpoints/step-00000010/trireme/manifest.json", (long)i);
    }
    assert_int_equal(ckpt_verify(folder, &e), OK);
    free(json);
    free(path);
    free(folder);
}

// The manifest of an earlier version has no checksum of itself.
static void a_manifest_of_version_1_is_accepted(void **state)
{
    (void)state;
    err e = {0};
    char *json = NULL;
    save_good(10, 1, 0);
    char *folder = inside("checkpoints/step-00000010"),
         *path = inside("checkpoints/step-00000010/trireme/manifest.json");
    assert_int_equal(file_read(path, &json, NULL, &e), OK);
    char *version = strstr(json, "\"version\": 2"), *own = strstr(json, ",\n \"manifest_xxh3_64\"");
    assert_non_null(version);
    assert_non_null(own);
    version[11] = '1';
    strcpy(own, "}");
    put("checkpoints/step-00000010/trireme/manifest.json", json);
    if (ckpt_verify(folder, &e) != OK) fail_msg("%s", e.text);
    expect_newest("step-00000010", NULL);
    free(json);
    free(path);
    free(folder);
}

static void other_folders_are_not_opened(void **state)
{
    (void)state;
    err e = {0};
    ckpt *c = NULL;
    assert_int_equal(ckpt_open(out_folder, &c, &e), E_USAGE);
    assert_non_null(strstr(e.text, "not a checkpoint of Trireme"));
    assert_int_equal(ckpt_verify("/nonexistent", &e), E_USAGE);
    assert_non_null(strstr(e.text, "/nonexistent/trireme/manifest.json"));
}

static void absent_values_are_named(void **state)
{
    (void)state;
    err e = {0};
    ckpt *c = NULL;
    int64_t value;
    const char *word;
    save_good(10, 1, 0);
    char *path = inside("checkpoints/step-00000010");
    assert_int_equal(ckpt_open(path, &c, &e), OK);
    assert_int_equal(ckpt_int(c, "nothing", &value, &e), E_USAGE);
    assert_non_null(strstr(e.text, "trireme/state.json: nothing: missing"));
    assert_int_equal(ckpt_int(c, "job", &value, &e), E_USAGE);
    assert_non_null(strstr(e.text, "job: has another type"));
    assert_int_equal(ckpt_text(c, "job", &word, &e), OK);
    assert_string_equal(word, "x");
    ckpt_close(c);
    free(path);
}

static void only_unlocked_temporary_folders_are_removed(void **state)
{
    (void)state;
    char name[64];
    char *dead = inside("checkpoints/.tmp-step-00000001-999999999");
    snprintf(name, sizeof name, "checkpoints/.tmp-step-00000001-%ld", (long)getppid());
    char *alive = inside(name);
    assert_int_equal(file_make_directories(dead, NULL), OK);
    assert_int_equal(file_make_directories(alive, NULL), OK);
    const int lock = open(alive, O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(lock, LOCK_EX), 0);
    save_good(10, 1, 0);
    assert_false(file_exists(dead));
    assert_true(file_exists(alive));
    close(lock);
    save_good(20, 2, 0);
    assert_false(file_exists(alive));
    free(dead);
    free(alive);
}

static void state_that_is_no_object_is_an_error(void **state)
{
    (void)state;
    err e = {0};
    ckpt_save_options o = {.step = 1, .config_json = "{}", .state_json = "[1]"};
    assert_int_equal(fixture_save_as(&o, 1, 3, 0, 0, NULL, &e), E_INTERNAL);
    o.state_json = "{}"; // no state tensors: plain sgd
    assert_int_equal(fixture_save_as(&o, 1, 3, 0, 0, NULL, &e), OK);
    expect_newest("step-00000001", NULL);
}

static void a_run_that_another_one_has_followed_publishes_nothing(void **state)
{
    (void)state;
    err e = {0};
    ckpt_fence old, new;
    assert_int_equal(ckpt_fence_open(out_folder, &old, &e), OK);
    ckpt_save_options o = {.fence = &old, .step = 1, .config_json = "{}", .state_json = "{}"};
    assert_int_equal(fixture_save_as(&o, 1, 3, 0, 0, NULL, &e), OK);
    assert_int_equal(ckpt_fence_open(out_folder, &new, &e), OK);
    o.step = 2;
    assert_int_equal(fixture_save_as(&o, 1, 3, 0, 0, NULL, &e), E_IO);
    assert_non_null(strstr(e.text, "another run has begun to write into this folder"));
    expect_newest("step-00000001", NULL);
    o.fence = &new;
    assert_int_equal(fixture_save_as(&o, 1, 3, 0, 0, NULL, &e), OK);
    expect_newest("step-00000002", NULL);
    ckpt_fence_close(&old);
    ckpt_fence_close(&new);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(an_opened_checkpoint_equals_the_saved_one),
        IN_FOLDER(weights_above_the_limit_are_written_as_shards),
        IN_FOLDER(the_tokenizer_is_copied_beside_the_weights),
        IN_FOLDER(a_run_without_checkpoints_has_none),
        IN_FOLDER(only_the_newest_are_kept),
        IN_FOLDER(a_run_that_another_one_has_followed_publishes_nothing),
        IN_FOLDER(a_checkpoint_saved_again_is_replaced),
        IN_FOLDER(the_highest_step_is_the_newest_whatever_the_link_says),
        IN_FOLDER(a_removed_run_folder_is_not_made_again),
        IN_FOLDER(a_file_that_is_lost_while_it_is_saved_is_no_bad_input),
        IN_FOLDER(a_broken_newest_checkpoint_is_skipped_with_its_reason),
        IN_FOLDER(a_broken_manifest_is_refused),
        IN_FOLDER(a_changed_manifest_is_refused),
        IN_FOLDER(a_manifest_of_version_1_is_accepted),
        IN_FOLDER(other_folders_are_not_opened),
        IN_FOLDER(absent_values_are_named),
        IN_FOLDER(only_unlocked_temporary_folders_are_removed),
        IN_FOLDER(state_that_is_no_object_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
