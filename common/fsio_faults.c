// SPDX-License-Identifier: MIT
/*
 * The test build's faults. One script for the process, behind a mutex: the state of a fault harness
 * is the process's by nature. A script that cannot be read aborts: a test with a misspelt fault
 * must not pass.
 */
#include "common/fsio_faults.h"

#ifdef FSIO_FAULTS
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fsio.h"

enum { RULES_MAX = 32, FAILED_MAX = 256, SCRIPT_MAX = 4096, EXIT_STATUS = 99 };

enum action {
    ACT_ERROR,
    ACT_SHORT,
    ACT_DELAY,
    ACT_EXIT_BEFORE,
    ACT_EXIT_INSIDE,
    ACT_EXIT_AFTER,
    ACT_STOP_BEFORE,
    ACT_STOP_AFTER,
    ACT_SKIP
};

struct rule {
    char kind[16];
    char pattern[256];
    uint64_t first;
    bool and_later;
    enum action action;
    int error;
    unsigned delay_ms;
    uint64_t seen;
};

struct file_key {
    dev_t dev;
    ino_t ino;
};

static struct {
    pthread_mutex_t mutex;
    bool is_started;
    char file[PATH_MAX]; /* the script's, or "" */
    struct timespec changed;
    off_t size;
    struct rule rules[RULES_MAX];
    int rule_count;
    uint64_t counts[FSIO_KIND_COUNT];
    struct file_key failed[FAILED_MAX]; /* files whose sync failed */
    int failed_count;
} harness = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static const char *const kind_names[FSIO_KIND_COUNT] = {
    [FSIO_OPEN] = "read-open",    [FSIO_CREATE] = "open",   [FSIO_WRITE] = "write",
    [FSIO_READ] = "read",         [FSIO_SYNC] = "sync",     [FSIO_ALLOCATE] = "allocate",
    [FSIO_TRUNCATE] = "truncate", [FSIO_UNLINK] = "unlink", [FSIO_RENAME] = "rename",
};

static const struct {
    const char *name;
    int error;
} errors[] = {
    {"EIO", EIO},     {"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT},
    {"EROFS", EROFS}, {"EACCES", EACCES}, {"EMFILE", EMFILE},
    {"EFBIG", EFBIG}, {"ENOENT", ENOENT}, {"EOPNOTSUPP", EOPNOTSUPP},
};

static const struct {
    const char *name;
    enum action action;
} actions[] = {
    {"short", ACT_SHORT},
    {"exit-before", ACT_EXIT_BEFORE},
    {"exit-inside", ACT_EXIT_INSIDE},
    {"exit-after", ACT_EXIT_AFTER},
    {"stop-before", ACT_STOP_BEFORE},
    {"stop-after", ACT_STOP_AFTER},
    {"skip", ACT_SKIP},
};

static void die(const char *what, const char *text)
{
    fprintf(stderr, "fsio: %s: %s\n", what, text);
    abort();
}

static void parse_action(struct rule *rule, const char *text)
{
    if (strncmp(text, "delay=", 6) == 0) {
        rule->action = ACT_DELAY;
        rule->delay_ms = (unsigned)strtoul(text + 6, NULL, 10);
        return;
    }
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        if (strcmp(text, actions[i].name) == 0) {
            rule->action = actions[i].action;
            return;
        }
    }
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        if (strcmp(text, errors[i].name) == 0) {
            rule->action = ACT_ERROR;
            rule->error = errors[i].error;
            return;
        }
    }
    die("unknown action", text);
}

static bool is_kind(const char *name)
{
    for (int i = 0; i < FSIO_KIND_COUNT; i++)
        if (strcmp(kind_names[i], name) == 0)
            return true;
    return strcmp(name, "any") == 0;
}

