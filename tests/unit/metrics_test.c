#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/serve/http.h"
#include "common/process/metrics.h"
#include "common/parameters/staleness.h"

struct page {
    struct metrics m;
    char text[16384];
};

static void begin(struct page *p)
{
    *p = (struct page){.m = {.out = evbuffer_new()}};
    assert_non_null(p->m.out);
}

static const char *text_of(struct page *p)
{
    ev_ssize_t n = evbuffer_remove(p->m.out, p->text, sizeof p->text - 1);
    assert_true(n >= 0 && !p->m.failed);
    p->text[n] = 0;
    evbuffer_free(p->m.out);
    return p->text;
}

static void assert_has(const char *text, const char *line)
{
    if (!strstr(text, line))
        fail_msg("'%s' is not in:\n%s", line, text);
}

static void a_family_is_named_explained_and_typed_before_its_samples(void **state)
{
    (void)state;
    struct page p;
    begin(&p);
    metrics_counter(&p.m, "gradwire_pushes_total", "Pushes.", UINT64_MAX);
    metrics_gauge(&p.m, "gradwire_loss", "Loss.", 0.1);
    assert_string_equal(text_of(&p), "# HELP gradwire_pushes_total Pushes.\n"
                                     "# TYPE gradwire_pushes_total counter\n"
                                     "gradwire_pushes_total 18446744073709551615\n"
                                     "# HELP gradwire_loss Loss.\n"
                                     "# TYPE gradwire_loss gauge\n"
                                     "gradwire_loss 0.1\n");
}

static void labels_are_escaped(void **state)
{
    (void)state;
    struct page p;
    begin(&p);
    metrics_family(&p.m, "a", METRICS_GAUGE, "A.");
    metrics_put(&p.m, 1, "path", "C:\\x", "said", "\"a\nb\"", "n", METRICS_NUMBER(7), NULL);
    assert_has(text_of(&p), "a{path=\"C:\\\\x\",said=\"\\\"a?b\\\"\",n=\"7\"} 1\n");
}

static void a_label_too_long_is_cut_and_closed(void **state)
{
    (void)state;
    static char longer[5000];
    struct page p;
    memset(longer, '"', sizeof longer - 1);
    begin(&p);
    metrics_family(&p.m, "a", METRICS_GAUGE, "A.");
    metrics_put(&p.m, 1, "x", longer, "y", "after", NULL);
    const char *text = text_of(&p);
    const char *end = strstr(text, "\"} 1\n");
    assert_non_null(end);
    assert_string_equal(end, "\"} 1\n");
    assert_memory_equal(end - 2, "\\\"", 2); /* no half of an escape */
}

static void numbers_that_are_none_have_their_words(void **state)
{
    (void)state;
    struct page p;
    begin(&p);
    metrics_gauge(&p.m, "a", "A.", (double)NAN);
    metrics_gauge(&p.m, "b", "B.", (double)INFINITY);
    metrics_gauge(&p.m, "c", "C.", -(double)INFINITY);
    metrics_gauge(&p.m, "d", "D.", 1.0 / 3);
    const char *text = text_of(&p);
    assert_has(text, "a NaN\n");
    assert_has(text, "b +Inf\n");
    assert_has(text, "c -Inf\n");
    assert_has(text, "d 0.33333333333333331\n");
}

static void buckets_are_cumulative_and_a_bound_belongs_to_its_bucket(void **state)
{
    (void)state;
    static struct metrics_seconds h;
    struct page p;
    metrics_observe(&h, 0.0001);
    metrics_observe(&h, 0.00010001);
    metrics_observe(&h, 0.5);
    metrics_observe(&h, 1000);
    metrics_observe(&h, -1);
    begin(&p);
    metrics_family(&p.m, "s", METRICS_HISTOGRAM, "S.");
    metrics_put_seconds(&p.m, &h, "phase", "wait", NULL);
    const char *text = text_of(&p);
    assert_has(text, "s_bucket{phase=\"wait\",le=\"0.0001\"} 2\n");
    assert_has(text, "s_bucket{phase=\"wait\",le=\"0.00025\"} 3\n");
    assert_has(text, "s_bucket{phase=\"wait\",le=\"0.25\"} 3\n");
    assert_has(text, "s_bucket{phase=\"wait\",le=\"0.5\"} 4\n");
    assert_has(text, "s_bucket{phase=\"wait\",le=\"100\"} 4\n");
    assert_has(text, "s_bucket{phase=\"wait\",le=\"+Inf\"} 5\n");
    assert_has(text, "s_sum{phase=\"wait\"} 1000.50020001\n");
    assert_has(text, "s_count{phase=\"wait\"} 5\n");
}

static void staleness_keeps_its_buckets(void **state)
{
    (void)state;
    struct staleness s = {0};
    struct page p;
    staleness_add(&s, 0);
    staleness_add(&s, 15);
    staleness_add(&s, 31);
    staleness_add(&s, 32);
    begin(&p);
    metrics_family(&p.m, "s", METRICS_HISTOGRAM, "S.");
    double bound[STALENESS_BUCKETS];
    staleness_bounds(bound);
    metrics_put_counts(&p.m, STALENESS_BUCKETS, bound, s.bucket, s.sum, NULL);
    const char *text = text_of(&p);
    assert_has(text, "s_bucket{le=\"0\"} 1\n");
    assert_has(text, "s_bucket{le=\"14\"} 1\n");
    assert_has(text, "s_bucket{le=\"15\"} 2\n");
    assert_has(text, "s_bucket{le=\"31\"} 3\n");
    assert_has(text, "s_bucket{le=\"63\"} 4\n");
    assert_has(text, "s_bucket{le=\"+Inf\"} 4\n");
    assert_has(text, "s_sum 78\n");
}

static void a_page_shows_what_it_is_given_as_text(void **state)
{
    (void)state;
    struct page p;
    begin(&p);
    json_t *status =
        json_pack("{s:s, s:[{s:i, s:s}, {s:i, s:n}], s:f}", "process", "<script>'&\"", "shards",
                  "shard", 3, "waits_for", "a<b", "shard", 4, "waits_for", "away_s", 0.25);
    assert_non_null(status);
    assert_true(http_page(p.m.out, status, "not <yet>"));
    json_decref(status);
    const char *text = text_of(&p);
    assert_null(strstr(text, "<script"));
    assert_has(text, "<h1>&lt;script&gt;&#39;&amp;&quot;</h1>");
    assert_has(text, "not &lt;yet&gt;");
    assert_has(text, "<tr><th>shard<th>waits for<tr><td>3<td>a&lt;b<tr><td>4<td>&ndash;");
    assert_has(text, "<th>away s<td>0.25");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_family_is_named_explained_and_typed_before_its_samples),
        cmocka_unit_test(labels_are_escaped),
        cmocka_unit_test(a_label_too_long_is_cut_and_closed),
        cmocka_unit_test(numbers_that_are_none_have_their_words),
        cmocka_unit_test(buckets_are_cumulative_and_a_bound_belongs_to_its_bucket),
        cmocka_unit_test(staleness_keeps_its_buckets),
        cmocka_unit_test(a_page_shows_what_it_is_given_as_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
