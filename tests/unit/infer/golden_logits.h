// golden_logits.h -- for tests: compares the logits of a decoder on a golden folder with those of
// transformers.
#ifndef TRIREME_TESTS_GOLDEN_LOGITS_H
#define TRIREME_TESTS_GOLDEN_LOGITS_H

#include "unit/train/golden.h"

#include "infer/decoder.h"

// Feeds the golden prompt in pieces of `piece` tokens and compares the logits after each piece.
static inline void check_logits(const char *name, int64_t piece)
{
    golden g = {0};
    decoder *d = NULL;
    golden_open(&g, name, 1);
    const safetensors_tensor *prompt = golden_tensor(&g, "prompt"),
                             *want = golden_tensor(&g, "logits");
    CHECK(decoder_open(g.device, g.config.family, &g.config, F32, g.weights, NULL, prompt->dim[0],
                       &d, e));
    for (int64_t offset = 0; offset < prompt->dim[0]; offset += piece) {
        const float *logits;
        int64_t count = piece < prompt->dim[0] - offset ? piece : prompt->dim[0] - offset;
        CHECK(decoder_feed(d, (const int32_t *)prompt->data + offset, count, &logits, e));
        double worst =
            relative_error(logits, want, (offset + count - 1) * want->dim[1], want->dim[1]);
        if (!(worst <= 1e-5))
            fail_msg("%s: logits after %lld tokens: relative error %.3g", name,
                     (long long)(offset + count), worst);
    }
    err full = {0};
    const float *none;
    assert_int_equal(decoder_feed(d, prompt->data, 1, &none, &full), E_USAGE);
    decoder_close(d);
    golden_close(&g);
}

#endif
