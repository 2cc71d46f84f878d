/* SPDX-License-Identifier: MIT */
#include "run.h"
#include "../lib/explain.h"
#include "../lib/program.h"
#include "models/printable.h"
#include "signals.h"
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

bool run_goes_on(const run *r, uint64_t done, uint64_t count, const char *name, const char *what, char *why)
{
    char text[PRINTABLE_SIZE];

    if (!r->quiet && isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K%s: [%" PRIu64 " of %" PRIu64 "] %.60s", what, done + 1, count, printable(text, name));
    return !signals_stop(why);
}

void run_done(const run *r)
{
    program_progress_end(r->quiet);
}

tlc_delta_options run_options(const run *r, char *message)
{
    tlc_delta_options options;

    (void)tlc_delta_options_init(&options, sizeof options);
    options.parallel = r->parallel;
    options.message = message;
    options.message_cap = TLC_MESSAGE_SIZE;
    options.block_digests = r->block_digests;
    return options;
}

bool buffer_reserve(buffer *b, uint64_t size, char *why)
{
    if (size < b->size)
        return true;
    free(b->bytes);
    b->bytes = size < SIZE_MAX ? malloc((size_t)size + 1) : NULL;
    b->size = b->bytes ? (size_t)size + 1 : 0;
    return b->bytes || explain(why, "no memory for a tensor of %" PRIu64 " bytes", size);
}

void buffer_free(buffer *b)
{
    free(b->bytes);
    *b = (buffer){.size = 0};
}
