// Tests files: reading, mapping, writing with a hash, atomic replacement, removal.
#include "base/file.h"

#include "base/text.h"
#include "own_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include <cmocka.h>

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/trireme-test-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static void a_path_is_shown_without_the_working_folder(void **state)
{
    (void)state;
    char *here = getcwd(NULL, 0), *below = own_path(here, "run/x");
    assert_string_equal(file_shown(below), "run/x");
    assert_ptr_equal(file_shown(here), here);
    below[strlen(here)] = '-'; // now a path beside the working folder
    assert_ptr_equal(file_shown(below), below);
    assert_string_equal(file_shown("run/x"), "run/x");
    free(below);
    free(here);
}

static int remove_folder(void **state)
{
    (void)state;
    return file_remove_tree(folder, NULL) == OK && !file_exists(folder) ? 0 : -1;
}

static void a_written_file_reads_and_maps_back_unchanged(void **state)
{
    (void)state;
    char *path = own_path(folder, "a");
    size_t bytes = 3 * (1 << 20) + 17, got;
    uint8_t *data = malloc(bytes);
    for (size_t i = 0; i < bytes; i++) data[i] = (uint8_t)(i * 2654435761u >> 13);
    file_writer *w;
    assert_int_equal(file_create(path, &w, NULL), OK);
    // Writes pieces that are smaller than the buffer, larger, and that cross its end.
    size_t cuts[] = {0, 5, 1 << 20, (1 << 20) + 1, (5 << 19) + 3, bytes};
    for (size_t i = 1; i < 6; i++)
        assert_int_equal(file_write(w, data + cuts[i - 1], cuts[i] - cuts[i - 1], NULL), OK);
    assert_int_equal(file_writer_bytes(w), bytes);
    assert_true(file_writer_hash(w) == XXH3_64bits(data, bytes));
    assert_int_equal(file_finish(w, NULL), OK);

    char *back;
    assert_int_equal(file_read(path, &back, &got, NULL), OK);
    assert_int_equal(got, bytes);
    assert_memory_equal(back, data, bytes);
    assert_int_equal(back[bytes], 0);
    file_map map;
    assert_int_equal(file_map_open(path, &map, NULL), OK);
    assert_int_equal(map.bytes, bytes);
    assert_memory_equal(map.ptr, data, bytes);
    file_unmap(&map);
    assert_null(map.ptr);
    free(back);
    free(data);
    free(path);
}

static void an_empty_file_can_be_read_and_mapped(void **state)
{
    (void)state;
    char *path = own_path(folder, "empty"), *back;
    size_t bytes = 9;
    file_map map;
    assert_int_equal(file_replace(path, "", 0, NULL), OK);
    assert_int_equal(file_read(path, &back, &bytes, NULL), OK);
    assert_int_equal(bytes, 0);
    assert_string_equal(back, "");
    assert_int_equal(file_map_open(path, &map, NULL), OK);
    assert_null(map.ptr);
    free(back);
    free(path);
}

// Bytes of mapped files that count as memory of this process.
static long mapped_file_bytes(void)
{
    long kilobytes = -1;
    char line[128];
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f) && sscanf(line, "RssFile: %ld", &kilobytes) != 1)
        ;
    if (f) fclose(f);
    return kilobytes * 1024;
}

