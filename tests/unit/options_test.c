// SPDX-License-Identifier: MIT
/* Settings: where they come from, which are refused, and that secrets leave no trace. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/options.h"

#define ARGS_MAX     8
#define ARGS(...)    ((const char *const[]){__VA_ARGS__, NULL})
#define NO_VARIABLES ((const char *const[]){NULL})

/* Parses copies of the arguments, as main's are writable. */
static int parse(struct options *options, enum role_bits role, const char *const args[],
                 const char *const variables[], struct err *err)
{
    static char texts[ARGS_MAX][256];
    char *argv[ARGS_MAX + 1] = {0};
    int argc = 0;
    for (; args[argc]; argc++) {
        snprintf(texts[argc], sizeof texts[argc], "%s", args[argc]);
        argv[argc] = texts[argc];
    }
    return options_parse(options, role, argc, argv, (char **)variables, err);
}

static void flag_beats_variable_beats_default(void **state)
{
    (void)state;
    struct options options;
    struct err err;
    const char *const variables[] = {"MCPD_THREADS=64", "MCPD_LEASE=5s", NULL};
    const char *const *args =
        ARGS("--upstream", "http://a:1", "--threads=32", "--spool-max-bytes", "512MiB");
    assert_int_equal(parse(&options, R_RELAY, args, variables, &err), 0);
    assert_int_equal(options.threads, 32);
    assert_int_equal(options.lease, 5000);
    assert_int_equal(options.spool_max_bytes, 512ull << 20);
    assert_int_equal(options.workers, 4);
    assert_string_equal(options.listen.items[0], "127.0.0.1:4317");
    options_fini(&options);
}

static void a_list_is_replaced_whole_by_a_flag(void **state)
{
    (void)state;
    struct options options;
    struct err err;
    const char *const variables[] = {"MCPD_UPSTREAMS=http://a:1/x,y,https://b:2", NULL};
    assert_int_equal(parse(&options, R_RELAY, ARGS(NULL), variables, &err), 0);
    assert_int_equal(options.upstream.count, 2);
    assert_string_equal(options.upstream.items[0], "http://a:1/x,y");
    assert_string_equal(options.upstream.items[1], "https://b:2");
    options_fini(&options);
    const char *const *args = ARGS("--upstream", "http://c:3", "--upstream", "http://d:4");
    assert_int_equal(parse(&options, R_RELAY, args, variables, &err), 0);
    assert_int_equal(options.upstream.count, 2);
    assert_string_equal(options.upstream.items[0], "http://c:3");
    options_fini(&options);
}

static void a_list_of_urls_may_have_blanks_behind_its_commas(void **state)
{
    (void)state;
    struct options options;
    struct err err;
    const char *const variables[] = {"MCPD_UPSTREAMS= http://a:1/x, y timeout=1s, https://b:2",
                                     NULL};
    assert_int_equal(parse(&options, R_RELAY, ARGS(NULL), variables, &err), 0);
    assert_int_equal(options.upstream.count, 2);
    assert_string_equal(options.upstream.items[0], "http://a:1/x, y timeout=1s");
    assert_string_equal(options.upstream.items[1], "https://b:2");
    options_fini(&options);
}

