/* Part of kernels_impl.h: the update kernels. Each optimizer has a step function with Keras 3's formula (each
 * cites its file in keras/src/optimizers), and one loop runs all of them. A step gets one vector of the weights
 * after decay, of the slots and of the mean gradient; it updates the slots and returns the new weights. The
 * operations and their order must not change: equal bits depend on them. */

enum { SLOTS_MAX = 3 };
#define HAS_ROOM(NUMBER, name, slots, ...) _Static_assert((slots) <= SLOTS_MAX, #name);
OPTIMIZER_STEPS(HAS_ROOM)
typedef vf optimizer_step(vf w, vf *slot, vf g, const struct update_rates *r);

/* sgd.py: w - lr g */
INLINE vf sgd_step(vf w, vf *slot, vf g, const struct update_rates *r)
{
    (void)slot;
    return w - g * r->lr;
}

/* sgd.py: v = momentum v - lr g; w + v */
INLINE vf momentum_step(vf w, vf *slot, vf g, const struct update_rates *r)
{
    slot[0] = slot[0] * r->momentum - g * r->lr;
    return w + slot[0];
}

/* sgd.py: v as in momentum_step; w + momentum v - lr g */
INLINE vf nesterov_step(vf w, vf *slot, vf g, const struct update_rates *r)
{
    slot[0] = slot[0] * r->momentum - g * r->lr;
    return w + (slot[0] * r->momentum - g * r->lr);
}

/* adam.py: m += (g - m) (1 - beta_1); v += (g^2 - v) (1 - beta_2) */
INLINE void adam_means(vf *slot, vf g, const struct update_rates *r)
{
    slot[0] = slot[0] + (g - slot[0]) * r->one_minus_beta_1;
    slot[1] = slot[1] + (g * g - slot[1]) * r->one_minus_beta_2;
}

/* adam.py: w - alpha m / (sqrt(v) + epsilon); r->lr is alpha */
INLINE vf adam_step(vf w, vf *slot, vf g, const struct update_rates *r)
{
    adam_means(slot, g, r);
    return w - slot[0] * r->lr / (KERNELS_SQRT(slot[1]) + r->epsilon);
}

/* adam.py, amsgrad: uses v_hat = max(v_hat, v) instead of v. A NaN in v is kept. */
INLINE vf amsgrad_step(vf w, vf *slot, vf g, const struct update_rates *r)
{
    adam_means(slot, g, r);
    slot[2] = pick(slot[2] > slot[1], slot[2], slot[1]);
    return w - slot[0] * r->lr / (KERNELS_SQRT(slot[2]) + r->epsilon);
}

/* adagrad.py: a += g^2; w - lr g / sqrt(a + epsilon) */
INLINE vf adagrad_step(vf w, vf *slot, vf g, const struct update_rates *r)
{
    slot[0] = slot[0] + g * g;
    return w - g * r->lr / KERNELS_SQRT(slot[0] + r->epsilon);
}

INLINE vf decaying_mean(vf mean, vf x, float rho)
{
    return mean * rho + x * (1.0f - rho);
}

/* rmsprop.py: v = rho v + (1 - rho) g^2; the increment is lr g / sqrt(v + epsilon) */
INLINE vf rmsprop_increment(vf *slot, vf g, const struct update_rates *r)
{
    slot[0] = decaying_mean(slot[0], g * g, r->rho);
    return g * r->lr / KERNELS_SQRT(slot[0] + r->epsilon);
}

/* rmsprop.py, centered: a = rho a + (1 - rho) g, and v - a^2 instead of v. v - a^2 is a variance: if rounding
 * makes it negative, it becomes 0 (Keras can get the root of a negative number there). */
INLINE vf rmsprop_centered_increment(vf *slot, vf g, const struct update_rates *r)
{
    slot[0] = decaying_mean(slot[0], g * g, r->rho);
    slot[1] = decaying_mean(slot[1], g, r->rho);
    vf variance = slot[0] - slot[1] * slot[1];
    variance = pick(variance < 0.0f, all(0.0f), variance);
    return g * r->lr / KERNELS_SQRT(variance + r->epsilon);
}

INLINE vf rmsprop_step(vf w, vf *slot, vf g, const struct update_rates *r)
{
    return w - rmsprop_increment(slot, g, r);
}

INLINE vf rmsprop_centered_step(vf w, vf *slot, vf g, const struct update_rates *r)
{
    return w - rmsprop_centered_increment(slot, g, r);
}

/* rmsprop.py, momentum: m = momentum m + increment; w - m */
INLINE vf rmsprop_momentum_step(vf w, vf *slot, vf g, const struct update_rates *r)
{
    slot[1] = slot[1] * r->momentum + rmsprop_increment(slot, g, r);
    return w - slot[1];
}

INLINE vf rmsprop_centered_momentum_step(vf w, vf *slot, vf g, const struct update_rates *r)
{
    slot[2] = slot[2] * r->momentum + rmsprop_centered_increment(slot, g, r);
    return w - slot[2];
}

/* x^power, x >= 0: a square root if power is 0.5, otherwise one element at a time. */
INLINE vf power_of(vf x, float power)
{
    if (power == 0.5f)
        return KERNELS_SQRT(x);
    for (int i = 0; i < LANES; i++)
        x[i] = (float)real_pow((double)x[i], (double)power);
    return x;
}

