/* SPDX-License-Identifier: MIT
 *
 * Runs one fuzz target over recorded inputs: fuzz_TARGET [-v | -d DIGEST] FILE...
 * A FILE named *.hex has one input a line, in hexadecimal. An empty line is an empty input, a line with # a comment.
 * Any other FILE is one input. With -d the digest of all results must be DIGEST, on every machine. -v prints the digest
 * of each input, to find the one for which machines differ.
 */
#include "fuzz.h"
#include <inttypes.h>

static int verbose;

static int digit(char c)
{
    const char *digits = "0123456789abcdef", *found = c ? strchr(digits, c) : NULL;
    return found ? (int)(found - digits) : -1;
}

/* The input is in a buffer of exactly its size, so that sanitizers find accesses outside of it. */
static void feed(const uint8_t *input, size_t len)
{
    uint8_t *exact = malloc(len ? len : 1);

    if (!exact)
        fail_msg("no memory for the test");
    if (len)
        /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker) */
        memcpy(exact, input, len);
    if (verbose)
        fuzz_digest = 0;
    (void)LLVMFuzzerTestOneInput(exact, len);
    if (verbose)
        printf("# %016" PRIx64 "\n", fuzz_digest);
    free(exact);
}

/* Decodes a line in place; returns the bytes, or -1. */
static long unhex(char *line, size_t chars)
{
    for (size_t i = 0; i < chars / 2; i++) {
        int high = digit(line[2 * i]), low = digit(line[2 * i + 1]);
        if (high < 0 || low < 0)
            return -1;
        line[i] = (char)(high << 4 | low);
    }
    return chars % 2 ? -1 : (long)(chars / 2);
}

/* Returns how many inputs there were; 0 for a file that cannot be read or has none. */
static size_t replay_lines(FILE *f, const char *path)
{
    char *line = NULL;
    size_t room = 0, count = 0, number = 0;
    ssize_t chars;

    while ((chars = getline(&line, &room, f)) >= 0) {
        number++;
        if (*line == '#')
            continue;
        long len = unhex(line, (size_t)chars - (line[chars - 1] == '\n'));
        if (len < 0) {
            fprintf(stderr, "%s:%zu: not hexadecimal\n", path, number);
            count = 0;
            break;
        }
        feed((const uint8_t *)line, (size_t)len);
        count++;
    }
    free(line);
    return count;
}

static size_t replay_one(FILE *f)
{
    uint8_t *input = NULL;
    size_t len = 0, room = 0;

    while (!feof(f) && !ferror(f)) {
        if (len == room) {
            room = room ? 2 * room : 1 << 16;
            uint8_t *more = realloc(input, room);
            if (!more)
                fail_msg("no memory for the test");
            input = more;
        }
        len += fread(input + len, 1, room - len, f);
    }
    feed(input, len);
    free(input);
    return 1;
}

static size_t replay(const char *path)
{
    const char *suffix = strrchr(path, '.');
    FILE *f = fopen(path, "rb");
    size_t count;

    if (!f) {
        perror(path);
        return 0;
    }
    count = suffix && !strcmp(suffix, ".hex") ? replay_lines(f, path) : replay_one(f);
    fclose(f);
    printf("# %zu inputs of %s\n", count, path);
    return count;
}

int main(int argc, char **argv)
{
    int first = 1, ok = 1;
    const char *digest = NULL;
    char result[17];

    verbose = argc > 1 && !strcmp(argv[1], "-v");
    first += verbose;
    if (argc > 2 && !strcmp(argv[1], "-d")) {
        digest = argv[2];
        first = 3;
    }
    if (first == argc) {
        fprintf(stderr, "usage: %s [-v | -d DIGEST] FILE...\n", argv[0]);
        return 2;
    }
    print_isas(NULL);
    for (int i = first; i < argc; i++)
        ok &= replay(argv[i]) > 0;
    snprintf(result, sizeof result, "%016" PRIx64, fuzz_digest);
    printf("# digest %s\n", result);
    printf("1..2\n%sok 1 - inputs\n", ok ? "" : "not ");
    int same_digest = !digest || !strcmp(digest, result);
    if (!same_digest)
        fprintf(stderr, "the digest is %s, not %s\n", result, digest);
    printf("%sok 2 - digest%s\n", same_digest ? "" : "not ", digest ? "" : " # SKIP none was given");
    return !ok || !same_digest;
}
