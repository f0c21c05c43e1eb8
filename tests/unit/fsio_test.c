// SPDX-License-Identifier: MIT
/* The fault harness itself: a fault that does not fire would make every other test worthless. */
#include "tests/unit/spool_help.h"

#include <signal.h>

static char folder[] = "/tmp/mcpd-fsio-XXXXXX";
static int dir_fd = -1;

static int open_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    dir_fd = open(folder, O_RDONLY | O_DIRECTORY);
    return dir_fd == -1 ? -1 : 0;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static int make(const char *name)
{
    int fd = fsio_open(dir_fd, name, O_RDWR | O_CREAT);
    assert_true(fd >= 0);
    return fd;
}

static uint64_t length(int fd)
{
    uint64_t len;
    assert_int_equal(fsio_size(fd, NULL, &len), 0);
    return len;
}

/* The n-th call of a kind on a matching path fails, and no other. */
static void test_nth_matching_call_fails(void **state)
{
    (void)state;
    fsio_script("write:*/a@2=EIO");
    int a = make("a"), b = make("b");
    assert_int_equal(fsio_pwrite(b, "x", 1, 0), 0);
    assert_int_equal(fsio_pwrite(b, "x", 1, 1), 0);
    assert_int_equal(fsio_pwrite(a, "x", 1, 0), 0);
    assert_int_equal(fsio_pwrite(a, "x", 1, 1), -1);
    assert_int_equal(errno, EIO);
    assert_int_equal(length(a), 1);
    assert_int_equal(fsio_pwrite(a, "x", 1, 1), 0);
    assert_int_equal(fsio_count("write"), 5);
    fsio_script("unlink@1+=EROFS");
    assert_int_equal(fsio_unlink(dir_fd, "a"), -1);
    assert_int_equal(fsio_unlink(dir_fd, "a"), -1);
    assert_int_equal(errno, EROFS);
    fsio_script(NULL);
    assert_int_equal(fsio_unlink(dir_fd, "a"), 0);
    fsio_close(a);
    fsio_close(b);
}

/* A short write leaves half and reports failure. */
static void test_short_write_is_a_failure(void **state)
{
    (void)state;
    fsio_script("write@1=short");
    int fd = make("short");
    struct iovec parts[2] = {{(void *)(uintptr_t) "abcd", 4}, {(void *)(uintptr_t) "efgh", 4}};
    assert_int_equal(fsio_pwritev(fd, parts, 2, 0), -1);
    assert_int_equal(errno, ENOSPC);
    assert_int_equal(length(fd), 4);
    fsio_script(NULL);
    assert_int_equal(fsio_pwritev(fd, parts, 2, 0), 0);
    assert_int_equal(length(fd), 8);
    fsio_close(fd);
}

static void exit_in_write(struct bench *bench)
{
    (void)bench;
    int fd = make("exit");
    (void)!fsio_pwrite(fd, "abcdefgh", 8, 0);
}

static void test_exits(void **state)
{
    (void)state;
    static const struct {
        const char *script;
        uint64_t left;
    } cases[] = {{"write@1=exit-before", 0}, {"write@1=exit-inside", 4}, {"write@1=exit-after", 8}};
    for (int i = 0; i < 3; i++) {
        fsio_script(NULL);
        (void)!fsio_unlink(dir_fd, "exit");
        assert_int_equal(bench_fork(NULL, cases[i].script, exit_in_write), 99);
        int fd = make("exit");
        assert_int_equal(length(fd), cases[i].left);
        fsio_close(fd);
    }
}

static int abort_status(void (*work)(int), int fd)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        (void)!freopen("/dev/null", "w", stderr);
        work(fd);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void sync_again(int fd)
{
    (void)!fsio_sync(fd);
}

static void sync_reopened(int fd)
{
    (void)fd;
    (void)!fsio_sync_data(fsio_open(dir_fd, "sync", O_RDWR));
}

/* No file is ever synced again after a failed sync, by whatever descriptor; a new file is another
 * matter, also when it gets the same inode. */
static void test_sync_after_failed_sync_aborts(void **state)
{
    (void)state;
    fsio_script("sync@1=EIO");
    int fd = make("sync");
    assert_int_equal(fsio_sync_data(fd), -1);
    assert_int_equal(abort_status(sync_again, fd), SIGABRT);
    assert_int_equal(abort_status(sync_reopened, -1), SIGABRT);
    assert_int_equal(fsio_unlink(dir_fd, "sync"), 0);
    fsio_close(fd);
    fd = make("sync");
    assert_int_equal(fsio_sync(fd), 0);
    fsio_close(fd);
}

static void bad_script(int fd)
{
    (void)fd;
    fsio_script("write@1=EWHAT");
}

static void test_misspelt_script_aborts(void **state)
{
    (void)state;
    assert_int_equal(abort_status(bad_script, -1), SIGABRT);
}

static void fill_then_fail(struct bench *bench)
{
    (void)bench;
    char path[64];
    snprintf(path, sizeof path, "%s/script", folder);
    int fd = make("armed");
    if (fsio_pwrite(fd, "x", 1, 0) == -1)
        _exit(1); /* no script yet: no fault */
    FILE *script = fopen(path, "w");
    fputs("write:*/armed@1=EIO\n", script);
    fclose(script);
    if (fsio_pwrite(fd, "x", 1, 0) != -1)
        _exit(2);
    if (fsio_pwrite(fd, "x", 1, 0) == -1)
        _exit(3);
    unlink(path);
    if (fsio_pwrite(fd, "x", 1, 0) == -1)
        _exit(4);
}

/* A script file arms a fault while the process runs: how system tests do it. Needs a process of
 * its own, as the environment is read once. */
static void test_script_file_arms_faults(void **state)
{
    (void)state;
    char variable[64];
    snprintf(variable, sizeof variable, "@%s/script", folder);
    setenv("MCPD_FSIO", variable, 1);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        fill_then_fail(NULL);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    unsetenv("MCPD_FSIO");
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* First: this one needs a process in which no script was set yet. */
        cmocka_unit_test(test_script_file_arms_faults),
        cmocka_unit_test(test_nth_matching_call_fails),
        cmocka_unit_test(test_short_write_is_a_failure),
        cmocka_unit_test(test_exits),
        cmocka_unit_test(test_sync_after_failed_sync_aborts),
        cmocka_unit_test(test_misspelt_script_aborts),
    };
    return cmocka_run_group_tests(tests, open_folder, remove_folder);
}