/* ftrl.py: n' = n + g^2; s = (n'^p - n^p) / lr with p = -learning_rate_power; z += g + 2 l2_shrinkage w - s w; w =
 * (clip(z, -l1, l1) - z) / (n'^p / lr + 2 (l2 + beta / (2 lr))). r->l2_added is the last term, r->shrinkage is 2
 * l2_shrinkage. */
INLINE vf ftrl_step(vf w, vf *slot, vf g, const struct update_rates *r)
{
    vf next = slot[0] + g * g, root = power_of(next, r->power);
    vf sigma = (root - power_of(slot[0], r->power)) / r->lr;
    vf z = slot[1] + (g + w * r->shrinkage - sigma * w);
    vf clipped = pick(z > r->l1, all(r->l1), pick(z < -r->l1, all(-r->l1), z));
    slot[0] = next;
    slot[1] = z;
    return (clipped - z) / (root / r->lr + r->l2_added);
}

/* lamb.py: m and v as adam's; u = (m / (1 - beta_1^t)) / (sqrt(v / (1 - beta_2^t)) + epsilon) */
INLINE vf lamb_u(vf *slot, vf g, const struct update_rates *r)
{
    adam_means(slot, g, r);
    return slot[0] / r->correction_1 / (KERNELS_SQRT(slot[1] / r->correction_2) + r->epsilon);
}

/* lamb.py: w - ratio lr u; r->lr is ratio lr */
INLINE vf lamb_step(vf w, vf *slot, vf g, const struct update_rates *r)
{
    return w - lamb_u(slot, g, r) * r->lr;
}

static void lamb_direction(float *u, float *decayed, const float *w, float *const *slot,
                           const float *g, const struct update_rates *rates, size_t n)
{
    const struct update_rates r = *rates;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vf s[SLOTS_MAX] = {load(slot[0] + i), load(slot[1] + i)}, old = load(w + i);
        store(u + i, lamb_u(s, load(g + i) * r.inv_n, &r));
        store(decayed + i, old - old * r.decay);
    }
    if (i < n) {
        size_t k = n - i;
        vf s[SLOTS_MAX] = {load_part(slot[0] + i, k), load_part(slot[1] + i, k)};
        vf old = load_part(w + i, k);
        store_part(u + i, lamb_u(s, load_part(g + i, k) * r.inv_n, &r), k);
        store_part(decayed + i, old - old * r.decay, k);
    }
}

/* `slots` and `step` are constants at each call, so the compiler makes a separate loop for each. The rates are
 * copied: otherwise the compiler must assume that a store to w_out changes them. */
INLINE void update_all(optimizer_step *step, int slots, float *w_out, const float *w,
                       float *const *slot, const float *g, const struct update_rates *rates,
                       size_t n)
{
    const struct update_rates r = *rates;
    float *s0 = slots > 0 ? slot[0] : NULL, *s1 = slots > 1 ? slot[1] : NULL;
    float *s2 = slots > 2 ? slot[2] : NULL;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vf s[SLOTS_MAX], old = load(w + i);
        if (slots > 0)
            s[0] = load(s0 + i);
        if (slots > 1)
            s[1] = load(s1 + i);
        if (slots > 2)
            s[2] = load(s2 + i);
        vf next = step(old - old * r.decay, s, load(g + i) * r.inv_n, &r);
        if (slots > 0)
            store(s0 + i, s[0]);
        if (slots > 1)
            store(s1 + i, s[1]);
        if (slots > 2)
            store(s2 + i, s[2]);
        store(w_out + i, next);
    }
    if (i < n) {
        size_t k = n - i;
        vf s[SLOTS_MAX], old = load_part(w + i, k);
        for (int j = 0; j < slots; j++)
            s[j] = load_part(slot[j] + i, k);
        vf next = step(old - old * r.decay, s, load_part(g + i, k) * r.inv_n, &r);
        for (int j = 0; j < slots; j++)
            store_part(slot[j] + i, s[j], k);
        store_part(w_out + i, next, k);
    }
}

#define UPDATE(NUMBER, name, slots, ...)                                                           \
    static void update_##name(float *w_out, const float *w, float *const *slot, const float *g,    \
                              const struct update_rates *r, size_t n)                              \
    {                                                                                              \
        update_all(name##_step, slots, w_out, w, slot, g, r, n);                                   \
    }
OPTIMIZER_STEPS(UPDATE)

INLINE void update_rows(optimizer_step *step, int slots, const struct kernel_row *row, size_t rows,
                        const struct update_rates *rates, size_t n)
{
    struct update_rates r = *rates;
    for (size_t i = 0; i < rows; i++) {
        float *s = row[i].slots, *const slot[SLOTS_MAX] = {s, s + n, s + 2 * n};
        r.lr = row[i].lr;
        update_all(step, slots, row[i].w, row[i].w, slot, row[i].g, &r, n);
    }
}

#define UPDATE_ROWS(NUMBER, name, slots, ...)                                                      \
    static void update_rows_##name(const struct kernel_row *row, size_t rows,                      \
                                   const struct update_rates *r, size_t n)                         \
    {                                                                                              \
        update_rows(name##_step, slots, row, rows, r, n);                                          \
    }
OPTIMIZER_STEPS(UPDATE_ROWS)
