// test_registry.c -- the registry of devices: a description opens nothing and agrees with the device that
// is opened later; words, indices and local ranks that are not valid are refused.
#include "base/proc.h"
#include "base/text.h"
#include "unit/device/harness.h"

static device_description described(const char *word, const device_options *o)
{
    device_description d;
    err e = {0};
    if (device_describe(word, o, &d, &e) != OK) fail_msg("%s", e.text);
    return d;
}

static void a_description_agrees_with_the_opened_device(void **state)
{
    (void)state;
    static const int threads[] = {1, 2, 0, 5000}; // all cores, and more than any machine has
    for (int i = 0; i < 4; i++) {
        const device_options o = {.threads = threads[i]};
        const device_description about = described("auto", &o);
        device *d = NULL;
        assert_int_equal(device_open("auto", &o, &d, NULL), OK);
        assert_string_equal(about.name, d->ops->name);
        assert_int_equal(about.own_bytes, d->bytes_now);
        assert_int_equal(about.is_host_memory, d->ops->call != NULL);
        assert_int_equal(about.is_host_memory, d->is_host_memory);
        assert_true(about.index == 0 && about.count == 1);
        assert_true(about.free_bytes > 0);
        device_close(d);
    }
}

static void a_description_names_the_instruction_set(void **state)
{
    (void)state;
    assert_string_equal(described("cpu", &(device_options){.isa = "generic"}).kind, "generic");
    device_description d;
    err e = {0};
    assert_int_equal(device_describe("cpu", &(device_options){.isa = "sse9"}, &d, &e), E_USAGE);
    assert_non_null(strstr(e.text, "sse9"));
}

// An opened device maps the scratch memory of its kernels.
static void a_description_takes_no_memory(void **state)
{
    (void)state;
    described("cpu", NULL); // the first may load what the process keeps
    const uint64_t before = proc_bytes("/proc/self/status", "VmSize:");
    const device_description about = described("cpu", NULL);
    const uint64_t after = proc_bytes("/proc/self/status", "VmSize:");
    device *d = NULL;
    assert_int_equal(device_open("cpu", NULL, &d, NULL), OK);
    const uint64_t opened = proc_bytes("/proc/self/status", "VmSize:");
    assert_true(before > 0 && after < before + about.own_bytes / 2);
    assert_true(opened >= after + about.own_bytes / 2);
    device_close(d);
}

static void every_word_means_a_device(void **state)
{
    (void)state;
    assert_string_equal(DEVICE_WORDS[0], "auto");
    text list = {0};
    err why = {0};
    for (int i = 0; DEVICE_WORDS[i]; i++) {
        device_description d;
        const char *name = device_resolve(DEVICE_WORDS[i], NULL);
        assert_non_null(name);
        if (device_describe(DEVICE_WORDS[i], NULL, &d, NULL) == OK)
            assert_string_equal(d.name, name);
        text_addf(&list, i ? "|%s" : "%s", DEVICE_WORDS[i]);
    }
    assert_string_equal(list.chars, DEVICE_WORDS_SUPPORTED);
    text_clear(&list);
    assert_string_equal(device_resolve("auto", NULL), "cpu");
    assert_null(device_resolve("tpu", &why));
    assert_int_equal(why.code, OK);
}

// This program links no object of device/cuda/.
static void a_device_that_is_not_linked_is_refused_and_passed_over(void **state)
{
    (void)state;
    static const char without[] = "device cuda: this program was built without it";
    device_description about;
    device *d = NULL;
    err e = {0}, why = {0};
    assert_int_equal(device_describe("cuda", NULL, &about, &e), E_USAGE);
    assert_string_equal(e.text, without);
    assert_int_equal(device_open("cuda", NULL, &d, &e), E_USAGE);
    assert_string_equal(device_resolve("auto", &why), "cpu");
    assert_string_equal(why.text, without);
    assert_string_equal(device_resolve("cuda", NULL), "cuda");
}

static void expect_refusal(device_options o, const char *part)
{
    device_description about;
    device *d = NULL;
    err e = {0};
    assert_int_equal(device_describe("cpu", &o, &about, &e), E_USAGE);
    assert_non_null(strstr(e.text, part));
    e = (err){0};
    assert_int_equal(device_open("cpu", &o, &d, &e), E_USAGE);
    assert_non_null(strstr(e.text, part));
    assert_null(d);
}

static void an_index_and_a_local_rank_are_checked(void **state)
{
    (void)state;
    expect_refusal((device_options){.index = 1}, "index 1; valid are 0 to 0");
    expect_refusal((device_options){.index = -1}, "index -1");
    expect_refusal((device_options){.local_rank = 1}, "local rank 1; valid are 0 to 0");
    expect_refusal((device_options){.local_rank = 4, .local_ranks = 4}, "valid are 0 to 3");
    expect_refusal((device_options){.local_rank = -1, .local_ranks = 4}, "local rank -1");
    described("cpu", &(device_options){.local_rank = 3, .local_ranks = 4});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_description_agrees_with_the_opened_device),
        cmocka_unit_test(a_description_names_the_instruction_set),
        cmocka_unit_test(a_description_takes_no_memory),
        cmocka_unit_test(every_word_means_a_device),
        cmocka_unit_test(a_device_that_is_not_linked_is_refused_and_passed_over),
        cmocka_unit_test(an_index_and_a_local_rank_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
