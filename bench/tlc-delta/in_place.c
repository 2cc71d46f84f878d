/* SPDX-License-Identifier: MIT */
#include "in_place.h"
#include "../lib/explain.h"
#include "patch.h"
#include "models/printable.h"
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* Maps a file of the next model, which has its length already. */
static bool map_file(model_file *file, const char *path, char *why)
{
    char text[PRINTABLE_SIZE], reason[WHY_SIZE];

    if (!mapped_open(&file->map, path, true, reason))
        return explain(why, "%s: %.1000s", printable(text, path), reason);
    return file->map.size == file->size ||
           explain(why, "%s: it has %" PRIu64 " bytes, and after the delta %" PRIu64 ": apply it without --in-place",
                   printable(text, path), file->map.size, file->size);
}

static bool map_files(model *m, const char *files, char *why)
{
    char path[PATH_MAX], text[PRINTABLE_SIZE];
    struct stat st;

    if (stat(files, &st) != 0)
        return explain(why, "%s: %s", printable(text, files), strerror(errno));
    if (S_ISDIR(st.st_mode) != m->is_folder)
        return explain(why, "%s: the delta is for a %s", printable(text, files), m->is_folder ? "folder" : "file");
    for (size_t i = 0; i < m->file_count; i++) {
        if (m->is_folder && snprintf(path, sizeof path, "%s/%s", files, m->files[i].path) >= (int)sizeof path)
            return explain(why, "%s: its path is too long", printable(text, files));
        if (!map_file(&m->files[i], m->is_folder ? path : files, why))
            return false;
    }
    return true;
}

static bool sync_files(const model *m, char *why)
{
    for (size_t i = 0; i < m->file_count; i++) {
        const mapped_file *map = &m->files[i].map;
        if (map->size && msync(map->bytes, (size_t)map->size, MS_SYNC) != 0)
            return explain(why, "%s", strerror(errno));
    }
    return true;
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* Takes weights that are at the base, at the result or between them to the result. */
static bool bring(const patch *p, const tlc_weights_entry *e, const void *frame, uint8_t *weights, char *why)
{
    char message[TLC_MESSAGE_SIZE] = "", of_repair[TLC_MESSAGE_SIZE] = "";
    const tlc_delta_options options = run_options(p->run, message), repairing = run_options(p->run, of_repair);
    const size_t len = (size_t)e->frame_len, n = (size_t)e->n;
    uint64_t digest = 0;

    tlc_status status = tlc_delta_apply(frame, len, e->dtype, weights, n, &options);
    if (status != TLC_ERR_BASE)
        return !status || patch_refuse(p, e->name, message, why);
    if (tlc_delta_digest(e->dtype, weights, n, &digest, NULL) == TLC_OK && digest == e->result_digest)
        return true;
    status = tlc_delta_repair(frame, len, e->dtype, weights, n, NULL, &repairing);
    if (status == TLC_ERR_PARAM) /* it has no digests of blocks */
        return patch_refuse(p, e->name, message, why);
    return !status || patch_refuse(p, e->name, of_repair, why);
}

/* Whether weights can be brought to the result. A copy of them tells where that is not plain. */
static bool check(patch *p, const tlc_weights_entry *e, const void *frame, const uint8_t *weights, uint64_t size,
                  char *why)
{
    char message[TLC_MESSAGE_SIZE] = "";
    const tlc_delta_options options = run_options(p->run, message);

    if (tlc_delta_check(frame, (size_t)e->frame_len, e->dtype, weights, (size_t)e->n, &options) == TLC_OK)
        return true;
    if (!buffer_reserve(&p->weights, size, why))
        return false;
    memcpy(p->weights.bytes, weights, (size_t)size);
    return bring(p, e, frame, p->weights.bytes, why);
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

/* Lays out a file by its header after the delta. */
static bool lay_out(patch *p, uint64_t i, char *why)
{
    tlc_weights_entry entry;
    const void *frame;
    model_file *file;

    if (!patch_rest_at(p, i, &entry, &frame, &file, why))
        return false;
    if (!file)
        return true;
    if (!buffer_reserve(&p->weights, entry.n, why))
        return false;
    memcpy(p->weights.bytes, file->map.bytes, (size_t)entry.n);
    return bring(p, &entry, frame, p->weights.bytes, why) && patch_lay_out(p, file, &entry, p->weights.bytes, why);
}

/* The second pass writes. */
static bool visit(patch *p, size_t i, bool write, char *why)
{
    const model_entry *e = &p->next.entries[i];
    uint8_t *weights = model_weights(&p->next, e);
    tlc_weights_entry entry;
    const void *frame;

    if (!run_goes_on(p->run, i, p->next.count, e->name, write ? "write" : "check", why) ||
        !patch_at(p, i, &entry, &frame, why))
        return false;
    if (!weights)
        return patch_refuse(p, e->name,
                            "it cannot be changed in place: it lies in pieces, or this machine has another "
                            "byte order than files",
                            why);
    const bool ok = write ? bring(p, &entry, frame, weights, why)
                          : check(p, &entry, frame, weights, model_tensor(&p->next, e).size, why);
    model_release(&p->next, e);
    return ok;
}

static bool apply(patch *p, char *why)
{
    bool ok = true;

    for (uint64_t i = 0; ok && i < p->in.info.count; i++)
        ok = lay_out(p, i, why);
    ok = ok && patch_list(p, why);
    for (size_t i = 0; ok && i < 2 * p->next.count; i++)
        ok = visit(p, i % p->next.count, i >= p->next.count, why);
    run_done(p->run);
    return ok && sync_files(&p->next, why);
}

bool in_place_apply(const run *r, const char *message, const char *files, char *why)
{
    patch p;

    if (!patch_open(&p, r, message, why))
        return false;
    const bool ok = map_files(&p.next, files, why) && apply(&p, why);
    patch_close(&p);
    return ok;
}
