/* SPDX-License-Identifier: MIT
 *
 * network-relay is a link of bench/network/run that has latency: it takes the Ethernet frames of one TAP device and
 * puts them out on another after a delay. On the way back there is no delay. It ends by SIGTERM, or with its parent.
 *
 *   network-relay DELAY QUEUE NAMESPACE DEVICE NAMESPACE DEVICE
 *
 * DELAY is in nanoseconds. A way keeps at most about QUEUE bytes. Frames that find the queue full, or the
 * other device down, are dropped, and counted at the end. NAMESPACE is the file of a network namespace, DEVICE a TAP
 * device in it. "ready" on stdout says that frames travel. A TAP device has no offloads: frames have their checksums
 * and are not longer than the MTU.
 */
#include "../lib/explain.h"
#include "../lib/parse.h"
#include "../lib/program.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

/* The unit of a ring. A frame takes one record, and after it as many as its bytes need. */
typedef struct record {
    int64_t due; /* CLOCK_MONOTONIC, nanoseconds */
    size_t size; /* of the frame */
} record;

enum {
    MAX_FRAME = 2048,
    MAX_RECORDS = 1 + (MAX_FRAME + sizeof(record) - 1) / sizeof(record),
    TURN = 64, /* frames that one way takes before the other has its turn */
    SECOND = 1000000000
};

/* One of the two ways. Since all frames have the same delay, the first one that comes is the first one that goes. The
 * first record of a frame is where at least MAX_RECORDS follow without a break. */
typedef struct way {
    int from, to;
    int64_t delay;
    record *ring;
    size_t records, first, next; /* first: of the oldest frame; next: of the next one that comes */
    size_t frames;
    uint64_t dropped;
} way;

static volatile sig_atomic_t ended;

static void end(int number)
{
    (void)number;
    ended = 1;
}

static int64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * SECOND + t.tv_nsec;
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

/* Where the frame is that follows one of this size at this place. */
static size_t after(const way *w, size_t place, size_t size)
{
    place += 1 + (size + sizeof(record) - 1) / sizeof(record);
    return place + MAX_RECORDS > w->records ? 0 : place;
}

static bool full(const way *w)
{
    return w->frames && w->next <= w->first && w->first - w->next < MAX_RECORDS;
}

/* Takes the frames that have come. */
static bool take(way *w, char *why)
{
    static record dropped[MAX_RECORDS];

    for (int i = 0; i < TURN; i++) {
        record *r = full(w) ? dropped : w->ring + w->next;
        ssize_t size = read(w->from, r + 1, MAX_FRAME);

        if (size < 0)
            return errno == EAGAIN || explain(why, "a TAP device cannot be read: %s", strerror(errno));
        if (r == dropped) {
            w->dropped++;
            continue;
        }
        *r = (record){.due = now() + w->delay, .size = (size_t)size};
        w->next = after(w, w->next, r->size);
        w->frames++;
    }
    return true;
}

/* Puts out the frames that are due. */
static void give(way *w)
{
    while (w->frames && w->ring[w->first].due <= now()) {
        const record *r = w->ring + w->first;

        if (write(w->to, r + 1, r->size) != (ssize_t)r->size)
            w->dropped++;
        w->first = after(w, w->first, r->size);
        w->frames--;
    }
}

/* Sleeps until frames come or are due. */
static bool sleep_for(const way *ways, const sigset_t *mask, char *why)
{
    struct pollfd files[2] = {{.fd = ways[0].from, .events = POLLIN}, {.fd = ways[1].from, .events = POLLIN}};
    struct timespec timeout;
    int64_t left = INT64_MAX;

    for (int i = 0; i < 2; i++) {
        int64_t own = ways[i].frames ? ways[i].ring[ways[i].first].due - now() : INT64_MAX;

        left = own < 0 ? 0 : own < left ? own : left;
    }
    timeout = (struct timespec){.tv_sec = (time_t)(left / SECOND), .tv_nsec = (long)(left % SECOND)};
    if (ppoll(files, 2, left == INT64_MAX ? NULL : &timeout, mask) < 0 && errno != EINTR)
        return explain(why, "ppoll: %s", strerror(errno));
    return true;
}

