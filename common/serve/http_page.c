#include <string.h>

#include "common/serve/http.h"

struct page {
    struct evbuffer *out;
    bool failed;
};

static void add(struct page *p, const char *text)
{
    if (evbuffer_add(p->out, text, strlen(text)) != 0)
        p->failed = true;
}

static void add_escaped(struct page *p, const char *text)
{
    for (; *text; text++) {
        char one[2] = {*text, 0};
        add(p, *text == '<'    ? "&lt;"
               : *text == '>'  ? "&gt;"
               : *text == '&'  ? "&amp;"
               : *text == '"'  ? "&quot;"
               : *text == '\'' ? "&#39;"
                               : one);
    }
}

static void add_value(struct page *p, const json_t *v);

/* The JSON names are readable: first_step_s is shown as "first step s". */
static void add_name(struct page *p, const char *name)
{
    for (; *name; name++) {
        char one[2] = {*name == '_' ? ' ' : *name, 0};
        add_escaped(p, one);
    }
}

static void add_object(struct page *p, const json_t *object)
{
    const char *name;
    json_t *v;
    add(p, "<table>");
    json_object_foreach((json_t *)object, name, v)
    {
        add(p, "<tr><th>");
        add_name(p, name);
        add(p, "<td>");
        add_value(p, v);
    }
    add(p, "</table>");
}

/* A row for each object; the columns are the first object's names. */
static void add_table(struct page *p, const json_t *list)
{
    const char *name;
    json_t *v;
    json_t *first = json_array_get(list, 0);
    add(p, "<table><tr>");
    json_object_foreach(first, name, v)
    {
        add(p, "<th>");
        add_name(p, name);
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        add(p, "<tr>");
        json_object_foreach(first, name, v)
        {
            add(p, "<td>");
            add_value(p, json_object_get(json_array_get(list, i), name));
        }
    }
    add(p, "</table>");
}

static void add_list(struct page *p, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        add(p, i ? " " : "");
        add_value(p, json_array_get(list, i));
    }
}

static void add_value(struct page *p, const json_t *v)
{
    if (json_is_object(v))
        add_object(p, v);
    else if (json_is_array(v) && json_is_object(json_array_get(v, 0)))
        add_table(p, v);
    else if (json_is_array(v))
        add_list(p, v);
    else if (json_is_string(v))
        add_escaped(p, json_string_value(v));
    else if (json_is_integer(v))
        p->failed |=
            evbuffer_add_printf(p->out, "%" JSON_INTEGER_FORMAT, json_integer_value(v)) < 0;
    else if (json_is_real(v))
        p->failed |= evbuffer_add_printf(p->out, "%.6g", json_real_value(v)) < 0;
    else if (json_is_boolean(v))
        add(p, json_is_true(v) ? "yes" : "no");
    else
        add(p, "&ndash;");
}

bool http_page(struct evbuffer *out, const json_t *status, const char *not_ready)
{
    struct page p = {out, false};
    const char *process = json_string_value(json_object_get(status, "process"));
    add(&p, "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">"
            "<meta http-equiv=\"refresh\" content=\"5\"><title>gradwire ");
    add_escaped(&p, process ? process : "");
    add(&p, "</title><style>body{font:15px sans-serif;margin:2em}table{border-collapse:collapse}"
            "th,td{text-align:left;vertical-align:top;padding:2px 12px 2px 0;"
            "border-bottom:1px solid #ddd}th{font-weight:600;color:#555}</style></head><body><h1>");
    add_escaped(&p, process ? process : "gradwire");
    add(&p, "</h1><p>");
    add_escaped(&p, not_ready ? not_ready : "ready");
    add(&p, " &middot; <a href=\"/status\">/status</a> &middot; <a href=\"/metrics\">/metrics</a>"
            "</p>");
    add_object(&p, status);
    add(&p, "</body></html>\n");
    return !p.failed;
}
