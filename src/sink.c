#include "config.h"

#include "sink.h"

#include <string.h>

int sink_refuse_name(const struct sink *sink, const char *name, struct error *err)
{
    char masked[128];
    strncpy(masked, name, sizeof masked - 1);
    masked[sizeof masked - 1] = '\0';
    error_mask(masked);
    error_set(err, ERROR_UNAVAILABLE, STAGE_OPEN, NULL,
              "the server's %s takes no object name, and '%s' was named", sink->ops->kind, masked);
    return error_hint(err, "leave the name out: HOST[:PORT]");
}
