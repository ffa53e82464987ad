// One history a run: what goes on from an older checkpoint leaves the later ones beside, wherever
// the checkpoint is named, and the folder of a run stands for its newest.
#include "ckpt_fixture.h"

#include <sys/stat.h>

static void go_on_from(const char *name, bool expect_moved)
{
    err e = {0};
    bool moved;
    char *folder = inside(name), *aside = inside("checkpoints-1");
    if (ckpt_go_on(out_folder, folder, aside, &moved, &e) != OK) fail_msg("%s", e.text);
    assert_int_equal(moved, expect_moved);
    free(folder);
    free(aside);
}

static void who_goes_on_from_an_older_one_leaves_the_later_ones_beside(void **state)
{
    (void)state;
    for (int64_t step = 10; step <= 40; step += 10) save_good(step, step, 0);
    go_on_from("checkpoints/latest", false);
    assert_false(present("checkpoints-1"));
    go_on_from("checkpoints/step-00000020", true);
    expect_newest("step-00000020", NULL);
    assert_int_equal(count_entries(), 3);
    char *later = inside("checkpoints-1/step-00000040"), *latest = inside("checkpoints/latest");
    check_checkpoint(later, 40, 40);
    check_checkpoint(latest, 20, 20);
    assert_true(present("checkpoints-1/step-00000030"));
    // The new history has steps of its own, and its pruning does not see the old one.
    save_good(30, 3, 1);
    assert_int_equal(count_entries(), 2);
    check_checkpoint(later, 40, 40);
    free(later);
    free(latest);
}

static void a_broken_one_is_not_taken_for_a_later_one_again(void **state)
{
    (void)state;
    save_good(10, 1, 0);
    save_good(20, 2, 0);
    char *path = inside("checkpoints/step-00000020/model.safetensors");
    assert_int_equal(truncate(path, 100), 0);
    free(path);
    expect_newest("step-00000010", "step-00000020 is broken");
    go_on_from("checkpoints/step-00000010", true);
    expect_newest("step-00000010", NULL);
    assert_true(present("checkpoints-1/step-00000020"));
}

static void only_its_own_checkpoints_are_of_a_run(void **state)
{
    (void)state;
    bool is_of, has;
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
        assert_int_equal(ckpt_is_of(out_folder, path, &is_of, NULL), OK);
        assert_true(is_of);
        free(path);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char *path = inside(others[i]);
        assert_int_equal(ckpt_is_of(out_folder, path, &is_of, NULL), OK);
        assert_false(is_of);
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
    // A checkpoint, and any other model folder, is itself.
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
        IN_FOLDER(who_goes_on_from_an_older_one_leaves_the_later_ones_beside),
        IN_FOLDER(a_broken_one_is_not_taken_for_a_later_one_again),
        IN_FOLDER(only_its_own_checkpoints_are_of_a_run),
        IN_FOLDER(the_folder_of_a_run_stands_for_its_newest_checkpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
