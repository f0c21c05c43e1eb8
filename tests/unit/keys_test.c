// SPDX-License-Identifier: MIT
/* The promises: who is let in is told by the options and the settings together; a key counts up to
 * the second in which it expires; nobody is let in by accident of an empty list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "store/keys.h"

/* SHA-256 of "abc". */
#define ABC       "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define EXPIRES_S 1798761600 /* 2027-01-01 */

struct setting {
    keys_t *keys;
    const struct settings *settings;
};

static struct setting begin(char *option, const char *file)
{
    struct text_list items = {&option, option ? 1 : 0};
    struct err err = {{0}};
    struct setting self = {keys_new(&items, &err), settings_parse(slice_of(file), &err)};
    if (!self.keys || !self.settings)
        fail_msg("%s", err.text);
    return self;
}

static void end(struct setting *self)
{
    keys_destroy(&self->keys);
    settings_release(&self->settings);
}

static bool finds(const struct setting *self, const char *secret, uint64_t now_s,
                  struct key_holder *holder)
{
    return keys_find(self->keys, self->settings, slice_of(secret), now_s, holder);
}

static void nobody_or_everybody(void **state)
{
    static const struct {
        char *option;
        const char *file;
        bool lets_anyone_in;
    } cases[] = {
        {NULL, "version: 1", true},
        {NULL, "version: 1\nkeys: []", false},
        {"other", "version: 1", false},
        {NULL, "version: 1\nkeys: [{name: a, scope: ad, sha256: " ABC "}]", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct setting self = begin(cases[i].option, cases[i].file);
        struct key_holder holder;
        assert_int_equal(finds(&self, "", 0, &holder), cases[i].lets_anyone_in);
        assert_int_equal(finds(&self, "some", 0, &holder), cases[i].lets_anyone_in);
        if (cases[i].lets_anyone_in) {
            assert_string_equal(holder.project, "default");
            assert_int_equal(holder.scope, GRANT_AD);
        }
        end(&self);
    }
}

static void a_key_of_both_is_as_the_file_says(void **state)
{
    struct setting self =
        begin("shop/ad=abc", "version: 1\nkeys: [{name: a, project: lab, scope: rd, "
                             "sha256: " ABC ", expires: 2027-01-01}]");
    struct key_holder holder;
    (void)state;
    assert_true(finds(&self, "abc", EXPIRES_S - 1, &holder));
    assert_string_equal(holder.project, "lab");
    assert_int_equal(holder.scope, GRANT_RD);
    /* What expired is not let in by the option either. */
    assert_false(finds(&self, "abc", EXPIRES_S, &holder));
    assert_false(finds(&self, "abd", 0, &holder));
    assert_false(finds(&self, ABC, 0, &holder));
    end(&self);
    self = begin("shop/ad=abc", "version: 1");
    assert_true(finds(&self, "abc", EXPIRES_S, &holder));
    assert_string_equal(holder.project, "shop");
    end(&self);
}

static void rights_of_scopes(void **state)
{
    static const bool expected[GRANT_SCOPE_COUNT][RIGHT_COUNT] = {
        [GRANT_IN] = {true, false, false},
        [GRANT_RD] = {false, true, false},
        [GRANT_SC] = {true, false, false},
        [GRANT_AD] = {true, true, true},
    };
    (void)state;
    for (int scope = 0; scope < GRANT_SCOPE_COUNT; scope++)
        for (int right = 0; right < RIGHT_COUNT; right++)
            assert_int_equal(keys_allow((enum grant_scope)scope, (enum key_right)right),
                             expected[scope][right]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_or_everybody),
        cmocka_unit_test(a_key_of_both_is_as_the_file_says),
        cmocka_unit_test(rights_of_scopes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
