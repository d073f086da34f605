"""The rules by which the kubelet and the controllers treat pods: pure, each rule with its source.

Sources: training-operator 1.7.0, 1.8.1 and 1.9.3 (`common/` is pkg/controller.v1/common, `tensorflow/`
pkg/controller.v1/tensorflow, `core/` pkg/core, `train/` pkg/util/train), Kubernetes 1.29 (`job/` is
pkg/controller/job, `statefulset/` pkg/controller/statefulset), and JobSet 0.10 (`jobset/` is pkg/controllers).

Happy path: pods as the API shows them -> plan() -> whom to delete, whom to create, the job's condition -> again, until the
plan is empty. A JobSet's controller makes Jobs, not pods. Left out: back-off times, of the kubelet's and the Job's; events;
pod groups."""
import copy
import dataclasses

CREATED, RUNNING, RESTARTING, SUSPENDED, SUCCEEDED = "Created", "Running", "Restarting", "Suspended", "Succeeded"
NEWEST = (1, 9)
NO_EXIT_CODE = 0xBEEF  # common/pod.go ReconcilePods: the magic number of a pod whose container never ended


def failed(why):
    return f"Failed: {why}"


def finished(condition):
    return condition == SUCCEEDED or condition.startswith("Failed")


@dataclasses.dataclass(frozen=True)
class Seen:
    """A pod as the API shows it."""
    kind: str  # replica type; Job, StatefulSet
    index: int
    phase: str = "Running"  # Pending, Running, Succeeded, Failed
    code: int = NO_EXIT_CODE
    restarts: int = 0  # of its container, in place
    deleting: bool = False  # it has a deletionTimestamp
    disrupted: bool = False  # and the condition DisruptionTarget: drained, preempted

    @property
    def key(self):
        return self.kind, self.index


@dataclasses.dataclass(frozen=True)
class Status:
    """A controller's state for a job."""
    condition: str = CREATED
    restarting: bool = False  # the condition Restarting is there
    failures: int = 0  # replicas that had failed at the last look; a Job's: all of its pods that ever failed


@dataclasses.dataclass(frozen=True)
class Plan:
    status: Status
    delete: tuple = ()
    create: tuple = ()


# ---- the kubelet: a container has ended ----

def pod_policy(policy):
    """core/pod.go SetRestartPolicy: the kubelet knows no ExitCode."""
    return "Never" if policy == "ExitCode" else policy


IN_PLACE = "again"  # the same pod: address and emptyDir stay


def after_container(policy, code):
    """Kubernetes pkg/kubelet/container/helpers.go ShouldContainerBeRestarted, pkg/kubelet/kubelet_pods.go getPhase."""
    if policy == "Always" or policy == "OnFailure" and code != 0:
        return IN_PLACE
    return "Succeeded" if code == 0 else "Failed"


# ---- the TFJob operator: tests/k8s/operator holds this part against its code ----
# `util/` is pkg/util, `apis/` pkg/apis/kubeflow.org/v1.

def retryable(code, operator=NEWEST):
    """train/train_util.go IsRetryableExitCode; before 1.5 (kubeflow/common) only these four were."""
    return code >= 128 if operator >= (1, 5) else code in (130, 137, 138, 143)


def fails(pod, operator):
    """core/status.go UpdateJobReplicaStatuses: since 1.7 a running pod that is being deleted counts as failed."""
    return pod.phase == "Failed" or pod.phase == "Running" and pod.deleting and operator >= (1, 7)


def active(pod):
    """util/k8sutil/k8sutil.go IsPodActive."""
    return pod.phase not in ("Succeeded", "Failed") and not pod.deleting


