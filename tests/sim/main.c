/* SPDX-License-Identifier: MIT
 *
 * Plays seeds of the simulator: one, or many in several processes.
 */
#include "drivers.h"
#include "table.h"
#include <fenv.h>
#include <getopt.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_JOBS = 256, DIGESTED = 500 }; /* the digest is of the first 500 seeds */

typedef struct options {
    uint64_t first, seeds;
    int one, stop, tap; /* one: play `first` alone, and tell what happens; stop: at the first seed that fails */
    double seconds;
    size_t jobs;
    const char *digest; /* that the first DIGESTED seeds must have, or NULL */
} options;

/* A process and its seeds: first, first + jobs, ... */
typedef struct job {
    table table;
    uint64_t current;
} job;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- a seed ------------------------------------------------------------------------------------------------------ */

/* Plays the seed of r->sc. Returns 0 if a promise was broken. */
static int run_play(run *r, const play *p)
{
    r->play = *p;
    r->pieces = NULL;
    may_allocate(r, 0);
    r->task_runs = r->calls = 0;
    r->digest = r->results = 0;
    if (!setjmp(r->end)) {
        if (has_servers(&r->sc))
            run_servers(r);
        else if (r->sc.family == FAMILY_GOSSIP)
            run_gossip(r);
        else
            run_allreduce(r);
        must(r, E5, pieces_of_objects(r) == 0, "%zu pieces of objects were not freed", pieces_of_objects(r));
    }
    (void)fesetenv(FE_DFL_ENV); /* a run may end in the middle of a call */
    give_all(r);
    return !r->found->broken;
}

/* Whether who gets what depends on the order of arrival: a rank that dies may have answered a request before. */
static int depends_on_order(const scenario *sc)
{
    return sc->rate[FAULT_DEATH] && (sc->rate[FAULT_DROP] || sc->rate[FAULT_ALTER] || sc->rate[FAULT_CUT]);
}

/* E7: plays the seed again, with another order of arrival, other tasks and ISAs, and objects that are replaced by new
 * ones with their states. */
static void play_again(run *r)
{
    const play other = {mixed(r->sc.seed + 2), mixed(r->sc.seed + 3), 1};
    findings *first = r->found, second = {.steps = 0};
    uint64_t messages = r->digest, results = r->results;
    int verbose = r->verbose;

    r->found = &second;
    r->verbose = 0;
    if (run_play(r, &other) && !depends_on_order(&r->sc) && !r->raced &&
        (r->digest != messages || r->results != results)) {
        second.broken = 1;
        second.which = E7;
        snprintf(second.text, sizeof second.text, "other messages, results or states when played again");
    }
    for (int i = 0; i < PROMISES; i++)
        first->checks[i] += second.checks[i];
    first->checks[E7]++;
    first->broken = second.broken;
    first->which = second.which;
    memcpy(first->text, second.text, sizeof first->text);
    r->found = first;
    r->verbose = verbose;
    r->digest = messages;
}

/* One of four seeds is played again. */
static void play_seed(uint64_t seed, int verbose, int digested, table *t)
{
    static run r;
    findings found = {.steps = 0};
    const play usual = {mixed(seed), mixed(seed + 1), 0};

    memset(&r, 0, sizeof r);
    scenario_draw(&r.sc, seed);
    r.found = &found;
    r.verbose = verbose;
    if (verbose)
        scenario_print(&r.sc);
    if (run_play(&r, &usual) && (verbose || mixed(seed) % 4 == 0))
        play_again(&r);
    t->digest += digested && !found.broken ? mixed(r.digest) : 0;
    table_add(t, &r.sc, &found);
}

/* ---- many seeds -------------------------------------------------------------------------------------------------- */

static void play_job(const options *o, job *j, size_t number)
{
    double end = now() + o->seconds;

    for (uint64_t i = number; i < o->seeds; i += o->jobs) {
        j->current = o->first + i;
        play_seed(j->current, 0, i < DIGESTED, &j->table);
        if ((o->seconds > 0 && now() > end) || (o->stop && j->table.failures))
            return;
    }
}

