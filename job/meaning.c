/* Three lists: words, keys, and options that no key has. A name is compared in lower case, without anything but letters and
 * digits. */
#include "job/keys.h"

#include <string.h>

struct meaning {
    /* names in PyTorch, Keras, scikit-learn, XGBoost or LightGBM, or common ones, separated by blanks */
    const char *names;
    const char *here;
};

/* A name can be in several lines: the first one whose word is allowed for the key is used. */
static const struct meaning words[] = {
    /* losses */
    {"bcewithlogits bcewithlogitsloss sigmoidcrossentropy sigmoidcrossentropywithlogits",
     "binary_crossentropy: {from_logits: true}"},
    {"bce bceloss logloss binarylogloss binary binarylogistic logistic logisticregression",
     "binary_crossentropy"},
    {"ce cce crossentropy crossentropyloss softmaxcrossentropy softmaxcrossentropywithlogits "
     "sparsesoftmaxcrossentropywithlogits",
     "sparse_categorical_crossentropy: {from_logits: true}"},
    {"categoricalcrossentropy scc sparsecrossentropy nll nllloss negativeloglikelihood "
     "multilogloss multiclass multisoftmax multisoftprob",
     "sparse_categorical_crossentropy"},
    {"mseloss l2 l2loss squarederror squaredloss regression regsquarederror leastsquares "
     "meansquarederror",
     "mean_squared_error"},
    {"maeloss l1 l1loss absoluteerror regabsoluteerror meanabsoluteerror", "mean_absolute_error"},
    /* metrics */
    {"acc accuracyscore binaryaccuracy categoricalaccuracy sparsecategoricalaccuracy", "accuracy"},
    {"rocauc aucroc rocaucscore auroc areaunderthecurve", "auc"},
    {"sensitivity tpr truepositiverate recallscore", "recall"},
    {"ppv precisionscore", "precision"},
    {"bce bceloss binarycrossentropy crossentropy binarylogloss", "logloss"},
    {"ne", "normalized_entropy"},
    /* layers and activations */
    {"linear fc fullyconnected innerproduct", "dense"},
    {"linear identity", "linear"},
    {"relu6 rectifier", "relu"},
    {"swish", "silu"},
    {"logistic", "sigmoid"},
    {"lrelu leakyrelu prelu", "leaky_relu"},
    {"conv convolution convolution2d", "conv2d"},
    {"maxpool maxpool2d maxpooling", "max_pooling2d"},
    {"avgpool avgpool2d averagepooling", "average_pooling2d"},
    {"gap globalavgpool globalaveragepooling adaptiveavgpool2d", "global_average_pooling2d"},
    {"globalmaxpool globalmaxpooling adaptivemaxpool2d", "global_max_pooling2d"},
    {"bn batchnorm batchnorm1d batchnorm2d", "batch_normalization"},
    {"ln layernorm", "layer_normalization"},
    {"cat concat", "concatenate"},
    {"residual sum plus", "add"},
    {"view", "reshape"},
    {"lookup", "embedding"},
    /* initializers */
    {"xavier xavieruniform glorot", "glorot_uniform"},
    {"xaviernormal", "glorot_normal"},
    {"kaiming kaiminguniform he", "he_uniform"},
    {"kaimingnormal", "he_normal"},
    {"normal gaussian", "random_normal"},
    {"uniform", "random_uniform"},
    /* optimizers, schedules */
    {"momentum sgdm", "sgd: {momentum: 0.9}"},
    {"nesterov nag", "sgd: {momentum: 0.9, nesterov: true}"},
    {"adamweightdecay", "adamw"},
    {"followtheregularizedleader", "ftrl"},
    {"cosine cosineannealing cosineannealinglr", "cosine_decay"},
    {"exponential exponentiallr", "exponential_decay"},
    {"multistep multisteplr step steplr piecewise", "piecewise_constant_decay"},
    {"poly polynomial polynomiallr linear", "polynomial_decay"},
    /* update modes */
    {"bsp synchronous", "sync"},
    {"asp asynchronous hogwild downpour", "async"},
    {"stalesynchronous", "ssp"},
    {"localsgd diloco fedavg", "geo"},
    /* data */
    {"mnist ubyte", "idx"},
    {"cifar", "cifar10"},
    {"tsv", "csv, with data.delimiter: tab,"},
    {"svmlight svm", "libsvm"},
    {"numeric numerical float double int integer real continuous scalar", "number"},
    {"categorical cat string str text object factor enum nominal", "category"},
    {"target y class response outcome groundtruth", "label"},
    {"drop unused exclude", "ignore"},
    {"sampleweight exampleweight", "weight"},
    /* switches with more than two values */
    {"true yes on", "check"},
    {"true yes on", "skip"},
    {"false no off", "none"},
    {"false no", "off"},
};