def past_backoff_limit(job, pods):
    """core/job.go PastBackoffLimit: restarts in place of running pods; what Never restarts is not counted."""
    limit = job["spec"].get("runPolicy", {}).get("backoffLimit")
    if limit is None:
        return False
    count = sum(pod.restarts for pod in pods if pod.phase == "Running"
                and job["spec"]["tfReplicaSpecs"][pod.kind].get("restartPolicy", "Never") != "Never")
    return count > 0 if limit == 0 else count >= limit


def first_failure_is_too_many(job, pods, status):
    """common/job.go ReconcileJobs, exceedsBackoffLimit: its work queue counts no retries (FakeWorkQueue), so only with 0."""
    total = sum(spec.get("replicas", 1) for spec in job["spec"]["tfReplicaSpecs"].values())
    return (job["spec"].get("runPolicy", {}).get("backoffLimit") == 0
            and sum(pod.phase == "Failed" for pod in pods) > status.failures
            and sum(map(active, pods)) != total)


def cleaned(job, pods, condition):
    """common/job.go DeletePodsAndServices: before the job's end the policy counts for nothing, and all go."""
    policy = job["spec"].get("runPolicy", {}).get("cleanPodPolicy", "None")  # apis/tensorflow_defaults.go SetDefaults_TFJob
    if finished(condition) and policy == "None":
        return ()
    return tuple(pod.key for pod in pods if not pod.deleting and not (
        finished(condition) and policy == "Running" and pod.phase not in ("Running", "Pending")))


def reconcile_replicas(kind, spec, pods, operator):
    """common/pod.go ReconcilePods of one replica type: (delete, create, restarting, why it has failed permanently or None)."""
    n, policy = spec.get("replicas", 1), spec.get("restartPolicy", "Never")  # apis/defaulting_utils.go setDefaultRestartPolicy
    there = {pod.index for pod in pods}
    size = max(n, 1, *(i + 1 for i in there))  # core/pod.go CalculatePodSliceSize: a gap below one too many is filled, too
    create = tuple((kind, i) for i in range(size) if i not in there)
    delete, restarting, why = [], False, None
    for pod in pods:
        again = pod.phase == "Failed" and (policy == "ExitCode" and retryable(pod.code, operator)
                                           or policy in ("OnFailure", "Always") and operator >= (1, 7))
        if (again or pod.index >= n) and not pod.deleting:
            delete.append(pod.key)
        restarting = restarting or again
        if pod.phase == "Failed" and policy == "ExitCode" and not again and operator >= (1, 8):
            why = f"{kind} {pod.index} exited with {pod.code}"
    return tuple(delete), create, restarting, why


def beyond_sparse(job, plan):
    """tensorflow/tensorflow.go convertClusterSpecToSparseClusterSpec: the operator panics at a worker that ReconcilePods makes
    to fill a gap beyond `replicas`."""
    return job["spec"].get("enableDynamicWorker") and any(
        kind == "Worker" and i >= job["spec"]["tfReplicaSpecs"][kind].get("replicas", 1) for kind, i in plan.create)


ORDER = ("Chief", "Evaluator", "Master", "PS", "Worker")  # tensorflow/tfjob_controller.go UpdateJobStatus, allTypes


def update_status(job, pods, restarting, why, operator):
    """tensorflow/tfjob_controller.go UpdateJobStatus. `why`: it failed in ReconcilePods; util/status.go setCondition: a
    failed job stays failed."""
    specs, condition, was = job["spec"]["tfReplicaSpecs"], RUNNING, restarting
    led = "Chief" in specs or "Master" in specs  # tensorflow/util.go ContainsChiefOrMasterSpec
    done = {pod.key for pod in pods if pod.phase == "Succeeded"}
    for kind in [kind for kind in ORDER if kind in specs]:
        mine = [pod for pod in pods if pod.kind == kind]
        running = any(pod.phase == "Running" and not fails(pod, operator) for pod in mine)
        lost = [pod for pod in mine if fails(pod, operator)]
        all_done = specs[kind].get("replicas", 1) == sum(pod.key in done for pod in mine)
        if led and kind in ("Chief", "Master") or not led and kind == "Worker":
            first = not led and (kind, 0) in done and job["spec"].get("successPolicy", "") != "AllWorkers"
            if all_done or first:
                condition = SUCCEEDED
            elif running:
                restarting = False  # util/status.go filterOutCondition: Running takes Restarting away
        if lost and was:
            restarting = True
        elif lost and not (job["spec"].get("enableDynamicWorker") and kind == "Worker"):
            why = why or (f"{kind} {lost[0].index} was deleted" if lost[0].deleting else
                          f"{kind} {lost[0].index} exited with {lost[0].code}")
    if why:
        return failed(why), restarting
    return (condition if condition == SUCCEEDED else RESTARTING if restarting else RUNNING), restarting


