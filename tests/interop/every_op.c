/* `interop_every_op DIR FILE` writes the graph of tests/lib/every_op.h as the SavedModel DIR and as the ONNX file FILE, and
 * prints a line for each result: the number of its columns, and its name. */
#include <stdio.h>

#include "formats/onnx/onnx.h"
#include "formats/tensorflow/saved_model.h"
#include "tests/lib/every_op.h"

int main(int argc, char **argv)
{
    struct errmsg e = {"interop_every_op DIR FILE"};
    if (argc != 3 || saved_model_write(argv[1], every_op_graph(), NULL, &e) ||
        onnx_write(argv[2], every_op_graph(), NULL, &e)) {
        (void)fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    every_op_print();
    return 0;
}