/* A process that ended in the middle of a seed. */
static void add_crash(table *t, const job *j, int status)
{
    failure *f = &t->failure[t->failures < MOST_FAILURES ? t->failures++ : MOST_FAILURES - 1];

    t->breaks[E3]++;
    t->broken[0][0]++;
    *f = (failure){.seed = j->current, .which = E3};
    snprintf(f->text, sizeof f->text, "the process ended with status %d, signal %d",
             WIFEXITED(status) ? WEXITSTATUS(status) : 0, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

/* Plays all seeds in processes, so that one that crashes is found. */
static void play_all(const options *o, table *t)
{
    pid_t pid[MOST_JOBS];
    job *jobs = mmap(NULL, o->jobs * sizeof *jobs, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (jobs == MAP_FAILED) {
        perror("mmap");
        exit(2);
    }
    fflush(stdout);
    for (size_t i = 0; i < o->jobs; i++) {
        pid[i] = fork();
        if (pid[i] < 0) {
            perror("fork");
            exit(2);
        }
        if (!pid[i]) {
            play_job(o, &jobs[i], i);
            exit(0);
        }
    }
    for (size_t i = 0; i < o->jobs; i++) {
        int status = 0;
        if (waitpid(pid[i], &status, 0) < 0) {
            perror("waitpid");
            exit(2);
        }
        table_merge(t, &jobs[i].table);
        if (status)
            add_crash(t, &jobs[i], status);
    }
    munmap(jobs, o->jobs * sizeof *jobs);
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static _Noreturn void usage(void)
{
    fprintf(stderr, "usage: exchange-sim --seed S\n"
                    "       exchange-sim --seeds N [--first S] [--seconds T] [--jobs J] [--stop] [--digest D] [--tap]\n"
                    "--stop: at the first seed that fails\n"
                    "--digest: what the first 500 seeds must give. It is not compared if fewer are played\n"
                    "--tap: fewer seeds if TLC_TEST_QUICK is set\n");
    exit(2);
}

static uint64_t number(const char *text)
{
    char *end;
    uint64_t n = strtoull(text, &end, 0);

    if (!*text || *end || *text == '-')
        usage();
    return n;
}

static options parse(int argc, char **argv)
{
    static const struct option known[] = {{"seed", required_argument, NULL, 's'},
                                          {"seeds", required_argument, NULL, 'n'},
                                          {"first", required_argument, NULL, 'f'},
                                          {"seconds", required_argument, NULL, 't'},
                                          {"jobs", required_argument, NULL, 'j'},
                                          {"digest", required_argument, NULL, 'd'},
                                          {"stop", no_argument, NULL, 'x'},
                                          {"tap", no_argument, NULL, 'p'},
                                          {NULL, 0, NULL, 0}};
    options o = {.first = 1, .jobs = 1};
    int c;

    while ((c = getopt_long(argc, argv, "", known, NULL)) != -1)
        switch (c) {
        case 's':
            o.one = 1;
            o.first = number(optarg);
            break;
        case 'n': o.seeds = number(optarg); break;
        case 'f': o.first = number(optarg); break;
        case 't': o.seconds = (double)number(optarg); break;
        case 'j': o.jobs = (size_t)number(optarg); break;
        case 'd': o.digest = optarg; break;
        case 'p': o.tap = 1; break;
        case 'x': o.stop = 1; break;
        default: usage();
        }
    if (optind < argc || !o.jobs || o.jobs > MOST_JOBS || (!o.one && !o.seeds && o.seconds <= 0))
        usage();
    if (!o.seeds)
        o.seeds = UINT64_MAX;
    if (o.tap && quick() && o.seeds > DIGESTED)
        o.seeds = DIGESTED;
    return o;
}

int main(int argc, char **argv)
{
    static table t;
    options o = parse(argc, argv);
    double begin = now();
    char text[32];
    int played_all;

    if (o.one)
        play_seed(o.first, 1, 1, &t);
    else
        play_all(&o, &t);
    snprintf(text, sizeof text, "%016llx", (unsigned long long)t.digest);
    played_all = o.seeds >= DIGESTED && table_seeds(&t) == o.seeds;
    if (o.digest && played_all && !table_breaks(&t) && strcmp(text, o.digest) != 0) {
        printf("# another digest: %s\n", text);
        t.breaks[E7]++;
    }
    if (o.tap)
        table_print_tap(&t);
    else if (!o.one)
        table_print(&t, now() - begin);
    else
        for (size_t i = 0; i < t.failures; i++)
            printf("seed %llu breaks %s: %s\n", (unsigned long long)o.first, promise_names[t.failure[i].which],
                   t.failure[i].text);
    return table_breaks(&t) || t.breaks[E7];
}