static void released_memory_of_a_map_is_given_back_and_reads_the_same(void **state)
{
    (void)state;
    enum { BYTES = 1 << 20 };
    char *path = own_path(folder, "release");
    file_writer *w;
    file_map map;
    uint64_t sum = 0, again = 0;
    assert_int_equal(file_create(path, &w, NULL), OK);
    for (uint32_t i = 0; i < BYTES / sizeof i; i++)
        assert_int_equal(file_write(w, &i, sizeof i, NULL), OK);
    assert_int_equal(file_finish(w, NULL), OK);
    assert_int_equal(file_map_open(path, &map, NULL), OK);
    for (int i = 0; i < BYTES; i++) sum += (uint64_t)map.ptr[i] * (uint64_t)(i + 1);
    const long read = mapped_file_bytes();
    file_map_release(&map, map.ptr + 1, 10); // less than a page
    file_map_release(&map, map.ptr, BYTES);
    assert_true(mapped_file_bytes() <= read - BYTES / 2);
    for (int i = 0; i < BYTES; i++) again += (uint64_t)map.ptr[i] * (uint64_t)(i + 1);
    assert_int_equal(again, sum);
    file_unmap(&map);
    free(path);
}

static void an_input_that_cannot_be_opened_is_a_usage_error_that_names_it(void **state)
{
    (void)state;
    err e;
    char *back;
    file_map map;
    assert_int_equal(file_map_open("/nowhere/x", &map, &e), E_USAGE);
    assert_int_equal(e.code, E_USAGE);
    assert_string_equal(e.text, "cannot open /nowhere/x: No such file or directory");
    assert_int_equal(file_read(folder, &back, NULL, &e), E_USAGE);
    assert_non_null(strstr(e.text, folder));
    file_writer *w;
    assert_int_equal(file_create("/nowhere/x", &w, &e), E_IO);
    assert_non_null(strstr(e.text, "/nowhere/x"));
    assert_int_equal(file_rename("/nowhere/x", "/nowhere/y", &e), E_IO);
}

static void a_full_disk_is_an_error_and_keeps_the_old_file(void **state)
{
    (void)state;
    err e;
    file_writer *w;
    if (file_create("/dev/full", &w, &e) != OK) skip();
    assert_int_equal(file_write(w, "abc", 3, &e), OK);
    assert_int_equal(file_finish(w, &e), E_IO);
    assert_string_equal(e.text, "cannot write /dev/full: No space left on device");
    // The rename onto a folder fails. file_replace then removes its temporary file.
    char *path = own_path(folder, "taken");
    assert_int_equal(file_make_directories(path, NULL), OK);
    char *inside = own_path(path, "x");
    assert_int_equal(file_replace(inside, "1", 1, NULL), OK);
    assert_int_equal(file_replace(path, "2", 1, &e), E_IO);
    assert_true(file_is_directory(path) && file_exists(inside));
    text beside = {0};
    text_addf(&beside, "%s.tmp-%ld", path, (long)getpid());
    assert_false(file_exists(beside.chars));
    text_clear(&beside);
    free(inside);
    free(path);
}

static void replace_swaps_the_whole_content(void **state)
{
    (void)state;
    char *path = own_path(folder, "r"), *back;
    assert_int_equal(file_replace(path, "old and long", 12, NULL), OK);
    assert_int_equal(file_replace(path, "new", 3, NULL), OK);
    assert_int_equal(file_read(path, &back, NULL, NULL), OK);
    assert_string_equal(back, "new");
    free(back);
    free(path);
}

static void folders_are_made_and_removed_with_their_content(void **state)
{
    (void)state;
    char *deep = own_path(folder, "d/e/f"), *top = own_path(folder, "d"), *keep;
    assert_int_equal(file_make_directories(deep, NULL), OK);
    assert_int_equal(file_make_directories(deep, NULL), OK);
    assert_true(file_is_directory(deep));
    keep = own_path(folder, "keep");
    assert_int_equal(file_replace(keep, "x", 1, NULL), OK);
    char *link = own_path(deep, "link");
    assert_int_equal(symlink(keep, link), 0);
    assert_int_equal(file_remove_tree(top, NULL), OK);
    assert_false(file_exists(top));
    assert_true(file_exists(keep));
    assert_int_equal(file_remove_tree(top, NULL), OK);
    err e;
    char *below = own_path(keep, "sub");
    assert_int_equal(file_make_directories(below, &e), E_IO);
    assert_non_null(strstr(e.text, "cannot make the folder"));
    free(below);
    free(link);
    free(keep);
    free(top);
    free(deep);
}

