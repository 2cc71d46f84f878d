/* SPDX-License-Identifier: MIT */
#include "runs.h"
#include "codecs.h"
#include "explain.h"
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- finding ---------------------------------------------------------------------------------------------------- */

/* NAN if it is not the name of a run. */
static double scale_of_name(const char *name)
{
    const char *dash = strrchr(name, '-');
    char *end;
    double s;

    if (!dash || dash[1] != 's' || dash[2] < '0' || dash[2] > '9')
        return NAN;
    s = strtod(dash + 2, &end);
    return *end ? NAN : s;
}

static bool add_run(run_list *runs, const char *folder, const char *name, char *why)
{
    size_t at = runs->count, size = strlen(folder) + strlen(name) + 2;
    double s = scale_of_name(name);
    struct stat st;
    char *path = malloc(size);

    if (!path)
        return explain(why, "%s: out of memory", folder);
    snprintf(path, size, "%s%s%s", folder, folder[strlen(folder) - 1] == '/' ? "" : "/", name);
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
        free(path);
        return true;
    }
    if (runs->count == MAX_RUNS) {
        free(path);
        return explain(why, "%s: there are more than %d runs in it", folder, MAX_RUNS);
    }
    for (; at && runs->s[at - 1] > s; at--) {
        runs->s[at] = runs->s[at - 1];
        runs->paths[at] = runs->paths[at - 1];
    }
    runs->s[at] = s;
    runs->paths[at] = path;
    runs->count++;
    if (at && runs->s[at - 1] == s)
        return explain(why, "%s: two runs have s = %g, %s and %s; name one of them", folder, s, runs->paths[at - 1],
                       path);
    return true;
}

static bool has_gradients(DIR *dir)
{
    bool has = false;

    for (const struct dirent *e; !has && (e = readdir(dir));)
        has = source_is_values(e->d_name);
    rewinddir(dir);
    return has;
}

bool runs_find(run_list *runs, const char *folder, char *why)
{
    DIR *dir = opendir(folder);
    bool ok = true;

    *runs = (run_list){.count = 0};
    if (!dir)
        return true;
    if (!has_gradients(dir)) {
        for (const struct dirent *e; ok && (e = readdir(dir));)
            ok = isnan(scale_of_name(e->d_name)) || add_run(runs, folder, e->d_name, why);
    }
    closedir(dir);
    if (!ok)
        runs_free(runs);
    return ok;
}

void runs_free(run_list *runs)
{
    for (size_t i = 0; i < runs->count; i++)
        free(runs->paths[i]);
    runs->count = 0;
}

/* ---- loading ---------------------------------------------------------------------------------------------------- */

static bool check_same_tensors(const source *a, const source *b, char *why)
{
    bool same = a->count == b->count && a->steps == b->steps;

    for (size_t i = 0; same && i < a->count; i++)
        same = !strcmp(a->tensors[i].name, b->tensors[i].name) && a->tensors[i].n == b->tensors[i].n;
    return same || explain(why, "%s and %s do not have the same tensors and steps; name one of them", a->run, b->run);
}

bool runs_load(const run_list *runs, source *sources, const source_options *options, char *why)
{
    for (size_t i = 0; i < runs->count; i++) {
        const char *slash = strrchr(runs->paths[i], '/');
        if (!source_load(&sources[i], &runs->paths[i], 1, options, why))
            return false;
        sources[i].s = runs->s[i];
        sources[i].run = strdup(slash ? slash + 1 : runs->paths[i]);
        if (!sources[i].run)
            return explain(why, "out of memory");
        if (!check_same_tensors(&sources[0], &sources[i], why))
            return false;
    }
    return true;
}

/* ---- choosing --------------------------------------------------------------------------------------------------- */

size_t runs_choose(const source *sources, size_t count, const char *codec, bool *own)
{
    double s = codec_scale(codec);

    for (size_t i = 0; i < count; i++) {
        *own = fabs(sources[i].s - s) < 1e-6;
        if (*own)
            return i;
    }
    return 0;
}
