// Tests what `trireme top` shows as text: runs, curves, ranks, links, on screens of several sizes, and how runs of a
// machine are found.
#include "monitor/top/top.h"

#include "made_run.h"
#include "own_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];
static run_view *slow, *even;

static run_view *open_made(const char *name, const made_run *run)
{
    run_view *v = NULL;
    err e = {0};
    char *path = own_path(folder, name);
    if (made_run_write(path, run, &e) != OK || run_view_open(path, &v, &e) != OK)
        fail_msg("%s", e.text);
    free(path);
    return v;
}

static int make_runs(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/trireme-test-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    slow = open_made("slow", &(made_run){.ranks = 40,
                                         .steps = 30,
                                         .hosts = 2,
                                         .cause = MADE_COMPUTE,
                                         .slow_rank = 37,
                                         .slow_by = 0.5});
    even = open_made("even", &(made_run){.ranks = 2, .steps = 60, .goes_on = true});
    return 0;
}

static int close_runs(void **state)
{
    (void)state;
    run_view_close(slow);
    run_view_close(even);
    return file_remove_tree(folder, NULL) == OK ? 0 : -1;
}

// The lines without tones. The test frees them.
static char *shown(const top_run *runs, int count, const top_settings *s)
{
    text lines = {0}, plain = {0};
    char *chars;
    assert_int_equal(top_add(runs, count, s, &lines, NULL), OK);
    top_add_plain(&lines, &plain);
    text_clear(&lines);
    assert_int_equal(text_take(&plain, &chars, NULL), OK);
    return chars;
}

static int lines_of(const char *chars)
{
    int count = 0;
    for (; *chars; chars++) count += *chars == '\n';
    return count;
}

static int characters_of_longest_line(const char *chars)
{
    int longest = 0, now = 0;
    for (; *chars; chars++) {
        now = *chars == '\n' ? 0 : now + (((unsigned char)*chars & 0xc0) != 0x80);
        if (now > longest) longest = now;
    }
    return longest;
}

static void expect(const char *chars, const char *part)
{
    if (!strstr(chars, part)) fail_msg("no \"%s\" in:\n%s", part, chars);
}

static void all_of_a_run_is_listed_once(void **state)
{
    (void)state;
    const top_run run = {.v = slow, .verdict = "COMPUTE STRAGGLER rank 37"};
    char *all = shown(&run, 1, &(top_settings){.devices = "   gpu 0\n"});
    expect(all, "ended");
    expect(all, "step 30/30");
    expect(all, "loss 3.4816");
    expect(all, "40 ranks, gpt2, ddp, fp32, cpu");
    expect(all, "COMPUTE STRAGGLER rank 37\n");
    expect(all, "\n      0 a ");
    expect(all, "\n!    37 b ");
    expect(all, "dp_shard             all_reduce");
    expect(all, "   gpu 0\n");
    assert_null(strchr(all, 27));
    free(all);
}

static void one_straggler_is_marked(void **state)
{
    (void)state;
    const top_run run = {.v = slow};
    char *all = shown(&run, 1, &(top_settings){.sort = TOP_BY_CAUSED});
    const char *mark = strstr(all, "\n! ");
    assert_non_null(mark);
    assert_null(strstr(mark + 1, "\n! "));
    // It is the first one of those that others waited for.
    expect(all, "memory\n!    37 b ");
    free(all);
}

static void a_screen_is_filled_and_nothing_leaves_it(void **state)
{
    (void)state;
    static const int sizes[][2] = {{80, 24}, {200, 60}, {40, 8}, {80, 2}, {132, 24}};
    const top_run runs[] = {{.v = slow}, {.v = even, .verdict = "HEALTHY"}};
    for (int page = 0; page < TOP_PAGES; page++)
        for (int i = 0; i < 5; i++) {
            const top_settings s = {.width = sizes[i][0],
                                    .height = sizes[i][1],
                                    .run = i % 2,
                                    .page = (top_page)page,
                                    .first = i * 9};
            char *all = shown(runs, 2, &s);
            assert_int_equal(lines_of(all), s.height);
            assert_in_range(characters_of_longest_line(all), 1, s.width);
            expect(all, "q quit");
            free(all);
        }
}

static void a_list_scrolls_below_its_head(void **state)
{
    (void)state;
    const top_run run = {.v = slow};
    char *all = shown(&run, 1, &(top_settings){.width = 80, .height = 24, .first = 5});
    expect(all, "rank host");
    expect(all, "\n      5 a ");
    assert_null(strstr(all, "\n      4 a "));
    free(all);
    // It ends with the last rank.
    all = shown(&run, 1, &(top_settings){.width = 80, .height = 24, .first = 1000});
    expect(all, "\n     39 b ");
    free(all);
}

