/* SPDX-License-Identifier: MIT */
#include "saved.h"
#include "../lib/disk.h"
#include "../lib/explain.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_SIZE = 40, PATH_SIZE = WHY_SIZE / 2 };

static const char again[] = "again";

static void name_of(char *name, const saved_step *s)
{
    snprintf(name, NAME_SIZE, "step-%08" PRIu64 "%s%s", s->step, s->again ? "-" : "", s->again ? again : "");
}

static void folder_of(char *path, const char *folder, const saved_step *s)
{
    char name[NAME_SIZE];

    name_of(name, s);
    snprintf(path, PATH_SIZE, "%s/%s", folder, name);
}

void saved_file(char *path, size_t size, const char *folder, const saved_step *s, int rank)
{
    char step[PATH_SIZE];

    folder_of(step, folder, s);
    snprintf(path, size, "%s/rank-%d", step, rank);
}

/* ---- latest ------------------------------------------------------------------------------------------------------ */

static void path_of_latest(char *path, const char *folder)
{
    snprintf(path, PATH_SIZE, "%s/latest", folder);
}

bool saved_read(const char *folder, saved_step *s)
{
    char path[PATH_SIZE], line[64] = "", *end = line;

    *s = (saved_step){.step = 0};
    path_of_latest(path, folder);
    FILE *f = fopen(path, "r");
    if (!f)
        return false;
    if (fgets(line, sizeof line, f)) {
        s->step = strtoull(line, &end, 10);
        const long count = strtol(end, &end, 10);
        s->ranks = count < 1 || count > SAVED_RANKS_MAX ? 0 : (int)count;
        s->again = strstr(end, again) != NULL;
    }
    fclose(f);
    return end > line && s->ranks > 0;
}

static bool write_latest(const char *folder, const saved_step *s, char *why)
{
    char path[PATH_SIZE], part[WHY_SIZE];

    path_of_latest(path, folder);
    snprintf(part, sizeof part, "%s.part", path);
    FILE *f = fopen(part, "w");
    if (f && fprintf(f, "%" PRIu64 " %d%s%s\n", s->step, s->ranks, s->again ? " " : "", s->again ? again : "") > 0)
        return disk_take_place(f, part, path) || explain(why, "%s: %s", path, strerror(errno));
    explain(why, "%s: %s", path, strerror(errno));
    if (f)
        fclose(f);
    return false;
}

/* ---- what is removed --------------------------------------------------------------------------------------------- */

/* Is it the name of a step's folder? */
static bool is_step(const char *name)
{
    static const char start[] = "step-";
    const char *at = name + sizeof start - 1;

    if (strncmp(name, start, sizeof start - 1) != 0 || !isdigit((unsigned char)*at))
        return false;
    while (isdigit((unsigned char)*at))
        at++;
    return !*at || (*at == '-' && !strcmp(at + 1, again));
}

/* Removes the files of ranks, and the folder if there are no others. */
static void remove_step(const char *path)
{
    char file[WHY_SIZE];
    const struct dirent *d;
    DIR *dir = opendir(path);

    while (dir && (d = readdir(dir)))
        if (!strncmp(d->d_name, "rank-", 5)) {
            snprintf(file, sizeof file, "%s/%s", path, d->d_name);
            unlink(file);
        }
    if (dir)
        closedir(dir);
    rmdir(path);
}

void saved_clean(const char *folder, const saved_step *s)
{
    char path[WHY_SIZE], latest[PATH_SIZE], name[NAME_SIZE];
    const struct dirent *d;
    DIR *dir = opendir(folder);

    name_of(name, s);
    while (dir && (d = readdir(dir)))
        if (is_step(d->d_name) && strcmp(d->d_name, name) != 0) {
            snprintf(path, sizeof path, "%s/%s", folder, d->d_name);
            remove_step(path);
        }
    if (dir)
        closedir(dir);
    path_of_latest(latest, folder);
    snprintf(path, sizeof path, "%s.part", latest);
    unlink(path);
}

/* ---- a new step -------------------------------------------------------------------------------------------------- */

static bool make_folder(const char *path, char *why)
{
    return ((!mkdir(path, 0777) || errno == EEXIST) && disk_sync_parent(path)) ||
           explain(why, "%s: %s", path, strerror(errno));
}

bool saved_begin(const char *folder, const saved_step *s, char *why)
{
    char path[PATH_SIZE];

    folder_of(path, folder, s);
    remove_step(path);
    return make_folder(folder, why) && make_folder(path, why);
}

bool saved_end(const char *folder, const saved_step *s, char *why)
{
    if (!write_latest(folder, s, why))
        return false;
    saved_clean(folder, s);
    return true;
}
