// Token shards: what the writer writes, what the reader refuses. Files are also built by hand, so
// that writer and reader cannot agree on a mistake.
#include "unit/data/scratch.h"

#include "data/sidecar.h"
#include "data/tokens.h"
#include "own_text.h"

// A shard of int32 ids {1..6} in three sequences (2, 3, 1) and two documents (2 sequences, 1).
enum { IDX_BYTES = 34 + 12 * 3 + 8 * 3 };

static size_t example_idx(uint8_t *out)
{
    static const uint64_t version = 1, s = 3, d = 3;
    static const int32_t lengths[3] = {2, 3, 1};
    static const int64_t offsets[3] = {0, 8, 20}, borders[3] = {0, 2, 3};
    memcpy(out, "MMIDIDX\0\0", 9);
    memcpy(out + 9, &version, 8);
    out[17] = 4;
    memcpy(out + 18, &s, 8);
    memcpy(out + 26, &d, 8);
    memcpy(out + 34, lengths, 12);
    memcpy(out + 46, offsets, 24);
    memcpy(out + 70, borders, 24);
    return IDX_BYTES;
}

static void example_put(void **state, const uint8_t *idx, size_t idx_bytes, size_t bin_bytes)
{
    const int32_t ids[7] = {1, 2, 3, 4, 5, 6, 7};
    put_file(in_folder(state, "p.idx"), idx, idx_bytes);
    put_file(in_folder(state, "p.bin"), ids, bin_bytes);
}

static void reads_a_shard_built_by_hand(void **state)
{
    uint8_t idx[IDX_BYTES];
    err e = {0};
    example_put(state, idx, example_idx(idx), 24);
    const char *const names[] = {"p", "p.bin", "p.idx"};
    for (int i = 0; i < 3; i++) {
        tokens *t = NULL;
        assert_int_equal(tokens_open(in_folder(state, names[i]), &t, &e), OK);
        assert_string_equal(tokens_prefix(t), in_folder(state, "p"));
        assert_int_equal(tokens_count(t), 6);
        assert_int_equal(tokens_documents(t), 2);
        assert_int_equal(tokens_sequences(t), 3);
        assert_int_equal(tokens_dtype(t), I32);
        uint64_t first, length;
        tokens_document(t, 0, &first, &length);
        assert_int_equal(first, 0);
        assert_int_equal(length, 5);
        tokens_document(t, 1, &first, &length);
        assert_int_equal(first, 5);
        assert_int_equal(length, 1);
        int32_t ids[3];
        tokens_read(t, 2, 3, ids);
        assert_int_equal(ids[0], 3);
        assert_int_equal(ids[2], 5);
        tokens_close(t);
    }
}

