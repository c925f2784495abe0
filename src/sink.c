#include "config.h"

#include "sink.h"

#include <string.h>

static int refuse_name(const struct sink *sink, const char *name, struct error *err)
{
    char masked[128];
    strncpy(masked, name, sizeof masked - 1);
    masked[sizeof masked - 1] = '\0';
    error_mask(masked);
    error_set(err, ERROR_UNAVAILABLE, STAGE_OPEN, NULL,
              "the server's %s takes no object name, and '%s' was named", sink->ops->kind, masked);
    return error_hint(err, "leave the name out: HOST[:PORT]");
}

int sink_refuse_extras(const struct sink *sink, const struct sink_request *request,
                       struct error *err)
{
    if (request->name[0])
        return refuse_name(sink, request->name, err);
    if (request->resume && !sink->ops->kept) {
        error_set(err, ERROR_UNAVAILABLE, STAGE_OPEN, NULL,
                  "the server's %s keeps nothing to resume from", sink->ops->kind);
        return error_hint(err, "leave out --resume, or serve a FILE or DIR");
    }
    return 0;
}

int sink_refuse_sync(const struct sink *sink, struct error *err)
{
    error_set(err, ERROR_UNAVAILABLE, STAGE_OPEN, NULL,
              "the server's %s keeps nothing on stable storage", sink->ops->kind);
    return error_hint(err, "leave out --sync, or serve a FILE, DIR or --region with --dump");
}