static void bad_settings_are_named(void **state)
{
    (void)state;
    static const struct {
        enum role_bits role;
        const char *args[4];
        const char *variable;
        const char *named; /* what the message must tell */
    } cases[] = {
        {R_DAEMON, {"--no-such"}, NULL, "--no-such"},
        {R_DAEMON, {"--threads", "9000"}, NULL, "8192"},
        {R_DAEMON, {"--threads", "3x"}, NULL, "'3x'"},
        {R_DAEMON, {"--drain-delay", "30"}, NULL, "30s"},
        {R_DAEMON, {"--max-body-bytes", "99999999TiB"}, NULL, "--max-body-bytes"},
        {R_DAEMON, {0}, "MCPD_THREADS=many", "MCPD_THREADS"},
        {R_DAEMON, {"--keep-alive=perhaps"}, NULL, "perhaps"},
        {R_DAEMON, {"--log-format", "xml"}, NULL, "json"},
        {R_DAEMON, {"--ingest-key", ""}, NULL, "empty"},
        {R_DAEMON, {"--threads"}, NULL, "--threads"},
        {R_DAEMON, {"--data", "--log-level", "info"}, NULL, "--data needs a value"},
        {R_DAEMON, {"--store", ""}, NULL, "empty value"},
        {R_DAEMON, {"--store", "mcpd.db"}, NULL, "--data"},
        {R_DAEMON, {"--store", "mysql://host/mcpd"}, NULL, "postgres://"},
        {R_DAEMON, {"stray"}, NULL, "stray"},
        {R_RELAY, {"--broker", "ipc://x"}, NULL, "--broker"},
        {R_RELAY, {0}, NULL, "--upstream"},
        {R_GATEWAY, {0}, NULL, "--broker"},
        {R_DAEMON, {"--listen", "0.0.0.0:4317"}, NULL, "--allow-anonymous"},
        {R_DAEMON, {"--listen", "127.0.0.1:8443s"}, NULL, "TLS"},
        {R_DAEMON, {"--listen", "127.0.0.1:65536"}, NULL, "65535"},
        {R_DAEMON, {"--listen", "localhost:80"}, NULL, "HOST:PORT"},
        {R_DAEMON, {"--ingest-key-file", "/nowhere/keys"}, NULL, "/nowhere/keys"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct options options;
        struct err err = {{0}};
        const char *const variables[] = {cases[i].variable, NULL};
        int rc = parse(&options, cases[i].role, cases[i].args, variables, &err);
        options_fini(&options);
        if (rc != -1 || !strstr(err.text, cases[i].named))
            fail_msg("case %zu: '%s' does not name '%s'", i, err.text, cases[i].named);
    }
}

static void a_key_or_consent_opens_addresses_beyond_loopback(void **state)
{
    (void)state;
    struct options options;
    struct err err;
    const char *const *with_key = ARGS("--listen", "0.0.0.0:4317", "--ingest-key", "k1");
    assert_int_equal(parse(&options, R_DAEMON, with_key, NO_VARIABLES, &err), 0);
    options_fini(&options);
    const char *const *open = ARGS("--listen", "0.0.0.0:4317", "--allow-anonymous", "--threads=8");
    assert_int_equal(parse(&options, R_DAEMON, open, NO_VARIABLES, &err), 0);
    assert_true(options.allow_anonymous);
    options_fini(&options);
}

static void secrets_are_wiped_from_arguments(void **state)
{
    (void)state;
    struct options options;
    struct err err;
    char flag[] = "--ingest-key", value[] = "very-secret-key", joined[] = "--upstream-key=hidden";
    char upstream[] = "--upstream=http://a:1";
    char *argv[] = {flag, value, joined, upstream, NULL};
    assert_int_equal(options_parse(&options, R_RELAY, 4, argv, (char **)NO_VARIABLES, &err), 0);
    assert_string_equal(options.ingest_key.items[0], "very-secret-key");
    assert_string_equal(options.upstream_key, "hidden");
    assert_null(strstr(value, "secret"));
    assert_null(strstr(joined, "hidden"));
    options_fini(&options);
}

static void keys_are_read_from_a_file_a_line_each(void **state)
{
    (void)state;
    struct options options;
    struct err err;
    char path[] = "/tmp/mcpd-keys-XXXXXX", setting[128];
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, "one\n\n two \r\n", 12) == 12);
    close(fd);
    snprintf(setting, sizeof setting, "MCPD_INGEST_KEY_FILE=%s", path);
    int rc = parse(&options, R_DAEMON, ARGS(NULL), (const char *const[]){setting, NULL}, &err);
    unlink(path);
    assert_int_equal(rc, 0);
    assert_int_equal(options.ingest_key.count, 2);
    assert_string_equal(options.ingest_key.items[1], "two");
    options_fini(&options);
}

static void a_file_of_one_value_has_one_line(void **state)
{
    (void)state;
    struct options options;
    struct err err;
    char path[] = "/tmp/mcpd-store-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, "\npostgres://a/b\n", 16) == 16);
    assert_int_equal(parse(&options, R_DAEMON, ARGS("--store-file", path), NO_VARIABLES, &err), 0);
    assert_string_equal(options.store, "postgres://a/b");
    options_fini(&options);
    assert_true(write(fd, "postgres://c/d\n", 15) == 15);
    close(fd);
    int rc = parse(&options, R_DAEMON, ARGS("--store-file", path), NO_VARIABLES, &err);
    unlink(path);
    options_fini(&options);
    assert_int_equal(rc, -1);
    assert_non_null(strstr(err.text, "several lines"));
}

static void the_role_may_stand_anywhere(void **state)
{
    (void)state;
    char *before[] = {"--data", "relay", "config", NULL};
    char *flag_first[] = {"--keep-alive", "relay", NULL};
    char *none[] = {"--data=x", "--keep-alive", "off", NULL};
    char *forgotten[] = {"--data", "--log-level", "info", NULL};
    assert_int_equal(options_find_word(3, before), 2);
    assert_int_equal(options_find_word(2, flag_first), 1);
    assert_int_equal(options_find_word(3, none), -1);
    assert_int_equal(options_find_word(3, forgotten), -1);
}

static void the_spool_lies_beside_the_data(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"--data=/data/mcpd.db", "--spool-dir=", "/data/mcpd.spool/relay"},
        {"--data=/data/file", "--spool-dir=", "/data/file.spool/relay"},
        {"--data=x.db", "--spool-dir=/var/s", "/var/s/relay"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct options options;
        struct err err;
        const char *const *args = ARGS(cases[i][0], cases[i][1]);
        assert_int_equal(parse(&options, R_ALL, args, NO_VARIABLES, &err), 0);
        char *path = options_spool_path(&options);
        assert_string_equal(path, cases[i][2]);
        free(path);
        options_fini(&options);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flag_beats_variable_beats_default),
        cmocka_unit_test(a_list_is_replaced_whole_by_a_flag),
        cmocka_unit_test(a_list_of_urls_may_have_blanks_behind_its_commas),
        cmocka_unit_test(bad_settings_are_named),
        cmocka_unit_test(a_key_or_consent_opens_addresses_beyond_loopback),
        cmocka_unit_test(secrets_are_wiped_from_arguments),
        cmocka_unit_test(keys_are_read_from_a_file_a_line_each),
        cmocka_unit_test(a_file_of_one_value_has_one_line),
        cmocka_unit_test(the_role_may_stand_anywhere),
        cmocka_unit_test(the_spool_lies_beside_the_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