// One change of one field each, and what the message must name.
static void refuses_every_malformed_index(void **state)
{
    static const struct {
        size_t at, bytes;
        int64_t value;
        const char *says;
    } cases[] = {
        {0, 1, 'X', "p.idx: magic"},
        {8, 1, 1, "p.idx: magic"},
        {9, 8, 2, "p.idx: version: found 2, valid is 1"},
        {17, 1, 0, "p.idx: dtype code: found 0"},
        {17, 1, 7, "p.idx: dtype code: found 7"},
        {17, 1, 255, "p.idx: dtype code: found 255"},
        {17, 1, 8, "offset of sequence 1: found 8, valid is 4"},
        {18, 8, 99999999999, "p.idx: sequence count: found 99999999999, valid is at most 5"},
        {18, 8, -1, "p.idx: sequence count: found 18446744073709551615"},
        {18, 8, INT64_MAX / 6, "p.idx: sequence count"},
        {18, 8, 2, "p.idx: size: found 12 bytes after the document borders"},
        {18, 8, 4, "p.idx: document count: found 3, valid is 1 to 1"},
        {26, 8, 0, "p.idx: document count: found 0"},
        {26, 8, -1, "p.idx: document count"},
        {26, 8, 2, "p.idx: size: found 8 bytes after"},
        {26, 8, INT64_MAX / 4, "p.idx: document count"},
        {34, 4, -2, "length of sequence 0: found -2, valid is 0 or more"},
        {34, 4, 3, "offset of sequence 1: found 8, valid is 12"},
        {42, 4, INT32_MAX, "p.bin: size: found 24 bytes, valid is 8589934608"},
        {42, 4, 2, "p.bin: size: found 24 bytes, valid is 28"},
        {46, 8, 4, "offset of sequence 0: found 4, valid is 0"},
        {54, 8, -8, "offset of sequence 1: found -8, valid is 8"},
        {62, 8, INT64_MAX, "offset of sequence 2"},
        {70, 8, 1, "border of document 0: found 1, valid is 0 to 0"},
        {70, 8, -1, "border of document 0: found -1"},
        {78, 8, 4, "border of document 1: found 4, valid is 0 to 3"},
        {86, 8, 1, "border of document 2: found 1, valid is 2 to 3"},
        {86, 8, 2, "last document border: found 2, valid is 3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t idx[IDX_BYTES];
        err e = {0};
        tokens *t = NULL;
        size_t n = example_idx(idx);
        memcpy(idx + cases[i].at, &cases[i].value, cases[i].bytes);
        example_put(state, idx, n, 24);
        assert_int_equal(tokens_open(in_folder(state, "p"), &t, &e), E_USAGE);
        assert_says(&e, cases[i].says);
        assert_null(t);
    }
}

static void refuses_every_truncation_of_either_file(void **state)
{
    uint8_t idx[IDX_BYTES + 8] = {0};
    size_t n = example_idx(idx);
    for (size_t bytes = 0; bytes <= n + 8; bytes++) {
        err e = {0};
        tokens *t = NULL;
        example_put(state, idx, bytes, 24);
        status s = tokens_open(in_folder(state, "p"), &t, &e);
        assert_int_equal(s, bytes == n ? OK : E_USAGE);
        if (bytes != n) assert_says(&e, "p.idx");
        tokens_close(t);
    }
    for (size_t bytes = 0; bytes <= 28; bytes++) {
        err e = {0};
        tokens *t = NULL;
        example_put(state, idx, n, bytes);
        status s = tokens_open(in_folder(state, "p"), &t, &e);
        assert_int_equal(s, bytes == 24 ? OK : E_USAGE);
        if (bytes != 24) assert_says(&e, "p.bin: size");
        tokens_close(t);
    }
}

static void a_missing_file_is_named(void **state)
{
    err e = {0};
    tokens *t = NULL;
    assert_int_equal(tokens_open(in_folder(state, "nothing"), &t, &e), E_USAGE);
    assert_says(&e, "nothing.idx");
    uint8_t idx[IDX_BYTES];
    put_file(in_folder(state, "p.idx"), idx, example_idx(idx));
    assert_int_equal(tokens_open(in_folder(state, "p"), &t, &e), E_USAGE);
    assert_says(&e, "p.bin");
}

static void write_and_read_back(void **state, int32_t vocab, dtype expect, const char *name)
{
    err e = {0};
    tokens_writer *w = NULL;
    tokens *t = NULL;
    enum { DOCUMENTS = 40 };
    int32_t ids[10000], back[10000];
    const char *prefix = in_folder(state, name);
    assert_int_equal(tokens_writer_open(prefix, vocab, &w, &e), OK);
    uint64_t total = 0;
    for (int d = 0; d < DOCUMENTS; d++) {
        size_t n = (size_t)d * 250;
        for (size_t i = 0; i < n; i++) ids[i] = (int32_t)((total + i) * 7919 % (uint64_t)vocab);
        assert_int_equal(tokens_writer_document(w, ids, n, &e), OK);
        total += n;
    }
    assert_int_equal(tokens_writer_count(w), total);
    assert_int_equal(tokens_writer_documents(w), DOCUMENTS);
    assert_int_equal(tokens_writer_finish(w, &e), OK);

    assert_int_equal(tokens_open(prefix, &t, &e), OK);
    assert_int_equal(tokens_dtype(t), expect);
    assert_int_equal(tokens_count(t), total);
    assert_int_equal(tokens_documents(t), DOCUMENTS);
    uint64_t at = 0;
    for (uint64_t d = 0; d < DOCUMENTS; d++) {
        uint64_t first, length;
        tokens_document(t, d, &first, &length);
        assert_int_equal(first, at);
        assert_int_equal(length, d * 250);
        tokens_read(t, first, length, back);
        for (uint64_t i = 0; i < length; i++)
            assert_int_equal(back[i], (first + i) * 7919 % (uint64_t)vocab);
        at += length;
    }
    assert_int_equal(tokens_check(t, vocab, &e), OK);
    tokens_close(t);
}

static void what_was_written_is_read_back(void **state)
{
    write_and_read_back(state, 65499, U16, "narrow");
    write_and_read_back(state, 65500, I32, "wide");
    assert_int_equal(files_in(*state), 4);
}

static void an_id_beyond_the_vocabulary_is_found_at_its_place(void **state)
{
    err e = {0};
    tokens_writer *w = NULL;
    tokens *t = NULL;
    enum { COUNT = 1 << 21 };
    int32_t *ids = calloc(COUNT, sizeof *ids);
    ids[1234567] = 500;
    ids[2000000] = 600;
    assert_int_equal(tokens_writer_open(in_folder(state, "p"), 1000, &w, &e), OK);
    assert_int_equal(tokens_writer_document(w, ids, COUNT, &e), OK);
    assert_int_equal(tokens_writer_finish(w, &e), OK);
    assert_int_equal(tokens_open(in_folder(state, "p"), &t, &e), OK);
    assert_int_equal(tokens_check(t, 601, &e), OK);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(tokens_check(t, 500, &e), E_USAGE);
        assert_says(&e, "p.bin: token 1234567 (byte 2469134): found id 500, valid is 0 to 499");
    }
    assert_int_equal(tokens_check(t, 501, &e), E_USAGE);
    assert_says(&e, "token 2000000");
    assert_int_equal(tokens_check(t, 0, &e), E_USAGE);
    tokens_close(t);
    free(ids);
}

