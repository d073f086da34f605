/* Only integer arithmetic, so the bytes are the same on every machine. A person's income depends on age (highest in
 * the middle of life), years of school, hours, marriage, occupation and capital gains, on two interactions (school
 * counts more in some occupations, hours more with marriage), and on luck. All other columns have no effect: a model
 * should ignore them. */
#include "data/drawn/census.h"

#include <stdio.h>

#include "common/base/rng.h"

enum { SCHOOLS = 8, MARRIAGES = 5, OCCUPATIONS = 8, WORDS = 8 };

static const char *const schools[SCHOOLS] = {"9th",        "11th",      "HS-grad", "Some-college",
                                             "Assoc-acdm", "Bachelors", "Masters", "Doctorate"};
static const int school_years[SCHOOLS] = {5, 7, 9, 10, 12, 13, 14, 16};
static const char *const marriages[MARRIAGES] = {"Never-married", "Married-civ-spouse", "Divorced",
                                                 "Separated", "Widowed"};
static const char *const occupations[OCCUPATIONS] = {
    "Adm-clerical",   "Craft-repair", "Exec-managerial", "Other-service",
    "Prof-specialty", "Sales",        "Tech-support",    "Transport-moving"};
static const int occupation_pay[OCCUPATIONS] = {-30, 0, 60, -80, 50, 20, 30, -20};
static const char *const workclasses[WORDS] = {"Private",          "Private", "Private",
                                               "Self-emp-not-inc", "Private", "Local-gov",
                                               "Self-emp-inc",     "?"};
static const char *const relations[] = {"Not-in-family", "Own-child", "Unmarried",
                                        "Other-relative"};
static const char *const groups[] = {"Group-a", "Group-b", "Group-c", "Group-d"};
static const char *const countries[WORDS] = {"United-States", "United-States", "Mexico", "Canada",
                                             "Germany",       "India",         "Cuba",   "?"};

struct chance {
    uint64_t key, position;
};

/* Uniform in [0, n). */
static int below(struct chance *c, int n)
{
    return (int)((rng_u64(c->key, c->position++) >> 32) * (uint64_t)n >> 32);
}

/* Near 0, from -most to most: the mean of four. */
static int around(struct chance *c, int most)
{
    int sum = 0;
    for (int i = 0; i < 4; i++)
        sum += below(c, 2 * most + 1) - most;
    return sum / 4;
}

struct person {
    int age, school, marriage, occupation, gain, loss, hours;
};

/* One random number in each statement: within an expression the compiler would choose their order. */
static struct person person_draw(struct chance *c)
{
    struct person p = {0};
    p.age = 17 + below(c, 40);
    p.age += below(c, 25);
    p.school = below(c, SCHOOLS);
    p.school = (p.school + below(c, SCHOOLS)) / 2;
    p.occupation = below(c, OCCUPATIONS);
    p.hours = 40 + around(c, 35);
    p.marriage = below(c, MARRIAGES);
    if (p.age < 25)
        p.marriage = below(c, 4) == 0;
    else if (below(c, 3) == 0)
        p.marriage = 1;
    int capital = below(c, 24), amount = below(c, 150), times = below(c, 100);
    if (capital < 2)
        p.gain = 500 + amount * times;
    else if (capital == 2)
        p.loss = 1400 + 10 * times;
    return p;
}

/* Above 0: more than 50K. */
static int score(const struct person *p, struct chance *c)
{
    int from_best = p->age - 48, married = p->marriage == 1;
    int years = school_years[p->school] - 10;
    int expert = p->occupation == 2 || p->occupation == 4 || p->occupation == 6;
    int s = -230 - from_best * from_best / 7;
    s += years * (expert ? 40 : 22) + occupation_pay[p->occupation];
    s += (p->hours - 40) * (married ? 6 : 3) + (married ? 190 : 0);
    s += p->gain / 12 + p->loss / 20;
    return s + around(c, 400);
}

size_t census_write(char *out, size_t room, int eval, uint64_t row)
{
    struct chance c = {.key = rng_key(1, RNG_SYNTHETIC, (uint64_t)eval, row)};
    struct person p = person_draw(&c);
    int rich = score(&p, &c) > 0;
    int hidden = below(&c, 18) == 0, husband = below(&c, 2), relation = below(&c, 4);
    int workclass = below(&c, WORDS), weight = 20000 + below(&c, 400000), group = below(&c, 4);
    int female = below(&c, 2), country = below(&c, WORDS);
    return (size_t)snprintf(
        out, room, "%d, %s, %d, %s, %d, %s, %s, %s, %s, %s, %d, %d, %d, %s, %s\n", p.age,
        workclasses[workclass], weight, schools[p.school], school_years[p.school],
        marriages[p.marriage], hidden ? "?" : occupations[p.occupation],
        p.marriage != 1 ? relations[relation]
        : husband       ? "Husband"
                        : "Wife",
        groups[group], female ? "Female" : "Male", p.gain, p.loss, p.hours, countries[country],
        rich ? ">50K" : "<=50K");
}