def suspended(job, status, operator):
    """common/job.go ReconcileJobs; Restarting stays. 1.7 ends there in CleanupJob, with an error, where a
    ttlSecondsAfterFinished is given: the pods are gone by then, and the status stays what it was."""
    if operator < (1, 8) and "ttlSecondsAfterFinished" in job["spec"]["runPolicy"]:
        return status
    return dataclasses.replace(status, condition=SUSPENDED)


def tfjob_plan(job, pods, status=Status(), active_s=0, operator=NEWEST):
    """common/job.go ReconcileJobs, once. `active_s`: since the job's start, or since it was resumed."""
    policy = job["spec"].get("runPolicy", {})
    if finished(status.condition):
        return Plan(status, cleaned(job, pods, status.condition))
    if policy.get("suspend") and operator >= (1, 7):
        return Plan(suspended(job, status, operator), cleaned(job, pods, SUSPENDED))
    if past_backoff_limit(job, pods) or first_failure_is_too_many(job, pods, status):
        return Plan(Status(failed("it has reached the specified backoff limit")), cleaned(job, pods, RUNNING))
    if "activeDeadlineSeconds" in policy and active_s >= policy["activeDeadlineSeconds"]:  # core/job.go PastActiveDeadline
        return Plan(Status(failed("it was active longer than specified deadline")), cleaned(job, pods, RUNNING))
    delete, create, restarting, why = (), (), status.restarting, None
    for kind, spec in job["spec"]["tfReplicaSpecs"].items():
        gone, new, again, bad = reconcile_replicas(kind, spec, [pod for pod in pods if pod.kind == kind], operator)
        delete, create, restarting, why = delete + gone, create + new, restarting or again, why or bad
    condition, restarting = update_status(job, pods, restarting, why, operator)
    return Plan(Status(condition, restarting, sum(fails(pod, operator) for pod in pods)), delete, create)


# ---- Kubernetes' own ----

def failure_action(job, pod):
    """job/pod_failure_policy.go matchPodFailurePolicy: the first rule that fits; None: it counts."""
    for rule in job["spec"].get("podFailurePolicy", {}).get("rules", []):
        codes = rule.get("onExitCodes")
        if codes and pod.code != 0 and (pod.code in codes["values"]) == (codes["operator"] == "In"):
            return rule["action"]
        if pod.disrupted and any(c["type"] == "DisruptionTarget" for c in rule.get("onPodConditions", [])):
            return rule["action"]
    return None


