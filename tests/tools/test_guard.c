/* The process that ends ranks after a launcher was killed: it must not keep the launcher's
 * descriptors open. */
#include <poll.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int fake_open(void);
#define open(...) fake_open()
#include "../tools/own_path.c"
#include "../tools/run/run_child.c"
#undef open

#include "support/unit.h"

#define PATIENCE_MS 60000

/* As in a root directory without /dev, or without a free descriptor. */
static int fake_open(void)
{
    errno = ENOENT;
    return -1;
}

/* The launcher: its output is `out`, and it ends when `go` does. */
static _Noreturn void launch(int out, int go)
{
    char byte;
    int guard_fd;

    dup2(out, STDOUT_FILENO);
    close(out);
    guard_fd = guard_start();
    close(STDOUT_FILENO);
    if (guard_fd < 0 || read(go, &byte, 1) != 0)
        _exit(1);
    guard_dismiss(guard_fd);
    _exit(0);
}

static void guard_without_dev_null_closes_outputs(void **state)
{
    int out[2], go[2], status;
    struct pollfd p;
    pid_t pid;

    (void)state;
    assert_true(pipe(out) == 0 && pipe(go) == 0);
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(out[0]);
        close(go[1]);
        launch(out[1], go[0]);
    }
    close(out[1]);
    close(go[0]);
    p = (struct pollfd){ .fd = out[0], .events = POLLIN };
    assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
    assert_true(p.revents & POLLHUP);
    close(out[0]);
    close(go[1]);
    assert_true(waitpid(pid, &status, 0) == pid && status == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(guard_without_dev_null_closes_outputs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
