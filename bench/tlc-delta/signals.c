/* SPDX-License-Identifier: MIT */
#include "signals.h"
#include "../lib/explain.h"
#include "../lib/program.h"
#include <signal.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t caught;

static void stop(int number)
{
    caught = number;
}

static void bus_error(int number)
{
    static const char line[] = "tlc-delta: a file became shorter while it was read, or its disk is full or broken\n";

    (void)number;
    (void)!write(STDERR_FILENO, line, sizeof line - 1);
    _exit(EXIT_FAILED);
}

void signals_catch(void)
{
    const struct sigaction stopped = {.sa_handler = stop, .sa_flags = (int)SA_RESETHAND};
    const struct sigaction broken = {.sa_handler = bus_error}, ignored = {.sa_handler = SIG_IGN};

    sigaction(SIGINT, &stopped, NULL);
    sigaction(SIGTERM, &stopped, NULL);
    sigaction(SIGHUP, &stopped, NULL);
    sigaction(SIGXFSZ, &ignored, NULL);
    sigaction(SIGBUS, &broken, NULL);
}

bool signals_stop(char *why)
{
    if (caught)
        explain(why, "stopped by a signal (%s)", strsignal(caught));
    return caught;
}
