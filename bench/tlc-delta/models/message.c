/* SPDX-License-Identifier: MIT */
#include "message.h"
#include "../../lib/explain.h"
#include "printable.h"
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static int write_bytes(void *opaque, const void *src, size_t len)
{
    message_out *m = opaque;

    errno = 0;
    if (len && fwrite(src, 1, len, m->stream) != len) {
        m->error = errno ? errno : EIO;
        return 1;
    }
    m->size += len;
    return 0;
}

/* Says why a call failed: the file, or the call. */
static bool out_failed(const message_out *m, char *why)
{
    return explain(why, "%s", m->error ? strerror(m->error) : m->message);
}

bool message_id_after(message_id *id, const char *before, char *why)
{
    message_in m;

    *id = (message_id){.sequence = 1};
    if (!before)
        return getrandom(id->trainer, sizeof id->trainer, 0) == (ssize_t)sizeof id->trainer ||
               explain(why, "random numbers: %s", strerror(errno));
    if (!message_in_open(&m, before, why))
        return false;
    memcpy(id->trainer, m.info.trainer, sizeof id->trainer);
    id->sequence = m.info.sequence + 1;
    message_in_close(&m);
    return id->sequence || explain(why, "there is no number after that of the message before");
}

bool message_out_begin(message_out *m, int fd, const message_id *id, uint64_t count, const void *note, size_t note_len,
                       char *why)
{
    tlc_weights_writer_config config;
    const int own = dup(fd);

    *m = (message_out){.stream = own < 0 ? NULL : fdopen(own, "wb")};
    if (!m->stream) {
        explain(why, "%s", strerror(errno));
        if (own >= 0)
            close(own);
        return false;
    }
    (void)tlc_weights_writer_config_init(&config, sizeof config);
    memcpy(config.trainer, id->trainer, sizeof config.trainer);
    config.sequence = id->sequence;
    config.write = write_bytes;
    config.opaque = m;
    config.count = count;
    config.note = note;
    config.note_len = note_len;
    config.message = m->message;
    config.message_cap = sizeof m->message;
    return tlc_weights_writer_create(&m->writer, &config) == TLC_OK || out_failed(m, why);
}

bool message_out_add(message_out *m, const char *name, const layout_tensor *t, const void *frame, size_t len, char *why)
{
    tlc_weights_entry entry;

    (void)tlc_weights_entry_init(&entry, sizeof entry);
    entry.name = name;
    entry.dtype = t->dtype;
    entry.dims = t->dims;
    entry.shape = t->shape;
    return tlc_weights_add(m->writer, &entry, frame, len) == TLC_OK || out_failed(m, why);
}

bool message_out_finish(message_out *m, uint64_t *size, char *why)
{
    if (tlc_weights_finish(m->writer) != TLC_OK)
        return out_failed(m, why);
    *size = m->size;
    return fflush(m->stream) == 0 || explain(why, "%s", strerror(errno));
}

void message_out_close(message_out *m)
{
    tlc_weights_writer_destroy(m->writer);
    if (m->stream)
        fclose(m->stream);
    *m = (message_out){.size = 0};
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

bool message_in_open(message_in *m, const char *path, char *why)
{
    char text[PRINTABLE_SIZE], reason[WHY_SIZE];
    tlc_weights_reader_config config;

    *m = (message_in){.reader = NULL};
    if (!mapped_open(&m->map, path, false, reason))
        return explain(why, "%s: %.1000s", printable(text, path), reason);
    (void)tlc_weights_reader_config_init(&config, sizeof config);
    config.src = m->map.bytes ? m->map.bytes : (const uint8_t *)"";
    config.size = m->map.size;
    config.message = m->message;
    config.message_cap = sizeof m->message;
    (void)tlc_weights_info_init(&m->info, sizeof m->info);
    if (tlc_weights_open(&m->reader, &config) == TLC_OK && tlc_weights_describe(m->reader, &m->info) == TLC_OK)
        return true;
    explain(why, "%s: %s", printable(text, path), m->message);
    message_in_close(m);
    return false;
}

void message_in_close(message_in *m)
{
    tlc_weights_close(m->reader);
    mapped_close(&m->map);
    m->reader = NULL;
}

bool message_in_at(message_in *m, uint64_t i, tlc_weights_entry *entry, const void **frame, char *why)
{
    (void)tlc_weights_entry_init(entry, sizeof *entry);
    return (tlc_weights_frame(m->reader, i, NULL, 0, frame) == TLC_OK &&
            tlc_weights_at(m->reader, i, entry) == TLC_OK) ||
           explain(why, "%s", m->message);
}
