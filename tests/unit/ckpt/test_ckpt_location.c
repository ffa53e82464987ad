// A process finds the folder that another one is writing a checkpoint into, where both may write to it: not in
// another file system, and not through NFS or SMB from another host. This program says what kind of file
// system a folder is in, in place of the C library.
#include "ckpt_fixture.h"

#include <sys/stat.h>
#include <sys/vfs.h>

static uint32_t kind;

int statfs(const char *path, struct statfs *out)
{
    (void)path;
    memset(out, 0, sizeof *out);
    out->f_type = (__typeof__(out->f_type))kind;
    return 0;
}

// Makes a folder as a save does, and describes it.
static char *make_location(ckpt_location *location)
{
    err e = {0};
    char *inner = inside("checkpoints/.tmp-step-00000001-1-0/trireme");
    if (file_make_directories(inner, &e) != OK) fail_msg("%s", e.text);
    free(inner);
    put("checkpoints/.tmp-step-00000001-1-0/trireme/state.safetensors", "x");
    char *folder = inside("checkpoints/.tmp-step-00000001-1-0");
    if (ckpt_location_of(folder, location, &e) != OK) fail_msg("%s", e.text);
    return folder;
}

static bool finds(const ckpt_location *location, const char *expected)
{
    err e = {0};
    char *folder = NULL;
    if (ckpt_location_find(out_folder, location, &folder, &e) != OK) fail_msg("%s", e.text);
    if (folder) assert_string_equal(folder, expected);
    const bool found = folder != NULL;
    free(folder);
    return found;
}

static void a_folder_is_found_where_it_is_and_nowhere_else(void **state)
{
    (void)state;
    ckpt_location location;
    char *folder = make_location(&location);
    kind = 0xEF53; // ext4
    assert_true(finds(&location, folder));
    location.name[strlen(location.name) - 1] = '1';
    assert_false(finds(&location, folder));
    free(folder);
}

static void ranks_of_another_host_do_not_write_through_nfs_and_smb(void **state)
{
    (void)state;
    static const uint32_t shared[] = {0x6969, 0x517B, 0xFF534D42, 0xFE534D42};
    ckpt_location location, other, mount;
    char *folder = make_location(&location);
    other = mount = location;
    strcpy(other.kernel, "another");
    mount.device++;
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        kind = shared[i];
        assert_true(finds(&location, folder)); // one page cache
        assert_false(finds(&other, folder));
        assert_false(finds(&mount, folder));
    }
    kind = 0x0BD00BD0; // Lustre
    assert_true(finds(&other, folder));
    free(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_folder_is_found_where_it_is_and_nowhere_else),
        IN_FOLDER(ranks_of_another_host_do_not_write_through_nfs_and_smb),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
