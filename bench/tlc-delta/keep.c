/* SPDX-License-Identifier: MIT */
#include "keep.h"
#include "../lib/disk.h"
#include "../lib/explain.h"
#include "make.h"
#include "models/printable.h"
#include "signals.h"
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FILES_OPEN = 16 }; /* while a folder is walked */

/* ---- which checkpoints are there --------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
    const size_t len = strlen(text), end_len = strlen(end);

    return len > end_len && !strcmp(text + len - end_len, end);
}

/* Files of a folder of checkpoints are checkpoints if they are .safetensors; whether others are folders shows later. */
static int may_be_checkpoint(const struct dirent *d)
{
    if (d->d_name[0] == '.' || ends_with(d->d_name, ".part"))
        return 0;
    return d->d_type != DT_REG || ends_with(d->d_name, ".safetensors");
}

static bool join(char path[PATH_MAX], const char *folder, const char *name, const char *end, char *why)
{
    char text[PRINTABLE_SIZE];

    return snprintf(path, PATH_MAX, "%s/%s%s", folder, name, end) < PATH_MAX ||
           explain(why, "%s: its path is too long", printable(text, name));
}

static time_t newest; /* nftw passes nothing on */

static int see_change(const char *path, const struct stat *st, int type, struct FTW *place)
{
    (void)path;
    (void)type;
    (void)place;
    newest = st->st_mtime > newest ? st->st_mtime : newest;
    newest = st->st_ctime > newest ? st->st_ctime : newest;
    return 0;
}

/* Whether nothing in a checkpoint has changed for some time. Times of files may be ahead of time(), by a tick of the
 * kernel or as the clock was set back: for 0 s they are not asked. */
static bool is_settled(const char *path, double settle)
{
    newest = 0;
    if (settle <= 0)
        return true;
    return nftw(path, see_change, FILES_OPEN, FTW_PHYS) == 0 && difftime(time(NULL), newest) >= settle;
}

static int is_safetensors(const struct dirent *d)
{
    return d->d_name[0] != '.' && ends_with(d->d_name, ".safetensors");
}

static void free_names(struct dirent **names, int count)
{
    for (int i = 0; i < count; i++)
        free(names[i]);
    free(names);
}

/* A .safetensors file, or a folder with one. */
static bool is_checkpoint(const char *path)
{
    struct dirent **names;
    struct stat st;

    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return ends_with(path, ".safetensors");
    const int count = scandir(path, &names, is_safetensors, alphasort);
    if (count >= 0)
        free_names(names, count);
    return count > 0;
}

/* ---- one checkpoint ---------------------------------------------------------------------------------------------- */

typedef struct keeping {
    const run *run;
    const keep_options *options;
    char last[NAME_MAX + 1];   /* the checkpoint of the newest message; or empty */
    char failed[NAME_MAX + 1]; /* the newest one of which no message can be made */
    time_t failed_at;          /* when it had changed */
    bool ok;                   /* none has failed */
} keeping;

/* Writes the message of a checkpoint, and how to come to it. */
static bool write_delta(const keeping *k, const char *name, const char *path, char *why)
{
    char base[PATH_MAX], after[PATH_MAX], out[PATH_MAX];
    const keep_options *o = k->options;
    make_result result;

    if (!join(base, o->folder, k->last, "", why) || !join(after, o->out, k->last, ".delta", why) ||
        !join(out, o->out, name, ".delta", why))
        return false;
    const bool has_base = *k->last && access(base, F_OK) == 0;
    const make_paths paths = {.base = has_base ? base : NULL,
                              .next = path,
                              .after = *k->last ? after : NULL,
                              .out = out};
    if (!make_delta(k->run, &paths, &result, why))
        return false;
    make_print(&paths, &result);
    printf("to catch up: tlc-delta apply %s %s%s%s\n", out, has_base ? k->last : "", has_base ? " " : "", name);
    fflush(stdout);
    return true;
}

/* Says it once. */
static void tell_failure(keeping *k, const char *name, const char *why)
{
    k->ok = false;
    if (!strcmp(k->failed, name) && k->failed_at == newest)
        return;
    snprintf(k->failed, sizeof k->failed, "%s", name);
    k->failed_at = newest;
    fprintf(stderr, "tlc-delta: no delta of %s: %s\n", name, why);
}

/* ---- all checkpoints --------------------------------------------------------------------------------------------- */

static int is_delta(const struct dirent *d)
{
    return d->d_name[0] != '.' && ends_with(d->d_name, ".delta");
}

static bool list(const char *folder, int (*wanted)(const struct dirent *), struct dirent ***names, int *count,
                 char *why)
{
    char text[PRINTABLE_SIZE];

    *count = scandir(folder, names, wanted, versionsort);
    return *count >= 0 || explain(why, "%s: %s", printable(text, folder), strerror(errno));
}

static bool find_last(keeping *k, char *why)
{
    struct dirent **names;
    int count;

    if (!list(k->options->out, is_delta, &names, &count, why))
        return false;
    if (count)
        snprintf(k->last, sizeof k->last, "%.*s", (int)(strlen(names[count - 1]->d_name) - strlen(".delta")),
                 names[count - 1]->d_name);
    free_names(names, count);
    return true;
}

/* Writes the messages of all new checkpoints that are complete. false: it cannot go on. */
static bool look(keeping *k, char *why)
{
    char path[PATH_MAX], reason[WHY_SIZE];
    struct dirent **names;
    int count;
    bool ok = find_last(k, why) && list(k->options->folder, may_be_checkpoint, &names, &count, why);

    if (!ok)
        return false;
    for (int i = 0; ok && i < count && !signals_stop(why); i++) {
        const char *name = names[i]->d_name;
        ok = join(path, k->options->folder, name, "", why);
        if (!ok || (*k->last && strverscmp(name, k->last) <= 0) || !is_checkpoint(path))
            continue;
        if (!is_settled(path, k->options->settle))
            break; /* those that follow are made of it */
        if (write_delta(k, name, path, reason))
            snprintf(k->last, sizeof k->last, "%s", name);
        else
            tell_failure(k, name, reason);
    }
    free_names(names, count);
    return ok;
}

static void wait_for(double seconds)
{
    const struct timespec time = {.tv_sec = (time_t)seconds,
                                  .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};

    (void)nanosleep(&time, NULL); /* a signal ends it */
}

bool keep_deltas(const run *r, const keep_options *o, char *why)
{
    char text[PRINTABLE_SIZE];
    keeping k = {.run = r, .options = o};

    if ((mkdir(o->out, 0777) != 0 && errno != EEXIST) || !disk_sync_parent(o->out))
        return explain(why, "%s: %s", printable(text, o->out), strerror(errno));
    do {
        k.ok = true;
        if (!look(&k, why))
            return false;
        if (!o->once)
            wait_for(o->settle);
    } while (!o->once && !signals_stop(why));
    return !o->once || k.ok || explain(why, "not all checkpoints have a delta");
}
