// SPDX-License-Identifier: MIT
/* Whatever is in a value, a line stays one line, and in JSON one object. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "common/log.h"

static char written[16384];

/* What log_write puts on standard error. */
static const char *capture(const char *rid, const struct log_field *fields)
{
    fflush(stderr);
    FILE *file = tmpfile();
    int kept = dup(STDERR_FILENO);
    assert_non_null(file);
    dup2(fileno(file), STDERR_FILENO);
    log_write(LEVEL_WARN, "test.event", rid, fields);
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(file);
    size_t len = fread(written, 1, sizeof written - 1, file);
    written[len] = 0;
    fclose(file);
    assert_true(len > 0 && written[len - 1] == '\n');
    assert_ptr_equal(strchr(written, '\n'), written + len - 1);
    return written;
}

static json_t *capture_json(const char *rid, const struct log_field *fields)
{
    json_error_t error;
    json_t *line = json_loads(capture(rid, fields), JSON_REJECT_DUPLICATES, &error);
    if (!line)
        print_error("%s: %s\n", error.text, written);
    assert_non_null(line);
    assert_string_equal(json_string_value(json_object_get(line, "level")), "warn");
    assert_string_equal(json_string_value(json_object_get(line, "event")), "test.event");
    assert_true(json_is_string(json_object_get(line, "ts")));
    assert_true(json_is_string(json_object_get(line, "role")));
    return line;
}

static void test_each_byte_is_a_value(void **state)
{
    (void)state;
    log_open(LEVEL_INFO, true);
    for (int byte = 1; byte < 256; byte++) {
        char text[] = {'<', (char)byte, '>', 0};
        json_t *line = capture_json(text, LOG_FIELDS(LOG_TEXT("a", text), LOG_NUM("n", -7)));
        const char *back = json_string_value(json_object_get(line, "a"));
        assert_string_equal(back, byte < 0x80 ? text : "<\xef\xbf\xbd>");
        assert_string_equal(json_string_value(json_object_get(line, "rid")), back);
        assert_int_equal(json_integer_value(json_object_get(line, "n")), -7);
        json_decref(line);
    }
}

static void test_text_beyond_ascii_is_kept(void **state)
{
    (void)state;
    log_open(LEVEL_INFO, true);
    const char *text = "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80";
    json_t *line = capture_json(NULL, LOG_FIELDS(LOG_TEXT("a", text)));
    assert_string_equal(json_string_value(json_object_get(line, "a")), text);
    json_decref(line);
}

/* Values of every length of bytes that take one, two, six and no whole character, until whole
 * fields no longer fit. */
static void test_what_is_too_long_is_cut_between_characters_and_fields(void **state)
{
    (void)state;
    static const char *const pieces[] = {"x", "\"", "\x01", "\xff", "\xf0\x9f\x98\x80"};
    char text[900];
    for (int as_json = 0; as_json < 2; as_json++)
        for (size_t p = 0; p < sizeof pieces / sizeof pieces[0]; p++)
            for (size_t len = 0; len + 4 < sizeof text; len += 7) {
                text[0] = 0;
                for (size_t at = 0; at < len; at += strlen(pieces[p]))
                    strncat(text, pieces[p], sizeof text - at - 1);
                log_open(LEVEL_INFO, as_json);
                const struct log_field *fields = LOG_FIELDS(
                    LOG_TEXT("first", text), LOG_TEXT("second", text), LOG_TEXT("third", text),
                    LOG_TEXT("fourth", text), LOG_TEXT("fifth", text), LOG_NUM("last", len));
                if (!as_json) {
                    capture("some-rid", fields);
                    continue;
                }
                json_t *line = capture_json("some-rid", fields);
                assert_non_null(json_object_get(line, "first"));
                json_decref(line);
            }
}

static void test_plain_values_need_no_quotes_in_text(void **state)
{
    (void)state;
    log_open(LEVEL_INFO, false);
    const char *line = capture(NULL, LOG_FIELDS(LOG_TEXT("a", "b"), LOG_TEXT("c", "d e\n\"f\""),
                                                LOG_TEXT("empty", ""), LOG_NUM("n", 5)));
    assert_non_null(
        strstr(line, " warn mcpd test.event - a=b c=\"d e\\u000a\\\"f\\\"\" empty=\"\" n=5\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_byte_is_a_value),
        cmocka_unit_test(test_text_beyond_ascii_is_kept),
        cmocka_unit_test(test_what_is_too_long_is_cut_between_characters_and_fields),
        cmocka_unit_test(test_plain_values_need_no_quotes_in_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
