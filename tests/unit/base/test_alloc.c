// test_alloc.c -- memory of the heap: sizes that do not fit are refused like memory that lacks, and
// a text that failed stays readable and is refused where it would become a result.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/lookup.h"
#include "base/text.h"

static bool lacking; // while true every allocation fails

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    return lacking ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return lacking ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *p, size_t bytes)
{
    return lacking ? NULL : __real_realloc(p, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return lacking ? NULL : __real_aligned_alloc(alignment, bytes);
}

static void what_does_not_fit_is_refused_by_its_name(void **state)
{
    (void)state;
    const struct {
        size_t count, size;
        const char *line;
    } cases[] = {{SIZE_MAX, 8, "no memory for the plan (8.00 EiB)"},
                 {(size_t)1 << 61, 1, "no memory for the plan (2.00 EiB)"},
                 {(size_t)1 << 32, (size_t)1 << 32, "no memory for the plan (8.00 EiB)"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err e[4] = {{0}};
        int *p = (int *)&e, *const before = p;
        size_t room = 0;
        assert_int_equal(alloc_array(&p, cases[i].count, cases[i].size, "the plan", &e[0]),
                         E_MEMORY);
        assert_int_equal(alloc_zeroed(&p, cases[i].count, cases[i].size, "the plan", &e[1]),
                         E_MEMORY);
        assert_int_equal(alloc_aligned(&p, 64, cases[i].count, cases[i].size, "the plan", &e[2]),
                         E_MEMORY);
        int *grown = NULL;
        assert_int_equal(
            alloc_grow(&grown, &room, cases[i].count, cases[i].size, "the plan", &e[3]), E_MEMORY);
        assert_ptr_equal(p, before);
        assert_null(grown);
        assert_int_equal(room, 0);
        for (int k = 0; k < 4; k++) assert_string_equal(e[k].text, cases[i].line);
    }
    assert_int_equal(status_exit_code(E_MEMORY), 1);
}

static void no_items_are_memory_too(void **state)
{
    (void)state;
    char *a = NULL, *b = NULL, *c = NULL;
    assert_int_equal(alloc_array(&a, 0, 8, "", NULL), OK);
    assert_int_equal(alloc_zeroed(&b, 8, 0, "", NULL), OK);
    assert_int_equal(alloc_aligned(&c, 4096, 0, 1, "", NULL), OK);
    assert_true(a && b && c && (uintptr_t)c % 4096 == 0);
    free(a);
    free(b);
    free(c);
}

static void an_array_grows_by_doubling_and_keeps_its_items(void **state)
{
    (void)state;
    int *array = NULL, grown = 0;
    size_t room = 0;
    for (int i = 0; i < 1000; i++) {
        const size_t before = room;
        assert_int_equal(alloc_grow(&array, &room, (size_t)i + 1, sizeof *array, "", NULL), OK);
        assert_true(room > (size_t)i);
        grown += room != before;
        array[i] = i;
    }
    for (int i = 0; i < 1000; i++) assert_int_equal(array[i], i);
    assert_true(grown < 10);
    lacking = true;
    const status failed = alloc_grow(&array, &room, 5000, sizeof *array, "", NULL);
    lacking = false;
    assert_int_equal(failed, E_MEMORY);
    assert_true(room < 5000);
    assert_int_equal(array[999], 999);
    free(array);
}

static void a_text_that_failed_is_empty_and_stays_so(void **state)
{
    (void)state;
    err e = {0};
    char *taken = NULL;
    text t = {0};
    text_add(&t, "what was there before ");
    lacking = true;
    for (int i = 0; i < 20; i++) text_add(&t, "more");
    lacking = false;
    assert_true(t.failed);
    assert_string_equal(t.chars, "");
    text_add(&t, "and later");
    text_addf(&t, "%d", 7);
    assert_string_equal(t.chars, "");
    assert_int_equal(t.bytes, 0);
    assert_int_equal(text_check(&t, &e), E_MEMORY);
    assert_non_null(strstr(e.text, "no memory"));
    assert_int_equal(text_take(&t, &taken, &e), E_MEMORY);
    assert_null(taken);
    text_add(&t, "anew");
    assert_int_equal(text_take(&t, &taken, &e), OK);
    assert_string_equal(taken, "anew");
    free(taken);
    text_fail(&t);
    text_fail(&t);
    text_clear(&t);
    assert_int_equal(text_take(&t, &taken, &e), OK);
    assert_string_equal(taken, ""); // nothing was added
    free(taken);
}

static void a_table_that_cannot_grow_keeps_what_it_has(void **state)
{
    (void)state;
    lookup l = {0};
    for (int i = 0; i < 32; i++) assert_int_equal(lookup_add(&l, (uint64_t)i, i, NULL), OK);
    lacking = true;
    const status failed = lookup_add(&l, 32, 32, NULL);
    lacking = false;
    assert_int_equal(failed, E_MEMORY);
    assert_int_equal(l.count, 32);
    assert_int_equal(lookup_add(&l, 32, 32, NULL), OK);
    lookup_clear(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_fit_is_refused_by_its_name),
        cmocka_unit_test(no_items_are_memory_too),
        cmocka_unit_test(an_array_grows_by_doubling_and_keeps_its_items),
        cmocka_unit_test(a_text_that_failed_is_empty_and_stays_so),
        cmocka_unit_test(a_table_that_cannot_grow_keeps_what_it_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
