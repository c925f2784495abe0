#include "config.h"

#include "admission.h"

#include <stdio.h>
#include <string.h>

#include "subnet.h"

static int is_allowed(const struct admission *admission, const struct sockaddr *peer,
                      struct error *err)
{
    if (admission->count == 0)
        return admission->anybody || admission->secret ? 1 : subnet_is_near(peer, err);
    for (size_t i = 0; i < admission->count; i++)
        if (network_contains(&admission->networks[i], peer))
            return 1;
    return 0;
}

int admission_check(const struct admission *admission, const struct sockaddr *peer,
                    struct error *err)
{
    char host[ADDRESS_TEXT];
    int allowed = is_allowed(admission, peer, err);
    if (allowed != 0)
        return allowed > 0 ? 0 : -1;
    error_set(err, ERROR_UNAVAILABLE, STAGE_CONNECT, NULL, "address not allowed");
    return error_hint(err, "ask for 'rdmaput serve --allow %s' there",
                      address_format_host(peer, host));
}

int admission_prepare(struct admission *admission, struct error *err)
{
    return admission->secret ? secret_random(admission->token, WIRE_TOKEN_BYTES, err) : 0;
}

int admission_check_hello(const struct admission *admission, const struct wire_hello *hello,
                          struct error *err)
{
    bool secret = admission->secret != NULL;
    bool proves = hello->role == WIRE_ROLE_WRITE || hello->role == WIRE_ROLE_CHECK;
    if (proves ? secret == ((hello->flags & WIRE_HELLO_SECRET) != 0)
               : !secret || secret_equal(hello->token, admission->token, WIRE_TOKEN_BYTES))
        return 0;
    return error_set(err, ERROR_UNAVAILABLE, STAGE_CONNECT, NULL, "access refused");
}

static bool allows_any(const struct admission *admission)
{
    for (size_t i = 0; i < admission->count; i++)
        if (admission->networks[i].any)
            return true;
    return false;
}

char *admission_describe(const struct admission *admission, char *buf, size_t size)
{
    const char *who = "this host and its subnets";
    if (admission->count > 0)
        who = allows_any(admission) ? "anybody" : "the networks of --allow";
    else if (admission->anybody || admission->secret)
        who = "anybody";
    snprintf(buf, size, "for %s%s", who, admission->secret ? " with the secret" : "");
    return buf;
}

/* The text goes before its hint, on a line of its own; what does not fit is cut. */
size_t admission_refusal(const struct error *reason, uint8_t buf[WIRE_REFUSAL_MAX_BYTES])
{
    struct wire_refusal refusal = {.version = WIRE_VERSION,
                                   .status = (uint8_t)error_exit_status(reason->class)};
    size_t hint = strlen(reason->hint);
    bool hinted = hint > 0 && hint + 1 < WIRE_REFUSAL_MAX_TEXT / 2 + 20;
    int room = WIRE_REFUSAL_MAX_TEXT - (hinted ? (int)hint + 1 : 0);
    snprintf(refusal.text, sizeof refusal.text, "%.*s%s%.*s", room, reason->text,
             hinted ? "\n" : "", hinted ? (int)hint : 0, reason->hint);
    return wire_encode_refusal(&refusal, buf);
}
