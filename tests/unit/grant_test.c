// SPDX-License-Identifier: MIT
/* The promise: a key's project and scope are read only from the long form; whatever looks almost
 * like it is a secret as it stands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/grant.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(forms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
