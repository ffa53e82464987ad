// greet.c -- see greet.h. It does not know what is sent afterwards.
#include "net/greet.h"

#include "net/socket.h"

status net_secret_check(const net_secret *s, const net_address *a, const char *what, err *e)
{
    char text[NET_ADDRESS_TEXT];
    if (s->given || net_address_is_loopback(a)) return OK;
    net_address_print(a, text);
    return err_set(
        e, E_USAGE,
        "%s on %s, which other hosts reach, needs a secret; valid: --secret-file FILE or "
        "TRIREME_SECRET_FILE, the same on every host",
        what, text);
}

status net_greet_server(int fd, const net_secret *s, int64_t deadline_ns, net_session *out, err *e)
{
    status result = OK;
    net_hello hello;
    net_answer answer;
    net_welcome welcome;
    TRY(net_read(fd, &hello, sizeof hello, deadline_ns, e));
    TRY(net_answer_make(s, &hello, &answer, out, e));
    TRY(net_write(fd, &answer, sizeof answer, deadline_ns, e));
    TRY(net_read(fd, &welcome, sizeof welcome, deadline_ns, e));
    TRY(net_welcome_check(out, &welcome, e));
done:
    return result;
}

status net_greet_client(int fd, const net_secret *s, int64_t deadline_ns, net_session *out, err *e)
{
    status result = OK;
    net_hello hello;
    net_answer answer;
    net_welcome welcome;
    TRY(net_hello_make(s, &hello, e));
    TRY(net_write(fd, &hello, sizeof hello, deadline_ns, e));
    TRY(net_read(fd, &answer, sizeof answer, deadline_ns, e));
    const bool welcomed = net_answer_check(s, &hello, &answer, &welcome, out);
    TRY(net_write(fd, &welcome, sizeof welcome, deadline_ns, e));
    if (!welcomed) FAIL(E_USAGE, "it does not have the secret of this server");
done:
    return result;
}