/* KIND[:PATTERN]@N[+]=ACTION */
static void parse_rule(const char *text)
{
    if (harness.rule_count == RULES_MAX)
        die("too many faults", text);
    struct rule *rule = &harness.rules[harness.rule_count];
    *rule = (struct rule){.pattern = "*"};
    const char *at = strrchr(text, '@');
    const char *equals = at == NULL ? NULL : strchr(at, '=');
    if (equals == NULL)
        die("not KIND[:PATTERN]@N=ACTION", text);
    const char *colon = memchr(text, ':', (size_t)(at - text));
    size_t kind_len = (size_t)((colon != NULL ? colon : at) - text);
    snprintf(rule->kind, sizeof rule->kind, "%.*s", (int)kind_len, text);
    if (!is_kind(rule->kind))
        die("unknown kind", text);
    if (colon != NULL)
        snprintf(rule->pattern, sizeof rule->pattern, "%.*s", (int)(at - colon - 1), colon + 1);
    char *end;
    rule->first = strtoull(at + 1, &end, 10);
    rule->and_later = *end == '+';
    if (rule->first == 0 || end + rule->and_later != equals)
        die("not a number of a call", text);
    parse_action(rule, equals + 1);
    harness.rule_count++;
}

static void parse_script(const char *text)
{
    harness.rule_count = 0;
    memset(harness.counts, 0, sizeof harness.counts);
    char copy[SCRIPT_MAX];
    snprintf(copy, sizeof copy, "%s", text == NULL ? "" : text);
    char *rest = copy;
    for (char *line; (line = strsep(&rest, ";\n")) != NULL;)
        if (line[0] != '\0' && line[0] != '#')
            parse_rule(line);
}

static void read_script_file(void)
{
    struct stat st;
    if (stat(harness.file, &st) == -1) {
        if (harness.rule_count > 0)
            parse_script(NULL);
        harness.size = -1;
        return;
    }
    if (st.st_size == harness.size && st.st_mtim.tv_sec == harness.changed.tv_sec &&
        st.st_mtim.tv_nsec == harness.changed.tv_nsec)
        return;
    harness.size = st.st_size;
    harness.changed = st.st_mtim;
    char text[SCRIPT_MAX] = "";
    int fd = open(harness.file, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd == -1 ? 0 : read(fd, text, sizeof text - 1);
    if (fd != -1)
        close(fd);
    text[len > 0 ? len : 0] = '\0';
    parse_script(text);
}

static void refresh(void)
{
    if (!harness.is_started) {
        harness.is_started = true;
        const char *text = getenv("MCPD_FSIO");
        if (text != NULL && text[0] == '@')
            snprintf(harness.file, sizeof harness.file, "%s", text + 1);
        else
            parse_script(text);
    }
    if (harness.file[0] != '\0')
        read_script_file();
}

/* The whole path of a descriptor, or of a name below it. */
static void path_of(int fd, const char *name, char out[PATH_MAX])
{
    out[0] = '\0';
    if (name != NULL && (name[0] == '/' || fd == AT_FDCWD)) {
        snprintf(out, PATH_MAX, "%s", name);
        return;
    }
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, out, PATH_MAX - 1);
    out[len > 0 ? len : 0] = '\0';
    if (name != NULL && len > 0)
        snprintf(out + len, (size_t)(PATH_MAX - len), "/%s", name);
}

static void report(const struct rule *rule, const char *path)
{
    const char *file = getenv("MCPD_FSIO_COUNTS");
    if (file == NULL)
        return;
    int fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd == -1)
        die("cannot open", file);
    dprintf(fd, "%s %s %llu\n", rule->kind, path, (unsigned long long)rule->seen);
    close(fd);
}

static void apply(const struct rule *rule, struct fsio_plan *plan, unsigned *delay_ms)
{
    switch (rule->action) {
    case ACT_ERROR:
        plan->error = rule->error;
        break;
    case ACT_SHORT:
        plan->error = ENOSPC;
        plan->is_partial = true;
        break;
    case ACT_DELAY:
        *delay_ms = rule->delay_ms;
        break;
    case ACT_EXIT_BEFORE:
        _exit(EXIT_STATUS);
    case ACT_EXIT_INSIDE:
        if (plan->kind != FSIO_WRITE)
            _exit(EXIT_STATUS);
        plan->is_partial = true;
        plan->error = EIO;
        plan->exits_after = true;
        break;
    case ACT_EXIT_AFTER:
        plan->exits_after = true;
        break;
    case ACT_STOP_BEFORE:
        raise(SIGSTOP);
        break;
    case ACT_STOP_AFTER:
        plan->stops_after = true;
        break;
    case ACT_SKIP:
        plan->is_skipped = true;
        break;
    }
}

