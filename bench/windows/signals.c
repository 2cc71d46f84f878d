/* SPDX-License-Identifier: MIT */
#include "posix.h"
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

/* After a console is closed Windows waits for handlers some seconds, and then ends the process. */
enum { END_MS = 10000 };

enum { INTERRUPT, TERMINATE, HANG_UP, SIGNALS };
static const int numbers[SIGNALS] = {[INTERRUPT] = SIGINT, [TERMINATE] = SIGTERM, [HANG_UP] = SIGHUP};
static struct sigaction actions[SIGNALS]; /* set before the handlers are */
static struct sigaction bus_error;
static HANDLE came; /* an event */

static BOOL WINAPI on_control(DWORD type)
{
    struct sigaction *action = &actions[type == CTRL_C_EVENT       ? INTERRUPT
                                        : type == CTRL_BREAK_EVENT ? TERMINATE
                                                                   : HANG_UP];
    void (*const handler)(int) = action->sa_handler;

    if (handler == SIG_DFL)
        return FALSE;
    if (action->sa_flags & SA_RESETHAND)
        action->sa_handler = SIG_DFL;
    if (handler != SIG_IGN)
        handler(numbers[action - actions]);
    (void)SetEvent(came);
    if (action == &actions[HANG_UP])
        Sleep(END_MS);
    return TRUE;
}

static LONG WINAPI on_exception(EXCEPTION_POINTERS *exception)
{
    if (exception->ExceptionRecord->ExceptionCode == (DWORD)EXCEPTION_IN_PAGE_ERROR)
        bus_error.sa_handler(SIGBUS);
    return EXCEPTION_CONTINUE_SEARCH;
}

int sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
    (void)before;
    if (number == SIGBUS) {
        bus_error = *action;
        return AddVectoredExceptionHandler(TRUE, on_exception) ? 0 : -1;
    }
    for (size_t i = 0; i < SIGNALS; i++)
        if (numbers[i] == number)
            actions[i] = *action;
    if (came)
        return 0;
    came = CreateEventW(NULL, TRUE, FALSE, NULL);
    return came && SetConsoleCtrlHandler(on_control, TRUE) ? 0 : -1;
}

const char *strsignal(int number)
{
    return number == SIGINT ? "Interrupt" : number == SIGTERM ? "Terminated" : "Hangup";
}

int posix_nanosleep(const struct timespec *time, struct timespec *rest)
{
    const double ms = (double)time->tv_sec * 1e3 + (double)time->tv_nsec * 1e-6;

    (void)rest;
    if (came && WaitForSingleObject(came, ms < INFINITE - 1 ? (DWORD)ms : INFINITE - 1) == WAIT_OBJECT_0) {
        errno = EINTR;
        return -1;
    }
    return 0;
}
