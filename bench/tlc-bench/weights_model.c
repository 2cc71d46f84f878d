/* SPDX-License-Identifier: MIT */
#include "weights_model.h"
#include "../lib/explain.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static bool is_safetensors(const char *name)
{
    static const char end[] = ".safetensors";
    const size_t len = strlen(name);

    return len >= sizeof end && !strcmp(name + len - (sizeof end - 1), end);
}

bool weights_is_model(const char *path)
{
    DIR *folder = opendir(path);
    bool found = !folder && is_safetensors(path);

    for (const struct dirent *e; folder && !found && (e = readdir(folder));)
        found = is_safetensors(e->d_name);
    if (folder)
        (void)closedir(folder);
    return found;
}

#if HAS_MODELS
#include "../tlc-delta/models/model.h"

static bool is_tensor(const model_entry *e)
{
    return e->tensor != MODEL_REST;
}

/* The dtype that most weights have; of several the first. Integers of 32 and 64 bits, and f64, are counters. */
static tlc_dtype most_weights(const model *m)
{
    uint64_t count[TLC_F64 + 1] = {0};
    tlc_dtype most = TLC_F32;

    for (size_t i = 0; i < m->count; i++)
        if (is_tensor(&m->entries[i])) {
            const layout_tensor t = model_tensor(m, &m->entries[i]);
            count[t.dtype] += t.n;
        }
    for (tlc_dtype d = TLC_F32; d <= TLC_U4; d = (tlc_dtype)(d + 1))
        most = count[d] > count[most] ? d : most;
    return most;
}

static bool load_entry(source *s, const model *m, const model_entry *e, char *why)
{
    const layout_tensor from = model_tensor(m, e);
    char *path = strdup(e->name);
    tensor *to;

    if (from.dtype != s->dtype || !from.n) {
        if (from.n)
            source_leave_out(s, e->name, dtype_name(from.dtype));
        free(path);
        return true;
    }
    to = path ? source_add_tensor(s, path) : NULL;
    if (!to)
        return explain(why, "out of memory");
    to->name = strdup(e->name);
    to->n = (size_t)from.n;
    to->steps = 1;
    if (!to->name || !tensor_allocate(to, s->dtype))
        return explain(why, "%s: is too large for the memory", e->name);
    model_load(m, e, to->data);
    model_release(m, e);
    s->values += to->n;
    return true;
}

bool weights_load_model(source *s, const char *path, char *why)
{
    bool ok = true;
    model m;

    if (!model_open(&m, path, NULL, why))
        return false;
    s->dtype = most_weights(&m);
    s->steps = 1;
    for (size_t i = 0; ok && i < m.count; i++)
        ok = !is_tensor(&m.entries[i]) || load_entry(s, &m, &m.entries[i], why);
    model_close(&m);
    return ok && (s->count || explain(why, "%s: has no weights", path));
}
#else
bool weights_load_model(source *s, const char *path, char *why)
{
    (void)s;
    return explain(why, "%s: this build reads no .safetensors files: jansson was not found", path);
}
#endif
