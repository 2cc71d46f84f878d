/* SPDX-License-Identifier: MIT */
#include "mapped.h"
#include "../../lib/explain.h"
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool mapped_open(mapped_file *m, const char *path, bool writable, char *why)
{
    struct stat st = {0}; /* MemorySanitizer of clang 14 does not see that fstat writes it */
    const int fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_NONBLOCK | O_CLOEXEC);
    bool ok = true;

    *m = (mapped_file){.size = 0};
    if (fd < 0)
        return explain(why, "%s", strerror(errno));
    if (fstat(fd, &st) != 0)
        ok = explain(why, "%s", strerror(errno));
    else if (!S_ISREG(st.st_mode))
        ok = explain(why, "is not a regular file");
    else if ((uint64_t)st.st_size > SIZE_MAX)
        ok = explain(why, "is too large for this machine");
    else if (st.st_size) {
        m->bytes = mmap(NULL, (size_t)st.st_size, writable ? PROT_READ | PROT_WRITE : PROT_READ,
                        writable ? MAP_SHARED : MAP_PRIVATE, fd, 0);
        if (m->bytes == MAP_FAILED) {
            m->bytes = NULL;
            ok = explain(why, "%s", strerror(errno));
        } else
            m->size = (uint64_t)st.st_size;
    }
    close(fd);
    return ok;
}

void mapped_close(mapped_file *m)
{
    if (m->size)
        munmap(m->bytes, (size_t)m->size);
    *m = (mapped_file){.size = 0};
}

void mapped_release(const mapped_file *m, uint64_t offset, uint64_t len)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start = offset / page * page;

    if (len)
        (void)madvise(m->bytes + start, (size_t)(offset + len - start), MADV_DONTNEED);
}
