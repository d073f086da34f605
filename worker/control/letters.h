/* What the training thread and the control thread say to each other. */
#ifndef GRADWIRE_WORKER_CONTROL_LETTERS_H
#define GRADWIRE_WORKER_CONTROL_LETTERS_H

/* Letters to the training thread. */
enum train_letter {
    TRAIN_CHIEF,  /* number: frame type; data: a message of the chief */
    TRAIN_HELLO,  /* the connection to the chief is up: a hello is wanted (CONTROL_SEND) */
    TRAIN_EPOCH,  /* async: epoch `number` is done: evaluate */
    TRAIN_FINISH, /* all is learned: final parameters, evaluation, model/ */
    TRAIN_GO,     /* SIGTERM */
    TRAIN_STOP,   /* end now; number: exit code; data: why, a string */
};

/* Letters to the control thread. */
enum control_letter {
    CONTROL_SEND,      /* number: frame type; data: a message for the chief */
    CONTROL_STEP,      /* sync: parameters of step `number` are here */
    CONTROL_EVALUATED, /* data: struct evaluation (model/evaluation.h) */
    CONTROL_FINISHED,  /* number: step; the final evaluation is done and model/ is written */
    CONTROL_ENOUGH, /* data: uint64_t, the generation. Nothing more is to be learned; sync: after step `number` */
    CONTROL_QUIT, /* from control_close */
    CONTROL_ROLE, /* the first of the role's own: control_ops.on_letter gets them */
};

#endif
