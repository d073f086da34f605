#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/flags/flags.h"

static void running(FILE *out, const char *text)
{
    roff_text(out, text, strlen(text));
}

static void becomes(void (*write)(FILE *, const char *), const char *text, const char *wanted)
{
    char *made = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&made, &bytes);
    assert_non_null(out);
    write(out, text);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(made, wanted);
    free(made);
}

static void sentences_begin_on_new_lines(void **state)
{
    (void)state;
    becomes(running, "One\nsentence. Another? Digits, . and ... \nthree.",
            "One sentence.\nAnother?\nDigits, . and ...\nthree.\n");
    becomes(running, "", "");
    char lengthy[200];
    memset(lengthy, 'a', sizeof lengthy);
    for (size_t i = 9; i < sizeof lengthy; i += 10)
        lengthy[i] = ' ';
    lengthy[sizeof lengthy - 1] = 0;
    char *made = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&made, &bytes);
    assert_non_null(out);
    running(out, lengthy);
    assert_int_equal(fclose(out), 0);
    for (const char *line = made; *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") < 80);
    free(made);
}

static void what_roff_interprets_is_escaped(void **state)
{
    (void)state;
    becomes(running, "a\\b .x 'y", "a\\eb .x 'y\n");
    becomes(running, ".Sh x", "\\&.Sh x\n");
    becomes(running, "'x'", "\\&'x'\n");
    becomes(running, "`--set a-b` and a-b", "\\fB\\-\\-set a\\-b\\fP and a-b\n");
    becomes(running, "**No** [a link](x.md#y), `[0, 1](2)`",
            "\\fBNo\\fP a link, \\fB[0, 1](2)\\fP\n");
}

static void a_page_becomes_sections_lists_and_displays(void **state)
{
    (void)state;
    becomes(
        roff_markdown,
        "# Title\n\n<!-- no -->\n\nFirst.\nSecond.\n\n## Contents\n\n- [x](#x)\n\n## "
        "One\n\nText\n`a` b.\n\nMore.\n\n"
        "- item\n  goes on\n- other\n\n### Below\n\n```yaml\nx: -1\n.y\n```\n\nAfter.\n\n"
        "| Key | Value | Meaning |\n|---|---|---|\n| `a b` | 1 \\| 2 | What. |\n| c | | That. |\n",
        "First.\nSecond.\n.Sh One\nText \\fBa\\fP b.\n.Pp\nMore.\n.Bl -bullet\n.It\nitem goes "
        "on\n.It\nother\n.El\n"
        ".Ss Below\n.Bd -literal -offset indent\nx: \\-1\n\\&.y\n.Ed\n.Pp\nAfter.\n.Bl -tag -width "
        "Ds\n"
        ".It Sy \\&a\\ b\nWhat.\n.br\nValue: 1 | 2\n.It Sy \\&c\nThat.\n.El\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentences_begin_on_new_lines),
        cmocka_unit_test(what_roff_interprets_is_escaped),
        cmocka_unit_test(a_page_becomes_sections_lists_and_displays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
