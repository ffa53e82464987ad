// exchange.c -- small messages between ranks outside of steps. See exchange.h. Called by
// replicas.c, transfer.c and powersgd_tensors.c.
#include "train/exchange.h"

#include "device/kernels.h"
#include "train/trainer_private.h"

struct trainer_exchange {
    uint64_t *words, *host_words; // [ranks, exchange_numbers], on the device and on the host
    uint64_t sent;                // messages to rank 0 so far
};

status exchange_allocate(trainer *t, err *e)
{
    status result = OK;
    const size_t words = (size_t)exchange_numbers(t) * (size_t)t->plan->o.mesh.ranks,
                 bytes = words * sizeof(uint64_t);
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

status exchange_question(trainer *t, int64_t question[2], err *e)
{
    status result = OK;
    device_stream *on = trainer_stream(t, STREAM_COMPUTE);
    const size_t bytes = 2 * sizeof *question;
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