static bool relay(way *ways, const sigset_t *mask, char *why)
{
    while (!ended) {
        if (!sleep_for(ways, mask, why))
            return false;
        for (int i = 0; i < 2; i++) {
            if (!take(&ways[i], why))
                return false;
            give(&ways[i]);
        }
    }
    return true;
}

/* ---- setting up -------------------------------------------------------------------------------------------------- */

/* Returns the file of a TAP device; below 0: it cannot be opened. */
static int open_tap(const char *place, const char *device, char *why)
{
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    int room = open(place, O_RDONLY | O_CLOEXEC), tap;

    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", device);
    if (room < 0 || setns(room, CLONE_NEWNET)) {
        explain(why, "%s: %s", place, strerror(errno));
        return -1;
    }
    close(room);
    tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (tap < 0 || ioctl(tap, TUNSETIFF, &request)) {
        explain(why, "%s: %s: %s", tap < 0 ? "/dev/net/tun" : place, device, strerror(errno));
        return -1;
    }
    return tap;
}

static bool open_ways(char **arguments, way *ways, char *why)
{
    uint64_t delay, queue;
    char reason[WHY_SIZE];
    int taps[2];

    if (!parse_number(arguments[0], 0, INT64_MAX / 2, &delay, reason))
        return explain(why, "delay %s: %.4000s", arguments[0], reason);
    if (!parse_number(arguments[1], 0, SIZE_MAX / 2, &queue, reason))
        return explain(why, "queue %s: %.4000s", arguments[1], reason);
    for (int i = 0; i < 2; i++)
        if ((taps[i] = open_tap(arguments[2 + 2 * i], arguments[3 + 2 * i], why)) < 0)
            return false;
    for (int i = 0; i < 2; i++) {
        ways[i] = (way){.from = taps[i], .to = taps[1 - i], .delay = i ? 0 : (int64_t)delay};
        ways[i].records = (size_t)queue / sizeof(record) + 2 * MAX_RECORDS;
        if (!(ways[i].ring = malloc(ways[i].records * sizeof(record))))
            return explain(why, "not enough memory for a queue of %s bytes", arguments[1]);
    }
    return true;
}

/* Wakes up in time, also where all cores are busy, if it may. Ends with its parent. mask: while it waits. */
static void prepare(sigset_t *mask)
{
    const struct sigaction action = {.sa_handler = end};
    const struct sched_param first = {.sched_priority = 1};
    sigset_t blocked;

    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigprocmask(SIG_BLOCK, &blocked, mask);
    sigdelset(mask, SIGTERM);
    sigaction(SIGTERM, &action, NULL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    prctl(PR_SET_TIMERSLACK, 1);
    sched_setscheduler(0, SCHED_FIFO, &first);
}

int main(int argc, char **argv)
{
    const char *name = "network-relay";
    char why[WHY_SIZE] = "";
    way ways[2] = {{0}};
    sigset_t mask;
    bool ok;

    if (argc != 7)
        return program_fail(name, EXIT_USAGE,
                            "DELAY QUEUE NAMESPACE DEVICE NAMESPACE DEVICE; bench/network/run runs it");
    prepare(&mask);
    ok = open_ways(argv + 1, ways, why);
    if (ok) {
        puts("ready");
        fflush(stdout);
        ok = relay(ways, &mask, why);
    }
    for (int i = 0; i < 2; i++) {
        if (ways[i].dropped)
            fprintf(stderr, "%s: %llu frames of %s were dropped\n", name, (unsigned long long)ways[i].dropped,
                    argv[4 + 2 * i]);
        free(ways[i].ring);
    }
    return ok ? 0 : program_fail(name, EXIT_FAILED, why);
}
