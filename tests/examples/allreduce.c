/* SPDX-License-Identifier: MIT
 *
 * An all-reduce between processes, without MPI: each is connected to each other one. Here pairs of sockets connect
 * them; TCP connections between machines do as well.
 */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <threelc/exchange.h>

enum { RANKS = 3, WEIGHTS = 99000, BIAS = 1000, N = WEIGHTS + BIAS, PATIENCE = 60000 /* ms */ };
static float model[N], grad[N];
static int connection[RANKS]; /* to each rank; -1: one's own */
static unsigned char *inbox[RANKS];
static size_t largest; /* message */

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

static void send_more(int fd, transfer *t, const unsigned char *message)
{
    const int in_head = t->done < 8;
    const void *from = in_head ? t->head + t->done : message + (t->done - 8);
    ssize_t sent = send(fd, from, in_head ? 8 - t->done : t->len - (t->done - 8), MSG_DONTWAIT | MSG_NOSIGNAL);

    need(sent > 0);
    t->done += (size_t)sent;
}

static void receive_more(int fd, transfer *t, unsigned char *message)
{
    const int in_head = t->done < 8;
    void *to = in_head ? t->head + t->done : message + (t->done - 8);
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
    transfer out[RANKS] = {0}, in[RANKS] = {0};
    struct pollfd polls[RANKS];

    for (int i = 0; i < RANKS; i++) {
        out[i].len = to[i].len;
        for (int b = 0; b < 8; b++)
            out[i].head[b] = (unsigned char)(out[i].len >> 8 * b);
    }
    for (;;) {
        int under_way = 0;
        for (int i = 0; i < RANKS; i++) {
            const int events = (is_done(&out[i]) ? 0 : POLLOUT) | (is_done(&in[i]) ? 0 : POLLIN);
            polls[i] = (struct pollfd){events ? connection[i] : -1, (short)events, 0};
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
    for (int i = 0; i < RANKS; i++)
        from[i] = connection[i] < 0 ? to[i] : (tlc_message){inbox[i], (size_t)in[i].len};
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

int main(void)
{
    tlc_message to[RANKS], from[RANKS], answer;
    tlc_exchange_stats stats;
    tlc_exchange_config cfg;
    tlc_allreduce *object;
    tlc_tensor tensors[2];
    void *parts[2]; /* of grad */
    const int rank = start();

    tlc_exchange_stats_init(&stats, sizeof stats);
    for (int t = 0; t < 2; t++) {
        tlc_tensor_init(&tensors[t], sizeof tensors[t]);
        tensors[t].name = t ? "bias" : "weights";
        tensors[t].n = t ? BIAS : WEIGHTS;
    }
    need(!tlc_tensor_pointers(grad, TLC_F32, tensors, 2, parts));
    tlc_exchange_config_init(&cfg, sizeof cfg); /* 3lc in both directions */
    cfg.workers = RANKS;
    need(!tlc_allreduce_create(&object, &cfg, (uint32_t)rank, tensors, 2));
    largest = tlc_allreduce_message_bound(object);
    for (int i = 0; i < RANKS; i++)
        need((inbox[i] = malloc(largest)) != NULL);
    for (int step = 1; step <= 40; step++) {
        for (int i = 0; i < N; i++) /* your gradient; here ranks want different weights */
            grad[i] = model[i] - (float)(i % 1009 + (rank - 1) * (i % 7)) / 512;
        need(!tlc_allreduce_push(object, (const void *const *)parts, 1, to));
        carry(to, from);
        need(!tlc_allreduce_reduce(object, from, &answer)); /* the mean of the parts that this rank owns */
        for (int i = 0; i < RANKS; i++)
            to[i] = answer;
        carry(to, from);
        need(!tlc_allreduce_pull(object, from, parts));
        for (int i = 0; i < N; i++) /* on all ranks, with the same bits */
            model[i] -= 0.25f / (float)(1 << step / 10) * grad[i];
        if (rank == 0 && step % 10 == 0 && !tlc_allreduce_stats(object, &stats))
            printf("step %d: weight 768 is %.3f, %d bytes were sent\n", step, model[768], (int)stats.sent);
    }
    tlc_allreduce_destroy(object);
    for (int i = 0; i < RANKS; i++)
        free(inbox[i]);
    for (int i = 1, status = 0; rank == 0 && i < RANKS; i++)
        need(wait(&status) > 0 && !status);
    return 0;
}
