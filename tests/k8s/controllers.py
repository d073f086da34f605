"""What the controllers do when a pod ends: pure, a table for each.

Sources: training-operator v1.9 pkg/controller.v1/tensorflow/tfjob_controller.go (ReconcilePods, UpdateJobStatus) and
pkg/util/train/train_util.go (IsRetryableExitCode: >= 128); Kubernetes' pkg/controller/job/pod_failure_policy.go;
a StatefulSet's pods have restartPolicy Always, and the kubelet starts again whatever ends."""
LEAVE, RESTART, SUCCEEDED = "leave", "restart", "Succeeded"


def failed(why):
    return f"Failed: {why}"


def after_exit(policy, code):
    """One replica of a TFJob, by its restartPolicy: LEAVE, RESTART, or None: it has failed for good."""
    if code == 0:
        return RESTART if policy == "Always" else LEAVE
    if policy == "Never":
        return None
    if policy == "ExitCode":
        return RESTART if code >= 128 else None
    return RESTART


def tfjob_verdict(job, kind, index, code, codes):
    """`codes`: of every (kind, index), None while it runs."""
    specs = job["spec"]["tfReplicaSpecs"]
    action = after_exit(specs[kind].get("restartPolicy", "Never"), code)
    if action is None:
        return failed(f"{kind} {index} exited with {code}")
    if action == RESTART:
        return RESTART
    leader = next((k for k in ("Chief", "Master") if k in specs), None)
    if leader:
        return SUCCEEDED if kind == leader else LEAVE
    if job["spec"].get("successPolicy") == "AllWorkers":
        workers = [c for (k, _), c in codes.items() if k == "Worker"]
        return SUCCEEDED if all(c == 0 for c in workers) else LEAVE
    return SUCCEEDED if (kind, index) == ("Worker", 0) else LEAVE


def job_verdict(job, code, codes):
    if code == 0:
        done = [c for (k, _), c in codes.items() if k == "Job"]
        return SUCCEEDED if all(c == 0 for c in done) else LEAVE
    for rule in job["spec"].get("podFailurePolicy", {}).get("rules", []):
        if code in rule.get("onExitCodes", {}).get("values", []):
            return failed(f"a pod exited with {code}") if rule["action"] == "FailJob" else LEAVE
    return RESTART


def verdict(docs, kind, index, code, codes):
    if kind == "StatefulSet":
        return RESTART
    owner = next(d for d in docs if d["kind"] == ("Job" if kind == "Job" else "TFJob"))
    return job_verdict(owner, code, codes) if kind == "Job" else tfjob_verdict(owner, kind, index, code, codes)