// In a process of its own, which is not root's where this one is.
static void make_forbidden(const char *open_to_all)
{
    err e = {0};
    char below[256];
    snprintf(below, sizeof below, "%s/closed/run", open_to_all);
    if (geteuid() == 0 && setuid(65534) != 0) _exit(2);
    if (file_make_directories(below, &e) != E_IO) _exit(3);
    _exit(strstr(e.text, "closed/run: Permission denied") ? 0 : 4);
}

static void a_folder_that_is_forbidden_is_not_said_to_be_missing(void **state)
{
    char own[] = "/tmp/trireme-test-XXXXXX", closed[64];
    int ended = -1;
    (void)state;
    assert_non_null(mkdtemp(own));
    assert_int_equal(chmod(own, 0755), 0);
    snprintf(closed, sizeof closed, "%s/closed", own);
    assert_int_equal(mkdir(closed, 0555), 0);
    const pid_t child = fork();
    if (child == 0) make_forbidden(own);
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(file_remove_tree(own, NULL), OK);
    assert_int_equal(ended, 0);
}

static void join_does_not_double_slashes(void **state)
{
    (void)state;
    static const char *const cases[][3] = {{"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"", "b", "b"}};
    for (int i = 0; i < 3; i++) {
        char *path = own_path(cases[i][0], cases[i][1]);
        assert_string_equal(path, cases[i][2]);
        free(path);
    }
}

static void a_writer_can_be_abandoned_at_any_time(void **state)
{
    (void)state;
    file_writer *w;
    char *path = own_path(folder, "abandoned");
    assert_int_equal(file_create(path, &w, NULL), OK);
    assert_int_equal(file_write(w, "x", 1, NULL), OK);
    file_abandon(w);
    file_abandon(NULL);
    free(path);
}

static void a_map_detects_that_its_file_was_truncated(void **state)
{
    (void)state;
    char path[] = "/tmp/test_file.XXXXXX";
    file_map map, empty = {0};
    err e = {0};
    const int fd = mkstemp(path);
    assert_int_equal(ftruncate(fd, 5000), 0);
    assert_int_equal(file_map_open(path, &map, NULL), OK);
    assert_int_equal(file_map_check(&map, path, &e), OK);
    assert_int_equal(ftruncate(fd, 6000), 0); // growth is no error
    assert_int_equal(file_map_check(&map, path, &e), OK);
    assert_int_equal(ftruncate(fd, 4999), 0);
    assert_int_equal(file_map_check(&map, path, &e), E_IO);
    assert_non_null(strstr(e.text, path));
    assert_non_null(strstr(e.text, "4999 of its 5000 bytes are left"));
    file_unmap(&map);
    assert_int_equal(file_map_check(&empty, path, &e), OK);
    file_unmap(&empty); // must not close descriptor 0
    close(fd);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_written_file_reads_and_maps_back_unchanged),
        cmocka_unit_test(an_empty_file_can_be_read_and_mapped),
        cmocka_unit_test(released_memory_of_a_map_is_given_back_and_reads_the_same),
        cmocka_unit_test(an_input_that_cannot_be_opened_is_a_usage_error_that_names_it),
        cmocka_unit_test(a_full_disk_is_an_error_and_keeps_the_old_file),
        cmocka_unit_test(replace_swaps_the_whole_content),
        cmocka_unit_test(folders_are_made_and_removed_with_their_content),
        cmocka_unit_test(a_folder_that_is_forbidden_is_not_said_to_be_missing),
        cmocka_unit_test(join_does_not_double_slashes),
        cmocka_unit_test(a_path_is_shown_without_the_working_folder),
        cmocka_unit_test(a_writer_can_be_abandoned_at_any_time),
        cmocka_unit_test(a_map_detects_that_its_file_was_truncated),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
