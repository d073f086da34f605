// A cluster with the controllers and webhooks of Kubeflow Trainer, JobSet and Kueue, by their own code: TrainJob -> JobSet ->
// Jobs; TFJobs and TrainJobs in a queue. Jobs have no pods: whoever asks says how they are.
//
// Arguments: the files of CRDs. Each line of standard input is a request: {"apply": [objects], "jobs": {name: the status of a
// Job}, "queue": "admit" or "evict" all workloads}. The controllers then reconcile until nothing changes. Each line of standard
// output answers one request: {"refused": why an object was not accepted}, or {"error": of the last look, "objects": what is
// there}.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type request struct {
	Apply []json.RawMessage            `json:"apply"`
	Jobs  map[string]batchv1.JobStatus `json:"jobs"`
	Queue string                       `json:"queue"`
}

type answer struct {
	Refused string          `json:"refused,omitempty"`
	Error   string          `json:"error,omitempty"`
	Objects []client.Object `json:"objects"`
}

func (c *cluster) take(ctx context.Context, line []byte) (*answer, error) {
	asked := request{}
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	for _, object := range asked.Apply {
		if err := c.apply(ctx, object); err != nil {
			return &answer{Refused: err.Error()}, nil
		}
	}
	err := c.setJobs(ctx, asked.Jobs)
	if err == nil && asked.Queue != "" {
		err = c.queue(ctx, asked.Queue == "admit")
	}
	if err != nil {
		return nil, err
	}
	return c.settle(ctx)
}

func serve(ctx context.Context, c *cluster, in *bufio.Reader, out *json.Encoder) error {
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return err
		}
		a, err := c.take(ctx, line)
		if err == nil {
			err = out.Encode(a)
		}
		if err != nil {
			return err
		}
	}
}

func main() {
	ctrl.SetLogger(logr.Discard())
	ctx := context.Background()
	c, err := newCluster(ctx, os.Args[1:])
	if err == nil {
		err = serve(ctx, c, bufio.NewReader(os.Stdin), json.NewEncoder(os.Stdout))
	}
	if !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
