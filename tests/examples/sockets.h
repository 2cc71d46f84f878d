/* SPDX-License-Identifier: MIT
 *
 * Messages between processes, each of which is connected to each other one. Here pairs of sockets connect them; TCP
 * connections between machines do as well.
 */
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <threelc/threelc.h>

enum { RANKS = 3, PATIENCE = 60000 /* ms */ };
static int connection[RANKS]; /* to each rank; -1: one's own */
static void *inbox[RANKS];
static size_t largest; /* bytes of a message, and of an inbox */

static void need(int fine)
{
    if (!fine)
        exit(1);
}

/* A message on its way, after 8 bytes with its length, the lowest byte first. */
typedef struct transfer {
    unsigned char head[8];
    size_t done; /* bytes, with those of head */
    uint64_t len;
} transfer;

static int is_done(const transfer *t)
{
    return t->done >= 8 && t->done - 8 == t->len;
}

static void send_more(int fd, transfer *t, const void *message)
{
    const int in_head = t->done < 8;
    const void *from = in_head ? t->head + t->done : (const unsigned char *)message + (t->done - 8);
    ssize_t sent = send(fd, from, in_head ? 8 - t->done : t->len - (t->done - 8), MSG_DONTWAIT | MSG_NOSIGNAL);

    need(sent > 0);
    t->done += (size_t)sent;
}

static void receive_more(int fd, transfer *t, void *message)
{
    const int in_head = t->done < 8;
    void *to = in_head ? t->head + t->done : (unsigned char *)message + (t->done - 8);
    ssize_t came = recv(fd, to, in_head ? 8 - t->done : t->len - (t->done - 8), MSG_DONTWAIT);

    need(came > 0); /* 0: the other one has ended */
    t->done += (size_t)came;
    for (int i = 0; in_head && t->done == 8 && i < 8; i++)
        t->len |= (uint64_t)t->head[i] << 8 * i;
    need(t->len <= largest); /* whoever sent it */
}

/* Sends to[i] to rank i and receives from[i], all at once. If all ranks would send before they receive, all would wait
 * for ever, as soon as messages are larger than what the system keeps on the way. */
static void carry(const tlc_message *to, tlc_message *from)
{
    transfer out[RANKS], in[RANKS];
    struct pollfd polls[RANKS];

    memset(out, 0, sizeof out);
    memset(in, 0, sizeof in);
    for (int i = 0; i < RANKS; i++) {
        out[i].len = to[i].len;
        for (int b = 0; b < 8; b++)
            out[i].head[b] = (unsigned char)(out[i].len >> 8 * b);
    }
    for (;;) {
        int under_way = 0;
        for (int i = 0; i < RANKS; i++) {
            const int events = (is_done(&out[i]) ? 0 : POLLOUT) | (is_done(&in[i]) ? 0 : POLLIN);
            polls[i].fd = events ? connection[i] : -1;
            polls[i].events = (short)events;
            under_way |= polls[i].fd >= 0;
        }
        if (!under_way)
            break;
        need(poll(polls, RANKS, PATIENCE) > 0);
        for (int i = 0; i < RANKS; i++) {
            if (polls[i].revents & POLLOUT)
                send_more(connection[i], &out[i], to[i].data);
            if (polls[i].revents & ~POLLOUT) /* an end or an error shows here, too */
                receive_more(connection[i], &in[i], inbox[i]);
        }
    }
    for (int i = 0; i < RANKS; i++) {
        from[i].data = inbox[i];
        from[i].len = (size_t)in[i].len;
        if (connection[i] < 0)
            from[i] = to[i];
    }
}

/* Starts the other ranks. Returns which one this is. */
static int start(void)
{
    int ends[RANKS][RANKS], rank = 0;

    for (int i = 0; i < RANKS; i++)
        for (int j = 0; j < i; j++) {
            int pair[2];
            need(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
            ends[i][j] = pair[0];
            ends[j][i] = pair[1];
        }
    for (int i = 1; i < RANKS && !rank; i++)
        rank = fork() ? 0 : i;
    for (int i = 0; i < RANKS; i++)
        for (int j = 0; j < RANKS; j++)
            if (i == rank)
                connection[j] = j == rank ? -1 : ends[i][j];
            else if (i != j)
                close(ends[i][j]);
    return rank;
}