static const struct meaning keys[] = {
    {"lr eta stepsize alpha baselr", "training.learning_rate"},
    {"batch bs batchsize minibatch minibatchsize trainbatchsize globalbatchsize",
     "training.batch_size"},
    {"epoch nepochs numepochs maxepochs numtrainepochs niter numboostround", "training.epochs"},
    {"randomseed randomstate rngseed", "training.seed"},
    {"gradclip clip clipgradnorm maxgradnorm gradientclip gradientclipping globalclipnorm",
     "training.clip_norm"},
    {"gradaccum gradientaccumulation accumulatesteps accumulategradbatches",
     "training.gradient_accumulation_steps"},
    {"warmup numwarmupsteps", "training.warmup_steps"},
    {"schedule scheduler lrschedule lrscheduler decay", "training.learning_rate_schedule"},
    {"classweights", "training.class_weight"},
    {"mode updatemode", "training.update"},
    {"opt optim solver", "optimizer"},
    {"lossfn lossfunction criterion objective", "model.loss"},
    {"metric evalmetric", "model.metrics"},
    {"inputshape inputsize", "model.input.shape"},
    {"traindata trainfile trainfiles trainingdata file files path paths", "data.train"},
    {"val valid validationdata test testdata evaldata", "data.eval"},
    {"sep separator", "data.delimiter"},
    {"navalues nullvalues", "data.missing"},
    {"hasheader skipheader", "data.header"},
    {"earlystop earlystoppingrounds", "early_stopping.patience"},
    {"saveevery savesteps checkpointsteps", "checkpoint.every_steps"},
    {"maxtokeep savetotallimit", "checkpoint.keep"},
    {"nthreads numthreads njobs", "worker.threads"},
    /* keys of layers and optimizers: only if the group has such a key */
    {"neurons outfeatures width hidden", "units"},
    {"outchannels channels", "filters"},
    {"kernel", "kernel_size"},
    {"act nonlinearity", "activation"},
    {"p prob probability", "rate"},
    {"numembeddings vocabsize", "input_dim"},
    {"embeddingdim", "output_dim"},
    {"eps", "epsilon"},
    {"betas beta1", "beta_1"},
    {"beta2", "beta_2"},
    {"wd l2", "weight_decay"},
};

/* Options of Keras and PyTorch that no key has, though a key looks like them. */
static const struct meaning others[] = {
    {"clipnorm", "Keras' clipnorm limits the norm of each tensor by itself, and a job has no such "
                 "key; training.clip_norm limits the norm over all tensors (global_clipnorm in "
                 "Keras)"},
    {"clipvalue clipgradvalue clipgradientvalue",
     "it limits each number of the gradient by itself, and a job has no such key; "
     "training.clip_norm limits the norm over all tensors (global_clipnorm in Keras)"},
    {"earlystoppingmode",
     "remove it: whether less or more is better follows from training.monitor"},
    {"earlystoppingbaseline", "remove it: a job has no such threshold"},
    {"earlystoppingverbose", "remove it: the log says why a job stops"},
};

/* Writes the letters and digits of the name in lower case; "" if they do not fit. */
static void plain(const char *name, char out[static JOB_NAME_MAX])
{
    size_t n = 0;
    for (; *name; name++) {
        char c = *name;
        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        if ((c < 'a' || c > 'z') && (c < '0' || c > '9'))
            continue;
        if (n == JOB_NAME_MAX - 1) {
            n = 0;
            break;
        }
        out[n++] = c;
    }
    out[n] = 0;
}

static bool meaning_has_name(const struct meaning *m, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = m->names; n && (at = strstr(at, name)); at += n)
        if ((at == m->names || at[-1] == ' ') && (at[n] == ' ' || at[n] == 0))
            return true;
    return false;
}

/* Is the first word of a meaning one of these, and is it supported? */
static bool is_allowed(const struct job_word *allowed, const char *here)
{
    size_t n = strcspn(here, ":,");
    for (const struct job_word *w = allowed; w->word; w++)
        if (strlen(w->word) == n && strncmp(w->word, here, n) == 0)
            return w->value != JOB_WORD_LATER;
    return false;
}

const char *job_meaning_word(const struct job_word *allowed, const char *word)
{
    char name[JOB_NAME_MAX];
    plain(word, name);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (meaning_has_name(&words[i], name) && is_allowed(allowed, words[i].here))
            return words[i].here;
    return NULL;
}

const char *job_meaning_other(const char *name)
{
    char is[JOB_NAME_MAX];
    plain(name, is);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (meaning_has_name(&others[i], is))
            return others[i].here;
    return NULL;
}

bool job_meaning_key(const char *group, const char *name, char out[static JOB_PATH_MAX])
{
    char is[JOB_NAME_MAX];
    plain(name, is);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *here = keys[i].here, *dot = strrchr(here, '.');
        if (!meaning_has_name(&keys[i], is))
            continue;
        (void)snprintf(out, JOB_PATH_MAX, "%s%s%s", group, *group ? "." : "", dot ? dot + 1 : here);
        if (job_key_find(out))
            return true;
        (void)snprintf(out, JOB_PATH_MAX, "%s", here);
        if (job_key_find(out))
            return true;
    }
    return false;
}