def job_plan(job, pods, status=Status(), active_s=0, operator=None):
    """job/job_controller.go syncJob of an Indexed Job (or one pod). Pods that failed are seen once: they are deleted here, and
    kept there; the count is in the status."""
    spec, name = job["spec"], job["metadata"]["name"]
    n = spec.get("completions", spec.get("parallelism", 1))
    if finished(status.condition):
        return Plan(status)
    if spec.get("suspend"):
        return Plan(Status(SUSPENDED, failures=status.failures), tuple(p.key for p in pods if active(p)))
    actions = [(pod, failure_action(job, pod)) for pod in pods if pod.phase == "Failed"]  # isPodFailed, with a failure policy
    failures = status.failures + sum(action != "Ignore" for _, action in actions)
    why = next((f"{name}: a pod exited with {pod.code}" for pod, action in actions if action == "FailJob"), None)
    if not why and failures > spec.get("backoffLimit", 6):
        why = f"{name} has reached the specified backoff limit"  # BackoffLimitExceeded
    if not why and active_s >= spec.get("activeDeadlineSeconds", active_s + 1):
        why = f"{name} was active longer than specified deadline"  # DeadlineExceeded
    if why:
        return Plan(Status(failed(why), failures=failures), tuple(p.key for p in pods if active(p)))
    if sum(pod.phase == "Succeeded" and pod.index < n for pod in pods) == n:
        return Plan(Status(SUCCEEDED, failures=failures))
    there = {pod.index for pod in pods}
    surplus = tuple(pod.key for pod in pods if active(pod) and pod.index >= n)  # completions and parallelism were lowered
    return Plan(Status(RUNNING, failures=failures), tuple(pod.key for pod, _ in actions) + surplus,
                tuple(("Job", i) for i in range(n) if i not in there))


def statefulset_plan(job, pods, status=Status(), active_s=0, operator=None):
    """statefulset/stateful_set_control.go updateStatefulSet, podManagementPolicy Parallel: a pod that is missing or has ended is
    created again (processReplica), and surplus pods are deleted, the last one first (processCondemned)."""
    n = job["spec"].get("replicas", 1)
    there = {pod.index for pod in pods}
    delete = [pod for pod in pods if not pod.deleting and (pod.index >= n or pod.phase in ("Succeeded", "Failed"))]
    return Plan(Status(RUNNING), tuple(p.key for p in sorted(delete, key=lambda p: -p.index)),
                tuple(("StatefulSet", i) for i in range(n) if i not in there))


# ---- Kubeflow Trainer: tests/k8s/trainer holds this part and the next one against their code ----
# `runtime/` is pkg/runtime of trainer 2.1

RUNTIMES = ("ClusterTrainingRuntime", "TrainingRuntime")
ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"


def trainjob_jobset(job, runtime):
    """runtime/framework/plugins/jobset/jobset.go Build: the JobSet of a TrainJob."""
    given = job["spec"].get("trainer", {})
    if unknown := set(given) - {"numNodes"} | set(job["spec"]) - {"runtimeRef", "trainer", "labels", "suspend"}:
        raise ValueError(f"TrainJob {job['metadata']['name']}: not modelled: {', '.join(sorted(unknown))}")
    spec = copy.deepcopy(runtime["spec"]["template"]["spec"])
    for replicated in spec["replicatedJobs"]:
        template = replicated["template"]
        if template.get("metadata", {}).get("labels", {}).get(ANCESTOR) == "trainer":
            nodes = given.get("numNodes", runtime["spec"].get("mlPolicy", {}).get("numNodes", 1))
            template["spec"] |= {"completions": nodes, "parallelism": nodes}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
            "metadata": {"name": job["metadata"]["name"], "labels": job["spec"].get("labels", {})},
            "spec": {**spec, "suspend": job["spec"].get("suspend", False)}}


def trainjob_jobsets(docs):
    """The JobSets that Trainer makes of these objects."""
    runtimes = {(doc["kind"], doc["metadata"]["name"]): doc for doc in docs if doc["kind"] in RUNTIMES}
    jobs = [doc for doc in docs if doc["kind"] == "TrainJob"]
    return [trainjob_jobset(job, runtimes[job["spec"]["runtimeRef"]["kind"], job["spec"]["runtimeRef"]["name"]]) for job in jobs]


# ---- JobSet ----

JOBSET = "jobset.sigs.k8s.io"
JOBSET_SPEC = {"replicatedJobs", "network", "successPolicy", "failurePolicy", "ttlSecondsAfterFinished", "suspend"}


