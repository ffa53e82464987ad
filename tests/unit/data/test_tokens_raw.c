// The .bin files of llm.c and nanoGPT: recognised where a shard is wanted, and converted to one.
#include "scratch.h"

#include "data/tokens.h"
#include "data/tokens_raw.h"
#include "own_text.h"

static const uint16_t IDS[] = {7, 8, 50256, 9, 50256, 65535, 1};
enum { COUNT = sizeof IDS / sizeof *IDS };

// llm.c's header before `bytes` bytes of ids.
static void put_llm_c(const char *path, int32_t magic, int32_t count, const void *ids, size_t bytes)
{
    text all = {0};
    int32_t header[256] = {magic, magic == 20240520 ? 1 : 7, count};
    text_add_bytes(&all, header, sizeof header);
    text_add_bytes(&all, ids, bytes);
    put_file(path, all.chars, all.bytes);
    text_clear(&all);
}

static void expect_shard(void **state, const raw_options *o, uint64_t documents, bool llm_c)
{
    err e = {0};
    raw_result r;
    tokens *t = NULL;
    int32_t ids[COUNT];
    if (raw_tokens_convert(o, &r, &e) != OK) fail_msg("%s", e.text);
    assert_int_equal(r.tokens, COUNT);
    assert_int_equal(r.documents, documents);
    assert_int_equal(r.highest, 65535);
    assert_int_equal(r.llm_c, llm_c);
    assert_int_equal(tokens_open(in_folder(state, "p"), &t, &e), OK);
    assert_int_equal(tokens_documents(t), documents);
    assert_int_equal(tokens_count(t), COUNT);
    tokens_read(t, 0, COUNT, ids);
    for (int i = 0; i < COUNT; i++) assert_int_equal(ids[i], IDS[i]);
    tokens_close(t);
}

static void ids_of_both_become_a_shard(void **state)
{
    uint32_t wide[COUNT];
    for (int i = 0; i < COUNT; i++) wide[i] = IDS[i];
    char *path = own_copy(in_folder(state, "raw.bin")), *prefix = own_copy(in_folder(state, "p"));
    raw_options o = {.path = path, .output_prefix = prefix, .eod = -1};
    put_file(o.path, IDS, sizeof IDS);
    put_text(in_folder(state, "p.json"), "the sidecar of another shard");
    expect_shard(state, &o, 1, false);
    assert_false(file_exists(in_folder(state, "p.json")));
    o.eod = 50256;
    expect_shard(state, &o, 3, false);
    put_llm_c(o.path, 20240520, COUNT, IDS, sizeof IDS);
    expect_shard(state, &o, 3, true);
    put_llm_c(o.path, 20240801, COUNT, wide, sizeof wide);
    expect_shard(state, &o, 3, true);
    put_file(o.path, wide, sizeof wide);
    o.id_bytes = 4;
    expect_shard(state, &o, 3, false);
    assert_int_equal(files_in(*state), 3); // raw.bin, p.bin, p.idx
    free(path);
    free(prefix);
}

static void refuse(const raw_options *o, const char *says)
{
    err e = {0};
    raw_result r;
    assert_int_equal(raw_tokens_convert(o, &r, &e), E_USAGE);
    assert_says(&e, says);
}

static bool at_once(void *arg)
{
    (void)arg;
    return true;
}

static void what_is_wrong_is_named_and_nothing_is_left(void **state)
{
    err e = {0};
    raw_result r;
    const int32_t negative[] = {1, -1};
    raw_options o = {
        .path = in_folder(state, "raw.bin"), .output_prefix = in_folder(state, "p"), .eod = -1};
    refuse(&o, "raw.bin");
    put_file(o.path, IDS, 0);
    refuse(&o, "raw.bin: 0 bytes of ids");
    put_file(o.path, IDS, 5);
    refuse(&o, "raw.bin: 5 bytes of ids, valid is a multiple of 2");
    put_llm_c(o.path, 20240520, COUNT + 1, IDS, sizeof IDS);
    refuse(&o, "llm.c's header says 8 ids, the file has 7 (cut off?)");
    o.id_bytes = 4;
    refuse(&o, "llm.c's header says ids of 2 bytes, --dtype says 4");
    put_file(o.path, negative, sizeof negative);
    refuse(&o, "token 1: found id 4294967295, valid is below 2^31 - 1");
    o.id_bytes = 0;
    o.output_prefix = in_folder(state, "raw");
    refuse(&o, "raw.bin: is the input and would be replaced");
    o.output_prefix = in_folder(state, "p");
    o.stopped = at_once;
    assert_int_equal(raw_tokens_convert(&o, &r, &e), E_INTERRUPTED);
    assert_int_equal(files_in(*state), 1);
}

static void a_shard_without_index_says_what_it_may_be(void **state)
{
    err e = {0};
    tokens *t = NULL;
    put_file(in_folder(state, "train.bin"), IDS, sizeof IDS);
    assert_int_equal(tokens_open(in_folder(state, "train.bin"), &t, &e), E_USAGE);
    assert_says(&e, "train.idx: No such file or directory");
    assert_says(
        &e, "train.bin may hold plain ids as nanoGPT writes them (uint16): trireme data prepare "
            "--from-tokens");
    put_llm_c(in_folder(state, "train.bin"), 20240801, 3, IDS, sizeof IDS);
    assert_int_equal(tokens_open(in_folder(state, "train"), &t, &e), E_USAGE);
    assert_says(&e, "train.bin holds tokens of llm.c: trireme data prepare --from-tokens");
    assert_int_equal(tokens_open(in_folder(state, "nowhere"), &t, &e), E_USAGE);
    assert_null(strstr(e.text, "--from-tokens"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(ids_of_both_become_a_shard),
        SCRATCH_TEST(what_is_wrong_is_named_and_nothing_is_left),
        SCRATCH_TEST(a_shard_without_index_says_what_it_may_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
