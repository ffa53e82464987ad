// store.c -- the calls of store.h. It checks the arguments, as is the same for every store, and then
// calls the store's table.
//
// Called by communicators while they open and split. It does not know where the values are.
#include "rendezvous/store.h"

#include <stdbool.h>
#include <string.h>

static status check_key(const char *key, err *e)
{
    const size_t length = strnlen(key, STORE_KEY_BYTES);
    bool plain = true;
    for (size_t i = 0; i < length; i++) plain = plain && key[i] > ' ' && key[i] < 127;
    if (length == 0 || length == STORE_KEY_BYTES || !plain)
        return err_set(e, E_USAGE,
                       "key \"%.*s\" of a store: valid are 1 to %d printable characters, no space",
                       (int)length, key, STORE_KEY_BYTES - 1);
    return OK;
}

static status check_call(const char *key, int64_t deadline_ms, err *e)
{
    if (deadline_ms < 0 || deadline_ms > STORE_MOST_MS)
        return err_set(e, E_USAGE, "key %s of a store: a deadline of %lld ms; valid are 0 to %lld",
                       key, (long long)deadline_ms, (long long)STORE_MOST_MS);
    return check_key(key, e);
}

static status check_value(const char *key, size_t bytes, err *e)
{
    if (bytes <= STORE_VALUE_BYTES) return OK;
    return err_set(e, E_USAGE, "key %s of a store: a value of %zu bytes; valid are 0 to %d", key,
                   bytes, STORE_VALUE_BYTES);
}

void comm_store_close(comm_store *s)
{
    if (s) s->ops->close(s);
}

status comm_store_set(comm_store *s, const char *key, const void *value, size_t bytes,
                      int64_t deadline_ms, err *e)
{
    status result = OK;
    TRY(check_call(key, deadline_ms, e));
    TRY(check_value(key, bytes, e));
    TRY(s->ops->set(s, key, value, bytes, deadline_ms, e));
done:
    return result;
}

status comm_store_get(comm_store *s, const char *key, void *out, size_t room, size_t *bytes,
                      int64_t deadline_ms, err *e)
{
    status result = OK;
    size_t unused;
    TRY(check_call(key, deadline_ms, e));
    TRY(s->ops->get(s, key, out, room, bytes ? bytes : &unused, deadline_ms, e));
done:
    return result;
}

status comm_store_wait(comm_store *s, const char *key, int64_t deadline_ms, err *e)
{
    status result = OK;
    TRY(check_call(key, deadline_ms, e));
    TRY(s->ops->wait(s, key, deadline_ms, e));
done:
    return result;
}

status comm_store_add(comm_store *s, const char *key, int64_t amount, int64_t *sum,
                      int64_t deadline_ms, err *e)
{
    status result = OK;
    int64_t unused;
    TRY(check_call(key, deadline_ms, e));
    TRY(s->ops->add(s, key, amount, sum ? sum : &unused, deadline_ms, e));
done:
    return result;
}

status comm_store_remove(comm_store *s, const char *key, int64_t deadline_ms, err *e)
{
    status result = OK;
    TRY(check_call(key, deadline_ms, e));
    TRY(s->ops->remove(s, key, deadline_ms, e));
done:
    return result;
}

status comm_store_compare(comm_store *s, const char *key, store_value expected, store_value value,
                          void *out, size_t room, size_t *bytes, int64_t deadline_ms, err *e)
{
    status result = OK;
    size_t unused;
    TRY(check_call(key, deadline_ms, e));
    TRY(check_value(key, expected.bytes, e));
    TRY(check_value(key, value.bytes, e));
    TRY(s->ops->compare(s, key, expected, value, out, room, bytes ? bytes : &unused, deadline_ms,
                        e));
done:
    return result;
}

status comm_store_clock(comm_store *s, store_clock *out, err *e)
{
    *out = (store_clock){0};
    return s && s->ops->clock ? s->ops->clock(s, out, e) : OK;
}
