// SPDX-License-Identifier: MIT
/* The promises: a key's project and scope are read only from the long form, or from a key that
 * names them itself; whatever looks almost like it is a secret as it stands. One wrong character in
 * a key of that form never makes another key of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/key_form.h"

static void forms(void **state)
{
    static const struct {
        const char *item, *project, *secret;
        enum grant_scope scope;
    } cases[] = {
        {"secret", "default", "secret", GRANT_IN},
        {"shop/in=secret", "shop", "secret", GRANT_IN},
        {"shop-2/rd=a=b/c", "shop-2", "a=b/c", GRANT_RD},
        {"s/sc=x", "s", "x", GRANT_SC},
        {"default/ad=x", "default", "x", GRANT_AD},
        {"shop/in=", "shop", "", GRANT_IN},
        {"shop/xx=secret", "default", "shop/xx=secret", GRANT_IN},
        {"Shop/in=secret", "default", "Shop/in=secret", GRANT_IN},
        {"/in=secret", "default", "/in=secret", GRANT_IN},
        {"dGhpcy9pbj0=", "default", "dGhpcy9pbj0=", GRANT_IN},
        {"a1234567890123456789012345678901234567890/in=x", "default",
         "a1234567890123456789012345678901234567890/in=x", GRANT_IN},
        {"a123456789012345678901234567890123456789/in=x",
         "a123456789012345678901234567890123456789", "x", GRANT_IN},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct grant grant = grant_parse(cases[i].item);
        assert_true(slice_equals(grant.project, cases[i].project));
        assert_true(slice_equals(grant.secret, cases[i].secret));
        assert_int_equal(grant.scope, cases[i].scope);
    }
}

static void almost_the_long_form(void **state)
{
    static const char *const doubtful[] = {"shop/xx=secret", "shop/admin=secret", "Shop/in=secret",
                                           "/in=secret", "shop/=secret"};
    static const char *const fine[] = {"shop/in=secret", "dGhpcy9pbj0=", "dGhpc/9pbj==", "secret",
                                       "a=b/c",          "shop/in",      "shop/in="};
    (void)state;
    for (size_t i = 0; i < sizeof doubtful / sizeof *doubtful; i++)
        assert_true(grant_is_doubtful(doubtful[i]));
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++)
        assert_false(grant_is_doubtful(fine[i]));
}

#define SECRET  "0123456789abcdefABCDEF0123456789"
#define SHOP_IN "mcpd_in_shop_" SECRET "_3nTomq"
#define P40     "pppppppppppppppppppppppppppppppppppppppp"

/* The checks come from another implementation of CRC-32. */
static void keys_of_the_form(void **state)
{
    static const struct {
        const char *key, *project;
        enum key_verdict verdict;
        enum grant_scope scope;
    } cases[] = {
        {SHOP_IN, "shop", KEY_GOOD, GRANT_IN},
        {"mcpd_rd_default_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA_1bQRss", "default", KEY_GOOD, GRANT_RD},
        {"mcpd_ad_a-1_zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz_19F5sy", "a-1", KEY_GOOD, GRANT_AD},
        {"mcpd_sc_" P40 "_77777777777777777777777777777777_0s4nle", P40, KEY_GOOD, GRANT_SC},
        {"mcpd_in_shop_" SECRET "_3nTomr", NULL, KEY_MISTYPED, GRANT_IN},
        {"mcpd_rd_shop_" SECRET "_3nTomq", NULL, KEY_MISTYPED, GRANT_IN},
        {"mcpd_in_shoq_" SECRET "_3nTomq", NULL, KEY_MISTYPED, GRANT_IN},
        {"mcpd_xx_shop_" SECRET "_3nTomq", NULL, KEY_OTHER, GRANT_IN},
        {"mcpd_in_Shop_" SECRET "_3nTomq", NULL, KEY_OTHER, GRANT_IN},
        {"mcpd_in__" SECRET "_3nTomq", NULL, KEY_OTHER, GRANT_IN},
        {"mcpd_in_p" P40 "_" SECRET "_3nTomq", NULL, KEY_OTHER, GRANT_IN},
        {"mcpd_in_shop_" SECRET "0_3nTomq", NULL, KEY_OTHER, GRANT_IN},
        {"mcpd_in_shop_" SECRET "_3nTom", NULL, KEY_OTHER, GRANT_IN},
        {"mcpd_in_shop_" SECRET "_3nTomqq", NULL, KEY_OTHER, GRANT_IN},
        {"mcpd_in_shop", NULL, KEY_OTHER, GRANT_IN},
        {"mcpd_", NULL, KEY_OTHER, GRANT_IN},
        {"", NULL, KEY_OTHER, GRANT_IN},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct grant grant;
        assert_int_equal(key_form_read(slice_of(cases[i].key), &grant), cases[i].verdict);
        if (cases[i].verdict != KEY_GOOD)
            continue;
        assert_true(slice_equals(grant.project, cases[i].project));
        assert_true(slice_equals(grant.secret, cases[i].key));
        assert_int_equal(grant.scope, cases[i].scope);
        assert_true(slice_equals(grant_parse(cases[i].key).project, cases[i].project));
        assert_int_equal(grant_parse(cases[i].key).scope, cases[i].scope);
    }
    /* What is said outside counts. */
    struct grant grant = grant_parse("other/rd=" SHOP_IN);
    assert_true(slice_equals(grant.project, "other"));
    assert_true(slice_equals(grant.secret, SHOP_IN));
    assert_int_equal(grant.scope, GRANT_RD);
}