static bool rule_matches(const struct rule *rule, enum fsio_kind kind, const char *path)
{
    bool is_change = kind != FSIO_READ && kind != FSIO_OPEN;
    bool right_kind =
        strcmp(rule->kind, "any") == 0 ? is_change : strcmp(rule->kind, kind_names[kind]) == 0;
    return right_kind && fnmatch(rule->pattern, path, 0) == 0;
}

static int failed_index(const struct stat *st)
{
    for (int i = 0; i < harness.failed_count; i++)
        if (harness.failed[i].dev == st->st_dev && harness.failed[i].ino == st->st_ino)
            return i;
    return -1;
}

struct fsio_plan fsio_begin(enum fsio_kind kind, int fd, const char *name)
{
    struct fsio_plan plan = {.kind = kind, .fd = fd};
    unsigned delay_ms = 0;
    pthread_mutex_lock(&harness.mutex);
    refresh();
    harness.counts[kind]++;
    struct stat st;
    if (kind == FSIO_SYNC && fstat(fd, &st) == 0 && failed_index(&st) != -1)
        die("a file whose sync failed is synced again", kind_names[kind]);
    char path[PATH_MAX] = "";
    if (harness.rule_count > 0)
        path_of(fd, name, path);
    for (int i = 0; i < harness.rule_count; i++) {
        struct rule *rule = &harness.rules[i];
        if (!rule_matches(rule, kind, path))
            continue;
        rule->seen++;
        if (rule->seen == rule->first || (rule->and_later && rule->seen > rule->first)) {
            report(rule, path);
            apply(rule, &plan, &delay_ms);
        }
    }
    pthread_mutex_unlock(&harness.mutex);
    if (delay_ms > 0)
        usleep(delay_ms * 1000);
    return plan;
}

int fsio_end(const struct fsio_plan *plan, int result)
{
    if (plan->exits_after)
        _exit(EXIT_STATUS);
    if (plan->error) {
        errno = plan->error;
        result = -1;
    }
    int saved = errno;
    struct stat st;
    if (plan->kind == FSIO_SYNC && result == -1 && fstat(plan->fd, &st) == 0 &&
        !S_ISDIR(st.st_mode)) {
        pthread_mutex_lock(&harness.mutex);
        if (harness.failed_count < FAILED_MAX)
            harness.failed[harness.failed_count++] = (struct file_key){st.st_dev, st.st_ino};
        pthread_mutex_unlock(&harness.mutex);
    }
    if (plan->stops_after)
        raise(SIGSTOP);
    errno = saved;
    return result;
}

void fsio_write_half(int fd, const struct iovec *parts, int count, uint64_t offset)
{
    size_t len = 0;
    for (int i = 0; i < count; i++)
        len += parts[i].iov_len;
    size_t left = len / 2;
    for (int i = 0; i < count && left > 0; i++) {
        size_t n = parts[i].iov_len < left ? parts[i].iov_len : left;
        if (pwrite(fd, parts[i].iov_base, n, (off_t)offset) != (ssize_t)n)
            die("cannot write", strerror(errno));
        offset += n;
        left -= n;
    }
}

void fsio_forget(int dir_fd, const char *name)
{
    struct stat st;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == -1)
        return;
    pthread_mutex_lock(&harness.mutex);
    int i = failed_index(&st);
    if (i != -1)
        harness.failed[i] = harness.failed[--harness.failed_count];
    pthread_mutex_unlock(&harness.mutex);
}

void fsio_script(const char *text)
{
    pthread_mutex_lock(&harness.mutex);
    harness.is_started = true;
    harness.file[0] = '\0';
    parse_script(text);
    pthread_mutex_unlock(&harness.mutex);
}

void fsio_restart(void)
{
    fsio_script(NULL);
    pthread_mutex_lock(&harness.mutex);
    harness.failed_count = 0;
    pthread_mutex_unlock(&harness.mutex);
}

uint64_t fsio_count(const char *kind)
{
    if (!is_kind(kind))
        die("unknown kind", kind);
    pthread_mutex_lock(&harness.mutex);
    uint64_t sum = 0;
    for (int i = 0; i < FSIO_KIND_COUNT; i++) {
        bool is_change = i != FSIO_READ && i != FSIO_OPEN;
        if (strcmp(kind, kind_names[i]) == 0 || (strcmp(kind, "any") == 0 && is_change))
            sum += harness.counts[i];
    }
    pthread_mutex_unlock(&harness.mutex);
    return sum;
}
#endif
