/* SPDX-License-Identifier: MIT */
#include "json.h"
#include "../../lib/explain.h"
#include "printable.h"
#include <stdlib.h>

/* jansson takes no limit, so its allocator has one. It counts what was freed, too. */
static size_t left;

static void *take(size_t size)
{
    if (size > left)
        return NULL;
    left -= size;
    return malloc(size);
}

json_t *json_read(const uint8_t *text, size_t len, char *why)
{
    char reason[PRINTABLE_SIZE];
    json_error_t error = {.text = ""};

    left = 32 * len + (1 << 20);
    json_set_alloc_funcs(take, free);
    json_t *root = json_loadb((const char *)text, len, JSON_REJECT_DUPLICATES, &error);
    json_set_alloc_funcs(malloc, free);
    if (!root)
        explain(why, "its JSON is malformed, or takes too much memory: %s (byte %d)", printable(reason, error.text),
                error.position);
    return root;
}