static void no_single_typo_is_a_key(void **state)
{
    struct grant grant;
    (void)state;
    for (size_t at = 0; at < sizeof SHOP_IN - 1; at++) {
        for (int byte = 0; byte < 256; byte++) {
            char key[] = SHOP_IN;
            key[at] = (char)byte;
            bool is_same = strcmp(key, SHOP_IN) == 0;
            assert_int_equal(key_form_read((struct slice){key, sizeof key - 1}, &grant) == KEY_GOOD,
                             is_same);
        }
    }
}

static void new_keys_are_good(void **state)
{
    char *arguments[] = {"new", "--scope", "ad", "--project=a-b"};
    char line[2][128];
    struct err err;
    (void)state;
    for (int i = 0; i < 2; i++) {
        FILE *file = tmpfile();
        assert_non_null(file);
        assert_int_equal(key_form_tool(4, arguments, stdin, file, &err), 0);
        rewind(file);
        assert_non_null(fgets(line[i], sizeof line[i], file));
        line[i][strcspn(line[i], "\n")] = '\0';
        struct grant grant;
        assert_int_equal(key_form_read(slice_of(line[i]), &grant), KEY_GOOD);
        assert_true(slice_equals(grant.project, "a-b"));
        assert_int_equal(grant.scope, GRANT_AD);
        fclose(file);
    }
    assert_string_not_equal(line[0], line[1]);
    assert_int_equal(key_form_tool(0, arguments, stdin, stdout, &err), -1);
    arguments[2] = "xx";
    assert_int_equal(key_form_tool(4, arguments, stdin, stdout, &err), -1);
}

/* The digest of a key is that of its text alone, not of the line end behind it. */
static void digests(void **state)
{
    static const char expected[] =
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n";
    static const struct {
        const char *input;
        int rc;
    } cases[] = {{"abc\n", 0}, {"abc", 0}, {" abc\r\n", 0}, {"", -1}, {"\n", -1}};
    char *arguments[] = {"sha256"};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128] = "";
        struct err err;
        FILE *in = tmpfile(), *out = tmpfile();
        assert_true(in && out && fputs(cases[i].input, in) >= 0);
        rewind(in);
        assert_int_equal(key_form_tool(1, arguments, in, out, &err), cases[i].rc);
        rewind(out);
        if (cases[i].rc == 0)
            assert_non_null(fgets(text, sizeof text, out));
        assert_string_equal(text, cases[i].rc == 0 ? expected : "");
        fclose(in);
        fclose(out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms),
        cmocka_unit_test(almost_the_long_form),
        cmocka_unit_test(keys_of_the_form),
        cmocka_unit_test(no_single_typo_is_a_key),
        cmocka_unit_test(new_keys_are_good),
        cmocka_unit_test(digests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
