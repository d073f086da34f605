#include "formats/keras/words.h"

#include <ctype.h>
#include <string.h>

static const char *const activations[] = {
    [ACT_LINEAR] = "linear", [ACT_RELU] = "relu",       [ACT_SIGMOID] = "sigmoid",
    [ACT_TANH] = "tanh",     [ACT_SOFTMAX] = "softmax", [ACT_LEAKY_RELU] = "leaky_relu",
    [ACT_ELU] = "elu",       [ACT_GELU] = "gelu",       [ACT_GELU_TANH] = NULL,
    [ACT_SELU] = "selu",     [ACT_SILU] = "silu",       [ACT_SOFTPLUS] = "softplus",
};
enum { ACTIVATIONS = sizeof activations / sizeof *activations };

const char *words_activation(enum activation a)
{
    return activations[a];
}

bool words_find_activation(const char *word, enum activation *a)
{
    for (unsigned i = 0; i < ACTIVATIONS; i++)
        if (activations[i] && strcmp(activations[i], word) == 0) {
            *a = (enum activation)i;
            return true;
        }
    return false;
}

/* Keras' two replacements: "_" between any character and an upper-case letter that lower-case ones follow, and between a
 * lower-case letter and an upper-case letter. */
void words_snake_case(const char *class, char *out, size_t bytes)
{
    size_t n = 0;
    for (size_t i = 0; class[i] && n + 2 < bytes; i++) {
        unsigned char c = (unsigned char)class[i], before = i ? (unsigned char)class[i - 1] : 0;
        bool begins = isupper(c) && islower((unsigned char)class[i + 1]);
        bool follows = isupper(c) && islower(before);
        if (i > 0 && (begins || follows))
            out[n++] = '_';
        out[n++] = (char)tolower(c);
    }
    out[n] = '\0';
}

const char *const *words_weights(enum layer_kind kind)
{
    static const char *const none[] = {NULL}, *const dense[] = {"kernel", "bias", NULL},
                             *const table[] = {"embeddings", NULL},
                             *const normalization[] = {"gamma", "beta", "moving_mean",
                                                       "moving_variance", NULL};
    switch (kind) {
    case LAYER_DENSE:
    case LAYER_CONV2D:
        return dense;
    case LAYER_BATCH_NORMALIZATION:
    case LAYER_LAYER_NORMALIZATION:
        return normalization;
    case LAYER_EMBEDDING:
        return table;
    default:
        return none;
    }
}