static void a_negative_or_64_bit_id_is_refused(void **state)
{
    uint8_t idx[IDX_BYTES];
    err e = {0};
    tokens *t = NULL;
    size_t n = example_idx(idx);
    const int32_t ids[6] = {1, 2, -3, 4, 5, 6};
    put_file(in_folder(state, "p.idx"), idx, n);
    put_file(in_folder(state, "p.bin"), ids, sizeof ids);
    assert_int_equal(tokens_open(in_folder(state, "p"), &t, &e), OK);
    assert_int_equal(tokens_check(t, 100, &e), E_USAGE);
    assert_says(&e, "token 2 (byte 8): found id -3");
    tokens_close(t);

    const int64_t wide[6] = {1, 2, 3, (int64_t)1 << 32, 5, 6}, offsets[3] = {0, 16, 40};
    idx[17] = 5;
    memcpy(idx + 46, offsets, sizeof offsets);
    put_file(in_folder(state, "p.idx"), idx, n);
    put_file(in_folder(state, "p.bin"), wide, sizeof wide);
    assert_int_equal(tokens_open(in_folder(state, "p"), &t, &e), OK);
    assert_int_equal(tokens_dtype(t), I64);
    int32_t back[6];
    tokens_read(t, 0, 6, back);
    assert_int_equal(back[2], 3);
    assert_int_equal(back[3], -1);
    assert_int_equal(tokens_check(t, INT32_MAX, &e), E_USAGE);
    assert_says(&e, "token 3 (byte 24): found id 4294967296");
    tokens_close(t);
}

static void an_abandoned_or_failed_writer_leaves_the_old_shard(void **state)
{
    err e = {0};
    tokens_writer *w = NULL;
    tokens *t = NULL;
    const int32_t one[1] = {1}, bad[1] = {9};
    const char *prefix = in_folder(state, "p");
    assert_int_equal(tokens_writer_open(prefix, 9, &w, &e), OK);
    assert_int_equal(tokens_writer_document(w, one, 1, &e), OK);
    assert_int_equal(tokens_writer_finish(w, &e), OK);

    assert_int_equal(tokens_writer_open(prefix, 9, &w, &e), OK);
    assert_int_equal(tokens_writer_document(w, bad, 1, &e), E_USAGE);
    assert_says(&e, "id 9 is not in 0 to 8");
    tokens_writer_abandon(w);
    assert_int_equal(tokens_writer_open(prefix, 9, &w, &e), OK);
    assert_int_equal(tokens_writer_seal(w, &e), OK);
    tokens_writer_abandon(w);
    tokens_writer_abandon(NULL);
    assert_int_equal(files_in(*state), 2);
    assert_int_equal(tokens_open(prefix, &t, &e), OK);
    assert_int_equal(tokens_count(t), 1);
    tokens_close(t);
}

