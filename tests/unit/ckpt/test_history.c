// A run has one history of checkpoints. Resuming from an older checkpoint moves the later ones away,
// whatever path names the checkpoint. The folder of a run stands for its newest checkpoint.
#include "ckpt_fixture.h"

#include <sys/stat.h>

static void resume_from(const char *name, bool expect_moved)
{
    err e = {0};
    bool moved;
    char *folder = inside(name), *aside = inside("checkpoints-1");
    if (ckpt_resume_from(out_folder, folder, aside, &moved, &e) != OK) fail_msg("%s", e.text);
    assert_int_equal(moved, expect_moved);
    free(folder);
    free(aside);
}

static void resuming_from_an_older_checkpoint_moves_the_later_ones(void **state)
{
    (void)state;
    for (int64_t step = 10; step <= 40; step += 10) save_good(step, step, 0);
    resume_from("checkpoints/latest", false);
    assert_false(present("checkpoints-1"));
    resume_from("checkpoints/step-00000020", true);
    expect_newest("step-00000020", NULL);
    assert_int_equal(count_entries(), 3);
    char *later = inside("checkpoints-1/step-00000040"), *latest = inside("checkpoints/latest");
    check_checkpoint(later, 40, 40);
    check_checkpoint(latest, 20, 20);
    assert_true(present("checkpoints-1/step-00000030"));
    // Saves of the new history do not remove the checkpoints that were moved.
    save_good(30, 3, 1);
    assert_int_equal(count_entries(), 2);
    check_checkpoint(later, 40, 40);
    free(later);
    free(latest);
}

static void a_broken_later_checkpoint_is_moved_too(void **state)
{
    (void)state;
    save_good(10, 1, 0);
    save_good(20, 2, 0);
    char *path = inside("checkpoints/step-00000020/model.safetensors");
    assert_int_equal(truncate(path, 100), 0);
    free(path);
    expect_newest("step-00000010", "step-00000020 is broken");
    resume_from("checkpoints/step-00000010", true);
    expect_newest("step-00000010", NULL);
    assert_true(present("checkpoints-1/step-00000020"));
}

static void only_checkpoints_of_its_folder_belong_to_a_run(void **state)
{
    (void)state;
    bool found, has;
    save_good(10, 1, 0);
    save_good(20, 2, 0);
    const char *const own[] = {"checkpoints/step-00000010", "checkpoints/latest",
                               "checkpoints/../checkpoints/step-00000020/"};
    const char *const others[] = {"checkpoints", "", "checkpoints/step-00000030",
                                  "other/step-00000010", "checkpoints/notes"};
    for (int i = 0; i < 2; i++) {
        char *path = inside(i ? "checkpoints/notes" : "other/step-00000010");
        assert_int_equal(file_make_directories(path, NULL), OK);
        free(path);
    }
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        char *path = inside(own[i]);
        assert_int_equal(ckpt_belongs_to_run(out_folder, path, &found, NULL), OK);
        assert_true(found);
        free(path);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char *path = inside(others[i]);
        assert_int_equal(ckpt_belongs_to_run(out_folder, path, &found, NULL), OK);
        assert_false(found);
        free(path);
    }
    assert_int_equal(ckpt_has_any(out_folder, &has, NULL), OK);
    assert_true(has);
    assert_int_equal(ckpt_has_any("/nonexistent", &has, NULL), OK);
    assert_false(has);
}

static void the_folder_of_a_run_stands_for_its_newest_checkpoint(void **state)
{
    (void)state;
    err e = {0};
    char *found = NULL, *checkpoints = inside("checkpoints"),
         *newest = inside("checkpoints/step-00000020");
    assert_int_equal(mkdir(checkpoints, 0777), 0);
    assert_int_equal(ckpt_locate(out_folder, &found, NULL, &e), E_USAGE);
    assert_non_null(strstr(e.text, "no checkpoint yet"));
    save_good(10, 1, 0);
    save_good(20, 2, 0);
    assert_int_equal(ckpt_locate(out_folder, &found, NULL, &e), OK);
    assert_string_equal(found, newest);
    free(found);
    // A checkpoint or another model folder is returned as it is.
    assert_int_equal(ckpt_locate(newest, &found, NULL, &e), OK);
    assert_string_equal(found, newest);
    free(found);
    put("config.json", "{}");
    assert_int_equal(ckpt_locate(out_folder, &found, NULL, &e), OK);
    assert_string_equal(found, out_folder);
    free(found);
    free(checkpoints);
    free(newest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(resuming_from_an_older_checkpoint_moves_the_later_ones),
        IN_FOLDER(a_broken_later_checkpoint_is_moved_too),
        IN_FOLDER(only_checkpoints_of_its_folder_belong_to_a_run),
        IN_FOLDER(the_folder_of_a_run_stands_for_its_newest_checkpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