def jobset_objects(doc):
    """jobset/jobset_controller.go constructJob, createHeadlessSvcIfNecessary: its Jobs, and the Service of all their pods."""
    name, spec = doc["metadata"]["name"], doc["spec"]
    if unknown := set(spec) - JOBSET_SPEC:
        raise ValueError(f"JobSet {name}: not modelled: {', '.join(sorted(unknown))}")
    if spec.get("failurePolicy", {"maxRestarts": 0}) != {"maxRestarts": 0}:
        raise ValueError(f"JobSet {name}: failurePolicy: only maxRestarts: 0 is modelled")
    network, made = spec.get("network", {}), []
    subdomain = network.get("subdomain", name)
    for replicated in spec["replicatedJobs"]:
        for i in range(replicated.get("replicas", 1)):
            job = {"apiVersion": "batch/v1", "kind": "Job", **copy.deepcopy(replicated["template"])}
            labels = {f"{JOBSET}/jobset-name": name, f"{JOBSET}/replicatedjob-name": replicated["name"],
                      f"{JOBSET}/job-index": str(i)}
            for meta in (job.setdefault("metadata", {}), job["spec"]["template"].setdefault("metadata", {})):
                for key in ("labels", "annotations"):
                    meta[key] = {**meta.get(key, {}), **labels}
            job["metadata"]["name"] = f"{name}-{replicated['name']}-{i}"
            job["spec"]["suspend"] = spec.get("suspend", False)  # and as that is later: suspendJobs, resumeJobsIfNecessary
            if network.get("enableDNSHostnames"):
                job["spec"]["template"]["spec"]["subdomain"] = subdomain
            made.append(job)
    if network.get("enableDNSHostnames"):
        made.append({"apiVersion": "v1", "kind": "Service", "metadata": {"name": subdomain}, "spec": {
            "clusterIP": "None", "selector": {f"{JOBSET}/jobset-name": name},
            "publishNotReadyAddresses": network.get("publishNotReadyAddresses", True)}})
    return made


def jobset_expected(spec):
    """jobset/success_policy.go numJobsExpectedToSucceed: (of which replicated jobs, how many Jobs)."""
    policy = spec.get("successPolicy", {"operator": "All"})
    wanted = policy.get("targetReplicatedJobs") or [replicated["name"] for replicated in spec["replicatedJobs"]]
    every = sum(r.get("replicas", 1) for r in spec["replicatedJobs"] if r["name"] in wanted)
    return wanted, 1 if policy["operator"] == "Any" else every


def jobset_plan(doc, jobs, status=Status()):
    """jobset/jobset_controller.go reconcile, once. `jobs`: (replicated job, condition) by the name of each Job that is there;
    `delete` has names of Jobs."""
    active = tuple(name for name, (_, condition) in jobs.items() if not finished(condition))
    if finished(status.condition):
        return Plan(status, active)
    lost = [condition for _, condition in jobs.values() if condition.startswith("Failed")]
    if lost:  # jobset/failure_policy.go executeFailurePolicy, with maxRestarts 0
        return Plan(Status(lost[0]))
    wanted, n = jobset_expected(doc["spec"])
    if sum(condition == SUCCEEDED and name in wanted for name, condition in jobs.values()) >= n:
        return Plan(Status(SUCCEEDED))
    return Plan(Status(SUSPENDED if doc["spec"].get("suspend") else RUNNING))


PLANS = {"TFJob": tfjob_plan, "Job": job_plan, "StatefulSet": statefulset_plan}


def policy_of(doc, kind):
    """The restart policy that the kubelet uses for pods of an owner's replica type."""
    if doc["kind"] == "TFJob":
        return pod_policy(doc["spec"]["tfReplicaSpecs"][kind].get("restartPolicy", "Never"))
    return "Always" if doc["kind"] == "StatefulSet" else doc["spec"]["template"]["spec"].get("restartPolicy", "Never")
