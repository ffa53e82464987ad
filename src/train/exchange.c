// exchange.c -- small messages between ranks outside of steps. See exchange.h. Called by
// replicas.c, transfer.c and powersgd_tensors.c.
#include "train/exchange.h"

#include "device/kernels.h"
#include "train/trainer_private.h"

enum { WORDS = 2 }; // numbers that each rank contributes

struct trainer_exchange {
    uint64_t *words, *host_words; // [ranks, WORDS], on the device and on the host
    uint64_t sent;                // messages to rank 0 so far
};

status exchange_allocate(trainer *t, err *e)
{
    status result = OK;
    const size_t bytes = WORDS * sizeof(uint64_t) * (size_t)t->plan->o.mesh.ranks;
    TRY(trainer_object(&t->exchange, sizeof *t->exchange, e));
    TRY(memory_take(t->memory, BYTES_KERNELS, FROM_DEVICE, bytes, &t->exchange->words, e));
    TRY(memory_take(t->memory, BYTES_KERNELS, FROM_HOST, bytes, &t->exchange->host_words, e));
done:
    return result;
}

void exchange_close(trainer *t)
{
    free(t->exchange);
}

status exchange_digests(trainer *t, const void *x, int64_t bytes, uint64_t number,
                        const uint64_t **all, err *e)
{
    status result = OK;
    device_stream *on = trainer_stream(t, STREAM_COMPUTE);
    const device_ops *ops = trainer_ops(t);
    const int rank = t->o.comm->rank, ranks = t->o.comm->size;
    uint64_t *words = t->exchange->words, *host = t->exchange->host_words;
    uint64_t *own = words + WORDS * rank, *own_host = host + WORDS * rank;
    own_host[0] = 0, own_host[1] = number;
    ops->copy(on, own, own_host, WORDS * sizeof *own);
    kernel_call c = {.kind = K_DIGEST};
    c.u.digest = (kernel_digest_args){.bytes = bytes, .x = x, .digest = own};
    if (x) device_launch(on, &c);
    TRY(comm_all_gather(t->o.comm, own, words, WORDS, I64, on, e));
    ops->copy(on, host, words, WORDS * sizeof *own * (size_t)ranks);
    TRY(ops->sync(on, e));
    *all = host;
done:
    return result;
}

status exchange_question(trainer *t, int64_t question[2], err *e)
{
    status result = OK;
    device_stream *on = trainer_stream(t, STREAM_COMPUTE);
    const size_t bytes = WORDS * sizeof *question;
    uint64_t *words = t->exchange->words, *host = t->exchange->host_words;
    memcpy(host, question, bytes);
    trainer_ops(t)->copy(on, words, host, bytes);
    TRY(comm_broadcast(t->o.comm, words, bytes, 0, on, e));
    trainer_ops(t)->copy(on, host, words, bytes);
    TRY(trainer_ops(t)->sync(on, e));
    memcpy(question, host, bytes);
done:
    return result;
}

status exchange_send(trainer *t, const void *x, size_t bytes, err *e)
{
    status result = OK;
    device_stream *on = trainer_stream(t, STREAM_COMPUTE);
    TRY(comm_send(t->o.comm, x, bytes, 0, on, e));
    // Waits until rank 0 has received the message, so that the caller may overwrite the memory.
    TRY(comm_send_wait(t->o.comm, 0, ++t->exchange->sent, on, e));
    TRY(trainer_ops(t)->sync(on, e));
done:
    return result;
}
