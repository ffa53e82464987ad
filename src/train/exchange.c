// exchange.c -- messages between ranks outside of steps. See exchange.h. Called by replicas.c,
// transfer.c, save_write.c and predict.c, and by programs that agree on something.
#include "train/exchange.h"

#include "base/size.h"
#include "device/kernels.h"
#include "train/trainer_private.h"

static const size_t STAGING_BYTES = 1 << 20;

struct trainer_exchange {
    uint64_t *words, *host_words; // [ranks, exchange_numbers], on the device and on the host
    // [STAGING_BYTES] memory of the device, from which messages go on to the host; NULL where the
    // device's memory is the host's
    char *staging;
};

static bool is_staged(const trainer *t)
{
    return t->o.strategy.offload.host_is_apart && t->plan->o.mesh.ranks > 1;
}

status exchange_allocate(trainer *t, err *e)
{
    status result = OK;
    const size_t words = (size_t)exchange_numbers(t) * (size_t)t->plan->o.mesh.ranks,
                 bytes = words * sizeof(uint64_t);
    TRY(trainer_object(&t->exchange, sizeof *t->exchange, e));
    TRY(memory_take(t->memory, BYTES_KERNELS, FROM_DEVICE, bytes, &t->exchange->words, e));
    TRY(memory_take(t->memory, BYTES_KERNELS, FROM_HOST, bytes, &t->exchange->host_words, e));
    if (is_staged(t))
        TRY(memory_take(t->memory, BYTES_KERNELS, FROM_DEVICE, STAGING_BYTES, &t->exchange->staging,
                        e));
done:
    return result;
}

void exchange_close(trainer *t)
{
    free(t->exchange);
}

int exchange_numbers(const trainer *t)
{
    return t->plan->groups + 1;
}

void exchange_set_number(trainer *t, int index, uint64_t number)
{
    const int own = exchange_numbers(t) * t->o.comm->rank + index;
    t->exchange->host_words[own] = number;
    trainer_ops(t)->copy(trainer_stream(t, STREAM_COMPUTE), t->exchange->words + own,
                         t->exchange->host_words + own, sizeof number);
}

void exchange_set_digest(trainer *t, int index, const void *x, int64_t bytes)
{
    const int own = exchange_numbers(t) * t->o.comm->rank + index;
    kernel_call c = {.kind = K_DIGEST};
    c.u.digest = (kernel_digest_args){.bytes = bytes, .x = x, .digest = t->exchange->words + own};
    exchange_set_number(t, index, 0);
    if (x) device_launch(trainer_stream(t, STREAM_COMPUTE), &c);
}

status exchange_gather(trainer *t, const uint64_t **all, err *e)
{
    status result = OK;
    device_stream *on = trainer_stream(t, STREAM_COMPUTE);
    uint64_t *words = t->exchange->words, *host = t->exchange->host_words;
    const size_t each = (size_t)exchange_numbers(t);
    TRY(comm_all_gather(t->o.comm, words + each * (size_t)t->o.comm->rank, words, each, I64, on,
                        e));
    trainer_ops(t)->copy(on, host, words, each * sizeof *words * (size_t)t->o.comm->size);
    TRY(trainer_ops(t)->sync(on, e));
    *all = host;
done:
    return result;
}

// ---- Longer messages, in pieces where they are staged

static size_t piece_of(const trainer *t, size_t left)
{
    return t->exchange->staging && left > STAGING_BYTES ? STAGING_BYTES : left;
}

status exchange_send(trainer *t, const void *x, size_t bytes, err *e)
{
    status result = OK;
    device_stream *on = trainer_stream(t, STREAM_COMPUTE);
    for (size_t sent = 0, piece; sent < bytes; sent += piece) {
        piece = piece_of(t, bytes - sent);
        TRY(comm_send(t->o.comm, (const char *)x + sent, piece, 0, on, e));
    }
    if (bytes == 0) return OK;
    // Waits until rank 0 has received the message, so that the caller may overwrite the memory.
    TRY(comm_send_wait(t->o.comm, 0, t->o.comm->sent[0], on, e));
    TRY(trainer_ops(t)->sync(on, e));
done:
    return result;
}

status exchange_receive(trainer *t, void *host, size_t bytes, int rank, err *e)
{
    status result = OK;
    device_stream *on = trainer_stream(t, STREAM_COMPUTE);
    char *staging = t->exchange->staging;
    for (size_t received = 0, piece; received < bytes; received += piece) {
        char *to = (char *)host + received;
        piece = piece_of(t, bytes - received);
        TRY(comm_recv(t->o.comm, staging ? staging : to, piece, rank, on, e));
        if (staging) TRY(device_download(on, to, staging, piece, e));
    }
    TRY(trainer_ops(t)->sync(on, e));
done:
    return result;
}

status exchange_broadcast(trainer *t, void *host, size_t bytes, int root, err *e)
{
    status result = OK;
    device_stream *on = trainer_stream(t, STREAM_COMPUTE);
    char *staging = t->exchange->staging;
    const bool is_root = t->o.comm->rank == root;
    for (size_t shared = 0, piece; shared < bytes; shared += piece) {
        char *part = (char *)host + shared;
        piece = piece_of(t, bytes - shared);
        if (staging && is_root) TRY(device_upload(on, staging, part, piece, e));
        TRY(comm_broadcast(t->o.comm, staging ? staging : part, piece, root, on, e));
        if (staging && !is_root) TRY(device_download(on, part, staging, piece, e));
    }
    TRY(trainer_ops(t)->sync(on, e));
done:
    return result;
}

// ---- Agreement

status trainer_agree(trainer *t, bool own, bool *any, err *e)
{
    status result = OK;
    device_stream *on = trainer_stream(t, STREAM_COMPUTE);
    double *sum = &results_sums(t)[SUM_STOP], *host = &results_host_sums(t)[SUM_STOP];
    *host = own ? 1 : 0;
    trainer_ops(t)->copy(on, sum, host, sizeof *sum);
    TRY(comm_all_reduce(t->o.comm, sum, 1, F64, REDUCE_SUM, on, e));
    TRY(results_read_sums(t, SUM_STOP, 1, e));
    *any = *host > 0;
done:
    return result;
}
