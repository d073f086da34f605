#include "launch/policy.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "common/base/mem.h"
#include "common/base/printable.h"

enum { POLICY_EXIT_RESTART = 128, POLICY_EXIT_FAILED = 1 };

enum err policy_init(struct policy *p, uint32_t n, uint32_t chief, uint32_t restarts_max)
{
    struct policy_process *process = mem_zalloc(n, sizeof *process);
    if (!process)
        return ERR_NOMEM;
    *p = (struct policy){.restarts_max = restarts_max,
                         .chief = chief,
                         .spare = POLICY_NONE,
                         .n = n,
                         .process = process};
    return ERR_OK;
}

void policy_at_step(struct policy *p, uint64_t step)
{
    if (step > p->step)
        policy_made_step(p);
    p->step = step;
}

void policy_published(struct policy *p, uint64_t cut)
{
    if (cut < p->next_cut)
        return;
    p->next_cut = cut + 1;
    policy_made_step(p);
}

static uint32_t policy_delay_ms(uint32_t delays_before)
{
    uint32_t delay_ms = POLICY_DELAY_FIRST_MS;
    for (uint32_t i = 0; i < delays_before && delay_ms < POLICY_DELAY_MAX_MS; i++)
        delay_ms *= 2;
    return delay_ms < POLICY_DELAY_MAX_MS ? delay_ms : POLICY_DELAY_MAX_MS;
}

static void policy_say_how(struct policy_verdict *v, int status)
{
    if (WIFSIGNALED(status))
        (void)snprintf(v->why, sizeof v->why, "killed by signal %d (%s)", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
    else
        (void)snprintf(v->why, sizeof v->why, "exited with %d", WEXITSTATUS(status));
}

static void policy_add_why(struct policy_verdict *v, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void policy_add_why(struct policy_verdict *v, const char *fmt, ...)
{
    size_t at = strlen(v->why);
    va_list args;
    va_start(args, fmt);
    (void)printable_vformat(v->why + at, sizeof v->why - at, fmt, args);
    va_end(args);
}

/* Handle a death after which a restart can help. */
static void policy_death(struct policy *p, uint32_t i, struct policy_verdict *v)
{
    struct policy_process *process = &p->process[i];
    if (p->ending || p->chief_done)
        return;
    process->deaths_without_step++;
    v->action = POLICY_END;
    v->exit_code = POLICY_EXIT_FAILED;
    if (process->deaths_without_step >= POLICY_DEATHS_WITHOUT_STEP) {
        policy_add_why(v, "; %u deaths without a new step or checkpoint",
                       process->deaths_without_step);
    } else if (p->restarts >= p->restarts_max) {
        policy_add_why(v, "; all %u restarts are used", p->restarts_max);
    } else {
        v->action = POLICY_RESTART;
        v->delay_ms = policy_delay_ms(process->delays++);
        process->restarts++;
        p->restarts++;
    }
    if (v->action == POLICY_END && i == p->spare) {
        v->action = POLICY_GONE;
        policy_add_why(v, "; the job continues without it");
    }
}

/* Assert: the total of restarts is the sum over processes; after a verdict that ends the job no process is restarted. */
static void policy_check(const struct policy *p, const struct policy_verdict *v, bool ending)
{
    uint32_t restarts = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        restarts += p->process[i].restarts;
        assert(p->process[i].delays <= p->process[i].restarts);
    }
    assert(restarts == p->restarts && restarts <= p->restarts_max);
    assert(v->action != POLICY_END || (p->ending && !ending));
    assert(v->action != POLICY_RESTART ||
           (!ending && !p->chief_done && v->delay_ms >= POLICY_DELAY_FIRST_MS &&
            v->delay_ms <= POLICY_DELAY_MAX_MS));
    (void)restarts;
    (void)v;
    (void)ending;
}

struct policy_verdict policy_exit(struct policy *p, uint32_t i, int status)
{
    struct policy_verdict v = {.action = POLICY_GONE};
    bool ending = p->ending;
    policy_say_how(&v, status);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        p->chief_done |= i == p->chief;
    } else if (WIFEXITED(status) && WEXITSTATUS(status) < POLICY_EXIT_RESTART) {
        v.exit_code = WEXITSTATUS(status);
        v.action = p->ending ? POLICY_GONE : POLICY_END;
    } else {
        policy_death(p, i, &v);
    }
    p->ending |= v.action == POLICY_END;
    policy_check(p, &v, ending);
    return v;
}

struct policy_verdict policy_lost(struct policy *p, uint32_t i)
{
    struct policy_verdict v = {.action = POLICY_GONE};
    bool ending = p->ending;
    (void)snprintf(v.why, sizeof v.why, "lost with its host");
    policy_death(p, i, &v);
    p->ending |= v.action == POLICY_END;
    policy_check(p, &v, ending);
    return v;
}
