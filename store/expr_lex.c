// SPDX-License-Identifier: MIT
#include "store/expr_lex.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS       "0123456789"
#define LETTERS      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define NAME_LETTERS LETTERS DIGITS "_"
#define NUMBER_MAX   40 /* characters */

static const struct {
    const char *name;
    bool is_duration;
    int64_t factor;
} units[] = {
    {"ns", true, 1},
    {"us", true, 1000},
    {"ms", true, 1000000},
    {"s", true, 1000000000},
    {"m", true, 60 * INT64_C(1000000000)},
    {"h", true, 3600 * INT64_C(1000000000)},
    {"d", true, 86400 * INT64_C(1000000000)},
    {"B", false, 1},
    {"KB", false, 1000},
    {"MB", false, 1000000},
    {"GB", false, 1000000000},
    {"KiB", false, 1 << 10},
    {"MiB", false, 1 << 20},
    {"GiB", false, 1 << 30},
};

/* The longer ones first. */
static const struct {
    const char *text;
    enum expr_token_type type;
    enum expr_op op;
} symbols[] = {
    {"!=", TOKEN_OP, EXPR_NE},     {"<=", TOKEN_OP, EXPR_LE},  {">=", TOKEN_OP, EXPR_GE},
    {"^=", TOKEN_OP, EXPR_STARTS}, {"=", TOKEN_OP, EXPR_EQ},   {"<", TOKEN_OP, EXPR_LT},
    {">", TOKEN_OP, EXPR_GT},      {"(", TOKEN_OPEN, EXPR_EQ}, {")", TOKEN_CLOSE, EXPR_EQ},
    {",", TOKEN_COMMA, EXPR_EQ},
};

/* Digits with perhaps a sign, a fraction and an exponent; 0 where there is no number. */
static size_t number_length(const char *text, bool *is_whole)
{
    size_t sign = *text == '-';
    size_t whole = strspn(text + sign, DIGITS);
    size_t len = sign + whole;
    *is_whole = true;
    if (whole == 0)
        return 0;
    if (text[len] == '.' && strspn(text + len + 1, DIGITS) > 0) {
        len += 1 + strspn(text + len + 1, DIGITS);
        *is_whole = false;
    }
    if (text[len] == 'e' || text[len] == 'E') {
        size_t exponent_sign = text[len + 1] == '-' || text[len + 1] == '+';
        size_t exponent = strspn(text + len + 1 + exponent_sign, DIGITS);
        if (exponent > 0) {
            len += 1 + exponent_sign + exponent;
            *is_whole = false;
        }
    }
    return len;
}

static int scale(struct list_value *value, int64_t factor)
{
    int64_t product;
    if (value->type == LIST_INT) {
        if (__builtin_mul_overflow(value->integer, factor, &product))
            return -1;
        value->integer = product;
        return 0;
    }
    double scaled = value->real * (double)factor;
    if (fabs(scaled) > 9e18)
        return -1;
    *value = (struct list_value){.type = LIST_INT, .integer = llround(scaled)};
    return 0;
}

static int read_unit(struct slice unit, struct expr_token *token, struct err *err)
{
    if (unit.len == 0)
        return 0;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (!slice_equals(unit, units[i].name))
            continue;
        token->type = units[i].is_duration ? TOKEN_DURATION : TOKEN_NUMBER;
        return scale(&token->value, units[i].factor) == 0
                   ? 0
                   : err_set(err, "this number is too large");
    }
    return err_set(err, "units are ns, us, ms, s, m, h, d, B, KB, MB, GB, KiB, MiB and GiB");
}

static int lex_number(const char **at, struct expr_token *token, struct err *err)
{
    bool is_whole;
    char digits[NUMBER_MAX + 1];
    size_t len = number_length(*at, &is_whole);
    if (len == 0 || len > NUMBER_MAX)
        return err_set(err, len ? "this number is too long" : "a minus stands before a number");
    memcpy(digits, *at, len);
    digits[len] = '\0';
    errno = 0;
    token->type = TOKEN_NUMBER;
    token->value = (struct list_value){.type = LIST_INT, .integer = strtoll(digits, NULL, 10)};
    if (!is_whole || errno == ERANGE)
        token->value = (struct list_value){.type = LIST_REAL, .real = strtod(digits, NULL)};
    if (token->value.type == LIST_REAL && !isfinite(token->value.real))
        return err_set(err, "this number is too large");
    struct slice unit = {*at + len, strspn(*at + len, NAME_LETTERS)};
    token->source = (struct slice){*at, len + unit.len};
    *at += len + unit.len;
    return read_unit(unit, token, err);
}

static int lex_text(const char **at, struct buf *texts, struct expr_token *token, struct err *err)
{
    const char *from = *at + 1;
    char *out = buf_reserve(texts, strlen(from) + 1);
    size_t len = 0;
    if (!out)
        return err_set(err, "the texts are too long");
    for (; *from && *from != '"'; from++) {
        if (*from == '\\' && from[1] != '"' && from[1] != '\\')
            return err_set(err, "a backslash in a text stands before a double quote or a "
                                "backslash");
        from += *from == '\\';
        out[len++] = *from;
    }
    if (!*from)
        return err_set(err, "the text has no closing double quote");
    texts->len += len;
    token->type = TOKEN_TEXT;
    token->value = (struct list_value){.type = LIST_TEXT, .bytes = {out, len}};
    token->source = (struct slice){*at, (size_t)(from + 1 - *at)};
    *at = from + 1;
    return 0;
}

static int lex_symbol(const char **at, struct expr_token *token, struct err *err)
{
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        size_t len = strlen(symbols[i].text);
        if (strncmp(*at, symbols[i].text, len) != 0)
            continue;
        token->type = symbols[i].type;
        token->op = symbols[i].op;
        token->source = (struct slice){*at, len};
        *at += len;
        return 0;
    }
    if (**at == '\'')
        return err_set(err, "texts stand in double quotes");
    return err_set(err, "nothing begins with this character");
}

int expr_lex(const char **at, struct buf *texts, struct expr_token *token, struct err *err)
{
    *at += strspn(*at, " \t\r\n");
    *token = (struct expr_token){.type = TOKEN_END, .source = {*at, 0}};
    if (!**at)
        return 0;
    if (**at == '"')
        return lex_text(at, texts, token, err);
    if (**at == '-' || strchr(DIGITS, **at))
        return lex_number(at, token, err);
    size_t name_len = strspn(*at, NAME_LETTERS);
    if (name_len == 0)
        return lex_symbol(at, token, err);
    token->type = TOKEN_NAME;
    token->source = (struct slice){*at, name_len};
    *at += name_len;
    for (enum expr_op op = EXPR_IN; op <= EXPR_CONTAINS; op++)
        if (slice_equals(token->source, expr_op_name(op))) {
            token->type = TOKEN_OP;
            token->op = op;
        }
    return 0;
}