static void a_folder_in_the_place_of_a_shard_is_refused_at_once(void **state)
{
    err e = {0};
    tokens_writer *w = NULL;
    assert_int_equal(file_make_directories(in_folder(state, "p.idx"), &e), OK);
    assert_int_equal(tokens_writer_open(in_folder(state, "p"), 9, &w, &e), E_USAGE);
    assert_says(&e, "p.idx: is a folder");
    assert_int_equal(files_in(*state), 1);
}

static void text_bytes_come_from_the_sidecar(void **state)
{
    err e = {0};
    tokens *t = NULL;
    uint8_t idx[IDX_BYTES];
    uint64_t bytes = 1;
    example_put(state, idx, example_idx(idx), 24);
    const char *prefix = in_folder(state, "p"), *json = in_folder(state, "p.json");
    assert_int_equal(tokens_open(prefix, &t, &e), OK);
    assert_int_equal(tokens_text_bytes(t, &bytes, &e), OK);
    assert_int_equal(bytes, 0);

    sidecar s = {.tokens = 6,
                 .documents = 2,
                 .text_bytes = 31,
                 .vocab = 10,
                 .append_eod = true,
                 .eod = 3,
                 .add_special_tokens = true,
                 .tokenizer_hash = 0xFEDCBA9876543210};
    char *tokenizer = own_copy(in_folder(state, "t.json"));
    s.tokenizer = tokenizer;
    assert_int_equal(sidecar_write(json, &s, &e), OK);
    assert_int_equal(tokens_text_bytes(t, &bytes, &e), OK);
    assert_int_equal(bytes, 31);
    sidecar back = {0};
    bool found = false;
    assert_int_equal(sidecar_read(prefix, &back, &found, &e), OK);
    assert_true(found && back.append_eod && back.vocab == 10);
    assert_true(back.eod == 3 && back.add_special_tokens);
    assert_true(back.tokenizer_hash == 0xFEDCBA9876543210);
    assert_string_equal(back.tokenizer, tokenizer);
    sidecar_clear(&back);
    assert_int_equal(sidecar_read(in_folder(state, "p.bin"), &back, &found, &e), OK);
    assert_true(found);
    sidecar_clear(&back);
    put_text(json, "{\"tokens\": 6, \"documents\": 2, \"text_bytes\": 31, \"vocab\": 10, "
                   "\"append_eod\": true, \"tokenizer\": \"/elsewhere/t.json\"}");
    assert_int_equal(sidecar_read(prefix, &back, &found, &e), OK); // of an earlier version
    assert_true(back.append_eod && back.eod == -1 && back.tokenizer_hash == 0);
    assert_string_equal(back.tokenizer, "/elsewhere/t.json");
    sidecar_clear(&back);
    free(tokenizer);

    s = (sidecar){.tokens = 7, .documents = 2, .vocab = 10};
    assert_int_equal(sidecar_write(json, &s, &e), OK);
    assert_int_equal(tokens_text_bytes(t, &bytes, &e), E_USAGE);
    assert_says(&e, "p.json: tokens and documents: found 7 and 2, but the shard beside it has 6");
    put_text(json, "{\"tokens\": -1}");
    assert_int_equal(tokens_text_bytes(t, &bytes, &e), E_USAGE);
    assert_says(&e, "p.json: tokens: found something else");
    put_text(json, "{\n\"tokens\": ");
    assert_int_equal(tokens_text_bytes(t, &bytes, &e), E_USAGE);
    assert_says(&e, "p.json:2: not a JSON object");
    tokens_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(reads_a_shard_built_by_hand),
        SCRATCH_TEST(refuses_every_malformed_index),
        SCRATCH_TEST(refuses_every_truncation_of_either_file),
        SCRATCH_TEST(a_missing_file_is_named),
        SCRATCH_TEST(what_was_written_is_read_back),
        SCRATCH_TEST(an_id_beyond_the_vocabulary_is_found_at_its_place),
        SCRATCH_TEST(a_negative_or_64_bit_id_is_refused),
        SCRATCH_TEST(an_abandoned_or_failed_writer_leaves_the_old_shard),
        SCRATCH_TEST(a_folder_in_the_place_of_a_shard_is_refused_at_once),
        SCRATCH_TEST(text_bytes_come_from_the_sidecar),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