static void curves_of_runs_lie_over_each_other(void **state)
{
    (void)state;
    const top_run runs[] = {{.v = slow}, {.v = even}};
    char *one = shown(runs, 1, &(top_settings){.width = 80, .height = 24});
    expect(one, "\xe2\xa0\x89"); // two dots at the top
    expect(one, "loss, step 1");
    char *two = shown(runs, 2, &(top_settings){.width = 80, .height = 24});
    assert_null(strstr(two, "\xe2\xa0"));
    expect(two, "bbbbb");
    expect(two, "a ");
    char *ascii = shown(runs, 1, &(top_settings){.width = 80, .height = 24, .is_ascii = true});
    for (const char *c = ascii; *c; c++) assert_in_range((unsigned char)*c, 10, 126);
    free(one);
    free(two);
    free(ascii);
}

static void help_and_no_runs(void **state)
{
    (void)state;
    const top_run run = {.v = slow};
    char *all = shown(&run, 1, &(top_settings){.width = 80, .height = 24, .help = true});
    expect(all, "ends this program");
    free(all);
    all = shown(NULL, 0, &(top_settings){.width = 80, .height = 24});
    expect(all, "No run trains on this machine");
    free(all);
}

static void the_json_has_the_same_numbers(void **state)
{
    (void)state;
    const top_run run = {.v = slow};
    json_t *all = NULL;
    assert_int_equal(top_json(&run, 1, json_array(), &all, NULL), OK);
    json_t *one = json_array_get(json_object_get(all, "runs"), 0);
    assert_string_equal(json_string_value(json_object_get(one, "state")), "ended");
    assert_int_equal(json_integer_value(json_object_get(one, "step")), 30);
    json_t *rank = json_array_get(json_object_get(one, "ranks"), 37);
    assert_true(json_is_true(json_object_get(rank, "straggler")));
    assert_string_equal(json_string_value(json_object_get(rank, "host")), "b");
    assert_true(json_number_value(json_object_get(rank, "others_waited_ms")) > 1000);
    rank = json_array_get(json_object_get(one, "ranks"), 0);
    assert_true(json_is_false(json_object_get(rank, "straggler")));
    assert_int_equal(json_array_size(json_object_get(one, "links")), 2);
    json_decref(all);
}

// A folder as /proc: what maps says of some processes.
static void runs_are_found_by_what_ranks_map(void **state)
{
    (void)state;
    static const char *const maps[][2] = {
        {"11", "7f00-7f01 r-xp 00000000 08:01 12 /lib/libc.so\n"
               "7f10-7f20 rw-s 00000000 08:01 13 /data/out b/spans/rank-00003.spans\n"},
        {"12", "7f10-7f20 rw-s 00000000 08:01 14 /data/out b/spans/rank-00004.spans\n"},
        {"13", "7f10-7f20 r--s 00000000 08:01 15 /read/spans/rank-00000.spans\n"},
        {"14", "7f10-7f20 rw-s 00000000 08:01 16 /gone/spans/rank-00000.spans (deleted)\n"},
        {"15", "7f10-7f20 rw-s 00000000 08:01 17 /a/spans/rank-1/spans/rank-00000.spans\n"},
        {"self", "7f10-7f20 rw-s 00000000 08:01 18 /self/spans/rank-00000.spans\n"},
    };
    char *proc = own_path(folder, "proc"), **found = NULL;
    size_t count = 0;
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        char *process = own_path(proc, maps[i][0]), *path = own_path(process, "maps");
        assert_int_equal(file_make_directories(process, NULL), OK);
        assert_int_equal(file_replace(path, maps[i][1], strlen(maps[i][1]), NULL), OK);
        free(path);
        free(process);
    }
    assert_int_equal(top_find(proc, &found, &count, NULL), OK);
    assert_int_equal(count, 2);
    assert_string_equal(found[0], "/a/spans/rank-1");
    assert_string_equal(found[1], "/data/out b");
    for (size_t i = 0; i < count; i++) free(found[i]);
    free(found);
    free(proc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_a_run_is_listed_once),
        cmocka_unit_test(one_straggler_is_marked),
        cmocka_unit_test(a_screen_is_filled_and_nothing_leaves_it),
        cmocka_unit_test(a_list_scrolls_below_its_head),
        cmocka_unit_test(curves_of_runs_lie_over_each_other),
        cmocka_unit_test(help_and_no_runs),
        cmocka_unit_test(the_json_has_the_same_numbers),
        cmocka_unit_test(runs_are_found_by_what_ranks_map),
    };
    return cmocka_run_group_tests(tests, make_runs, close_runs);
}
