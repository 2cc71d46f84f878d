/* SPDX-License-Identifier: MIT
 *
 * The main program of all tests that are made of TEST().
 */
#include "support.h"

enum { MOST_TESTS = 64 };

static struct CMUnitTest tests[MOST_TESTS]; /* cmocka leaves out those without a name */
static int lines[MOST_TESTS];
static size_t count;
static int (*setup)(void **state);
const char *test_argument;

/* Compilers may call constructors in any order. */
void add_test(const char *name, void (*test)(void **state), int line)
{
    size_t i = count++;

    if (count > MOST_TESTS)
        abort();
    for (; i && lines[i - 1] > line; i--) {
        tests[i] = tests[i - 1];
        lines[i] = lines[i - 1];
    }
    tests[i] = (struct CMUnitTest){.name = name, .test_func = test};
    lines[i] = line;
}

void set_setup(int (*function)(void **state))
{
    setup = function;
}

int main(int argc, char **argv)
{
    test_argument = argc > 1 ? argv[1] : NULL;
    return cmocka_run_group_tests(tests, setup, NULL);
}
