#!/usr/bin/env python3
"""The fate of pods and jobs: tables of pod phase x restartPolicy x exit code, of deletions, limits and policies. The last words
of a row name its source (controllers.py has the sources' names)."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import controllers as c  # noqa: E402
from controllers import Seen, Status  # noqa: E402

GO, AGAIN = "goes on", "made anew"  # and IN_PLACE, "Failed: .."
SET_POLICY, KUBELET = "core/pod.go SetRestartPolicy", "kubelet/container/helpers.go ShouldContainerBeRestarted"
RECONCILE, STATUS = "common/pod.go ReconcilePods", "core/status.go UpdateJobReplicaStatuses"
UPDATE, JOBS = "tensorflow/tfjob_controller.go UpdateJobStatus", "common/job.go ReconcileJobs"
EXIT = "train/train_util.go IsRetryableExitCode"


def job(policy="ExitCode", run_policy=None, success="", dynamic=False, **replicas):
    return {"kind": "TFJob", "metadata": {"name": "j"}, "spec": {
        "successPolicy": success, "enableDynamicWorker": dynamic, "runPolicy": run_policy or {},
        "tfReplicaSpecs": {kind: {"replicas": n, "restartPolicy": policy} for kind, n in replicas.items()}}}


def running(doc, *but):
    """All pods of a job, running, except those that are given."""
    given = {pod.key: pod for pod in but}
    return [given.get((kind, i), Seen(kind, i)) for kind, spec in doc["spec"]["tfReplicaSpecs"].items()
            for i in range(spec["replicas"])]


CONTAINER_ENDS = (  # the replica's restartPolicy, exit code, what the kubelet makes of the pod
    ("Never", 0, "Succeeded", KUBELET), ("Never", 1, "Failed", KUBELET), ("Never", 130, "Failed", KUBELET),
    ("OnFailure", 0, "Succeeded", KUBELET), ("OnFailure", 1, c.IN_PLACE, KUBELET), ("OnFailure", 130, c.IN_PLACE, KUBELET),
    ("Always", 0, c.IN_PLACE, KUBELET), ("Always", 1, c.IN_PLACE, KUBELET), ("Always", 130, c.IN_PLACE, KUBELET),
    ("ExitCode", 0, "Succeeded", SET_POLICY), ("ExitCode", 1, "Failed", SET_POLICY), ("ExitCode", 130, "Failed", SET_POLICY),
)
PODS = (  # ps 0: phase, restartPolicy, exit code, operator -> what happens
    ("Failed", "Never", 1, (1, 9), "Failed: PS 0 exited with 1", UPDATE),
    ("Failed", "Never", 137, (1, 9), "Failed: PS 0 exited with 137", UPDATE),
    ("Failed", "ExitCode", 1, (1, 9), "Failed: PS 0 exited with 1", RECONCILE),
    ("Failed", "ExitCode", 2, (1, 7), "Failed: PS 0 exited with 2", UPDATE),
    ("Failed", "ExitCode", 127, (1, 9), "Failed: PS 0 exited with 127", EXIT),
    ("Failed", "ExitCode", 128, (1, 9), AGAIN, EXIT),
    ("Failed", "ExitCode", 130, (1, 9), AGAIN, EXIT),
    ("Failed", "ExitCode", 137, (1, 7), AGAIN, EXIT),
    ("Failed", "ExitCode", 138, (1, 9), AGAIN, EXIT),
    ("Failed", "ExitCode", 143, (1, 9), AGAIN, EXIT),
    ("Failed", "ExitCode", 139, (1, 4), "Failed: PS 0 exited with 139", EXIT + ", kubeflow/common before 1.5"),
    ("Failed", "ExitCode", 138, (1, 4), AGAIN, EXIT + ", kubeflow/common before 1.5"),
    ("Failed", "ExitCode", c.NO_EXIT_CODE, (1, 9), AGAIN, RECONCILE + ": evicted before it began"),
    ("Failed", "OnFailure", c.NO_EXIT_CODE, (1, 9), AGAIN, RECONCILE + ": evicted; the kubelet does not restart it"),
    ("Failed", "Always", c.NO_EXIT_CODE, (1, 7), AGAIN, RECONCILE),
    ("Succeeded", "Never", 0, (1, 9), GO, UPDATE + ": a ps ends nothing"),
    ("Succeeded", "ExitCode", 0, (1, 9), GO, UPDATE),
    ("Pending", "ExitCode", c.NO_EXIT_CODE, (1, 9), GO, STATUS),
    ("Running", "ExitCode", c.NO_EXIT_CODE, (1, 9), GO, STATUS),
)
DELETED = (  # (what is deleted while it runs, the job, the operator) -> what happens
    (("PS", 0), {}, (1, 9), "Failed: PS 0 was deleted", STATUS),
    (("PS", 0), {}, (1, 7), "Failed: PS 0 was deleted", STATUS),
    (("PS", 0), {}, (1, 6), GO, STATUS + " before 1.7 (kubeflow/common)"),
    (("Chief", 0), {}, (1, 9), "Failed: Chief 0 was deleted", STATUS),
    (("Worker", 1), {}, (1, 9), "Failed: Worker 1 was deleted", STATUS),
    (("Worker", 1), {"dynamic": True}, (1, 9), GO, UPDATE + ": continues regardless"),
    (("PS", 0), {"dynamic": True}, (1, 9), "Failed: PS 0 was deleted", UPDATE),
)
ENDS = (  # job, who has succeeded, the condition
    (job(Chief=1, PS=1, Worker=2), ["Chief 0"], c.SUCCEEDED, UPDATE),
    (job(Master=1, PS=1, Worker=1), ["Master 0"], c.SUCCEEDED, UPDATE),
    (job(Chief=1, PS=1, Worker=2), ["Worker 0", "Worker 1"], c.RUNNING, UPDATE),
    (job(Chief=1, PS=1, Worker=2), ["PS 0"], c.RUNNING, UPDATE),
    (job(PS=1, Worker=2), ["Worker 0"], c.SUCCEEDED, UPDATE + ", IsWorker0Completed"),
    (job(PS=1, Worker=2), ["Worker 1"], c.RUNNING, UPDATE),
    (job(PS=1, Worker=2), ["Worker 0", "Worker 1"], c.SUCCEEDED, UPDATE),
    (job(PS=1, Worker=2, success="AllWorkers"), ["Worker 0"], c.RUNNING, UPDATE),
    (job(PS=1, Worker=2, success="AllWorkers"), ["Worker 0", "Worker 1"], c.SUCCEEDED, UPDATE),
    (job(Chief=1, PS=1, Worker=1, Evaluator=1), ["Evaluator 0"], c.RUNNING, UPDATE),
)
LIMITS = (  # runPolicy, restartPolicy, ps 0, seconds since the start -> the condition (all pods go)
    ({"backoffLimit": 2}, "OnFailure", Seen("PS", 0, restarts=1), 0, c.RUNNING, "core/job.go PastBackoffLimit"),
    ({"backoffLimit": 2}, "OnFailure", Seen("PS", 0, restarts=2), 0, "Failed: it has reached the specified backoff limit",
     "core/job.go PastBackoffLimit"),
    ({"backoffLimit": 2}, "Never", Seen("PS", 0, restarts=2), 0, c.RUNNING, "core/job.go PastBackoffLimit: not counted"),
    ({"backoffLimit": 0}, "OnFailure", Seen("PS", 0, restarts=1), 0, "Failed: it has reached the specified backoff limit",
     "core/job.go PastBackoffLimit"),
    ({"backoffLimit": 2}, "ExitCode", Seen("PS", 0, "Failed", 137), 0, c.RESTARTING, JOBS + ": re-creations are not counted"),
    ({"backoffLimit": 0}, "ExitCode", Seen("PS", 0, "Failed", 137), 0, "Failed: it has reached the specified backoff limit",
     JOBS + ", exceedsBackoffLimit"),
    ({"activeDeadlineSeconds": 10}, "ExitCode", Seen("PS", 0), 9.9, c.RUNNING, "core/job.go PastActiveDeadline"),
    ({"activeDeadlineSeconds": 10}, "ExitCode", Seen("PS", 0), 10, "Failed: it was active longer than specified deadline",
     "core/job.go PastActiveDeadline"),
)
CLEANED = (  # cleanPodPolicy, the condition, who is deleted of a running ps 0 and a chief that has ended
    ("Running", c.SUCCEEDED, {("PS", 0)}, "common/job.go DeletePodsAndServices"),
    ("None", c.SUCCEEDED, set(), "common/job.go DeletePodsAndServices"),
    (None, c.SUCCEEDED, set(), "apis/tensorflow_defaults.go SetDefaults_TFJob: None, since 1.6"),
    ("All", c.SUCCEEDED, {("PS", 0), ("Chief", 0)}, "common/job.go DeletePodsAndServices"),
    ("Running", c.failed("x"), {("PS", 0)}, "common/job.go DeletePodsAndServices"),
)


class ControllersTest(unittest.TestCase):
    def rows(self, table):
        self.assertGreater(len(table), 3)
        for row in table:
            self.assertIn(".go", row[-1], "where it was read")
            with self.subTest(row=row):
                yield row

    def test_a_container_that_ends_is_started_in_place_or_ends_its_pod(self):
        for policy, code, phase, _ in self.rows(CONTAINER_ENDS):
            self.assertEqual(c.after_container(c.pod_policy(policy), code), phase)

    def what_happens(self, plan, key):
        if key in plan.delete:
            self.assertFalse(c.finished(plan.status.condition))
            return AGAIN
        return plan.status.condition if c.finished(plan.status.condition) else GO

    def test_a_pods_phase_its_restart_policy_and_its_exit_code_say_what_the_operator_does(self):
        for phase, policy, code, operator, happens, _ in self.rows(PODS):
            doc = job(policy, Chief=1, PS=1)
            plan = c.tfjob_plan(doc, running(doc, Seen("PS", 0, phase, code)), operator=operator)
            self.assertEqual(self.what_happens(plan, ("PS", 0)), happens)
            if happens == AGAIN:
                self.assertEqual(plan.status.condition, c.RESTARTING)
                after = c.tfjob_plan(doc, [Seen("Chief", 0)], plan.status, operator=operator)
                self.assertEqual((after.create, after.status.condition), ((("PS", 0),), c.RUNNING))

    def test_a_running_pod_that_is_deleted_fails_the_job_since_1_7(self):
        for key, more, operator, happens, _ in self.rows(DELETED):
            doc = job(Chief=1, PS=1, Worker=2, **more)
            plan = c.tfjob_plan(doc, running(doc, Seen(*key, deleting=True)), operator=operator)
            self.assertEqual(self.what_happens(plan, key), happens)

    def test_once_restarting_1_7_forgets_a_permanent_failure_and_1_8_does_not(self):
        doc = job(Chief=1, PS=2)  # RECONCILE: the branch "non-retryable exit code" came with 1.8
        pods = running(doc, Seen("PS", 1, "Failed", 1))
        for operator, condition in (((1, 7), c.RESTARTING), ((1, 8), "Failed: PS 1 exited with 1")):
            plan = c.tfjob_plan(doc, pods, Status(c.RESTARTING, restarting=True), operator=operator)
            self.assertEqual(plan.status.condition, condition)

    def test_the_chief_or_worker_0_or_all_workers_end_the_job(self):
        for doc, done, condition, _ in self.rows(ENDS):
            pods = running(doc, *[Seen(kind, int(i), "Succeeded", 0) for kind, i in map(str.split, done)])
            self.assertEqual(c.tfjob_plan(doc, pods).status.condition, condition)

    def test_limits_end_the_job_and_all_its_pods(self):
        for policy, restart, ps, active_s, condition, _ in self.rows(LIMITS):
            doc = job(restart, policy, Chief=1, PS=1)
            plan = c.tfjob_plan(doc, running(doc, ps), active_s=active_s)
            self.assertEqual(plan.status.condition, condition)
            if c.finished(condition):
                self.assertEqual(set(plan.delete), {("Chief", 0), ("PS", 0)})

    def test_clean_pod_policy_says_who_is_removed_at_the_end(self):
        for policy, condition, gone, _ in self.rows(CLEANED):
            doc = job("ExitCode", {"cleanPodPolicy": policy} if policy else {}, Chief=1, PS=1)
            pods = running(doc, Seen("Chief", 0, "Succeeded", 0))
            self.assertEqual(set(c.tfjob_plan(doc, pods, Status(condition)).delete), gone)

    def test_replicas_that_are_edited_come_and_go_and_without_dynamic_workers_going_fails_the_job(self):
        doc = job(Chief=1, PS=1, Worker=2)  # RECONCILE, core/pod.go GetPodSlices
        three = [*running(doc), Seen("Worker", 2)]
        self.assertEqual(c.tfjob_plan(doc, running(doc)[:-1]).create, (("Worker", 1),))
        plan = c.tfjob_plan(doc, three)
        self.assertEqual((plan.delete, plan.status.condition), ((("Worker", 2),), c.RUNNING))
        going = [*running(doc), Seen("Worker", 2, deleting=True)]
        self.assertEqual(c.tfjob_plan(doc, going).status.condition, "Failed: Worker 2 was deleted")
        doc["spec"]["enableDynamicWorker"] = True
        self.assertEqual(c.tfjob_plan(doc, going), c.Plan(Status(c.RUNNING, failures=1)))

    def test_a_suspended_job_has_no_pods_and_a_resumed_one_has_them_anew(self):
        doc = job("ExitCode", {"suspend": True}, Chief=1, PS=1)  # JOBS, train/train_util.go IsJobSuspended; since 1.7
        plan = c.tfjob_plan(doc, running(doc))
        self.assertEqual((plan.status.condition, len(plan.delete), plan.create), (c.SUSPENDED, 2, ()))
        self.assertEqual(c.tfjob_plan(doc, running(doc), operator=(1, 6)).delete, ())
        doc["spec"]["runPolicy"] = {}
        self.assertEqual(len(c.tfjob_plan(doc, [], plan.status).create), 2)

    def test_a_job_that_is_suspended_while_it_restarts_is_restarting_when_it_is_resumed(self):
        doc, restarting = job("ExitCode", {"suspend": True}, Chief=1, PS=1), Status(c.RESTARTING, True, 1)
        plan = c.tfjob_plan(doc, running(doc), restarting)  # util/status.go filterOutCondition leaves Restarting
        self.assertEqual(plan.status, Status(c.SUSPENDED, True, 1))
        doc["spec"]["runPolicy"] = {}
        self.assertEqual(c.tfjob_plan(doc, [], plan.status).status.condition, c.RESTARTING)

    def test_1_7_suspends_a_job_with_a_ttl_and_does_not_say_so(self):
        doc = job("ExitCode", {"suspend": True, "ttlSecondsAfterFinished": 60}, Chief=1, PS=1)  # common/job.go CleanupJob
        for operator, condition in (((1, 7), c.RUNNING), ((1, 8), c.SUSPENDED)):
            plan = c.tfjob_plan(doc, running(doc), Status(c.RUNNING), operator=operator)
            self.assertEqual((plan.status.condition, len(plan.delete)), (condition, 2))

    def test_a_gap_below_a_replica_that_is_too_many_is_filled(self):
        doc = job(Chief=1, PS=1, Worker=1)  # core/pod.go CalculatePodSliceSize
        plan = c.tfjob_plan(doc, [*running(doc), Seen("Worker", 2)])
        self.assertEqual((plan.delete, plan.create), ((("Worker", 2),), (("Worker", 1),)))
        self.assertFalse(c.beyond_sparse(doc, plan))
        doc["spec"]["enableDynamicWorker"] = True
        self.assertTrue(c.beyond_sparse(doc, plan))  # tensorflow/tensorflow.go: a panic

    def indexed(self, **more):
        rules = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                 {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 2]}}]
        return {"kind": "Job", "metadata": {"name": "j"}, "spec": {
            "completionMode": "Indexed", "completions": 2, **more, "podFailurePolicy": {"rules": rules}}}

    def test_an_indexed_job_goes_by_its_failure_policy(self):
        failed = "Failed: j: a pod exited with 1"
        for pod, condition, count, _ in self.rows((  # pod 0 -> the condition, how many failures count
                (Seen("Job", 0, "Succeeded", 0), c.RUNNING, 0, "job/job_controller.go syncJob"),
                (Seen("Job", 0, "Failed", 1), failed, 1, "job/pod_failure_policy.go matchPodFailurePolicy"),
                (Seen("Job", 0, "Failed", 1, disrupted=True), c.RUNNING, 0, "job/pod_failure_policy.go: the first rule"),
                (Seen("Job", 0, "Failed", 143, disrupted=True), c.RUNNING, 0, "job/pod_failure_policy.go"),
                (Seen("Job", 0, "Failed", 138), c.RUNNING, 1, "job/pod_failure_policy.go: none fits"))):
            plan = c.job_plan(self.indexed(), [pod, Seen("Job", 1)])
            self.assertEqual((plan.status.condition, plan.status.failures), (condition, count))
            if pod.phase == "Failed" and condition == c.RUNNING:
                self.assertEqual(plan.delete, (("Job", 0),))
                self.assertEqual(c.job_plan(self.indexed(), [Seen("Job", 1)], plan.status).create, (("Job", 0),))
        both = [Seen("Job", i, "Succeeded", 0) for i in range(2)]
        self.assertEqual(c.job_plan(self.indexed(), both).status.condition, c.SUCCEEDED)

    def test_a_job_has_its_limits(self):
        pods = [Seen("Job", 0, "Failed", 138), Seen("Job", 1)]  # job/job_controller.go syncJob: exceedsBackoffLimit, pastActiveDeadline
        for n, finished in ((1, False), (2, True)):
            plan = c.job_plan(self.indexed(backoffLimit=2), pods, Status(failures=n))
            self.assertEqual(c.finished(plan.status.condition), finished)
        plan = c.job_plan(self.indexed(activeDeadlineSeconds=5), [Seen("Job", 0)], active_s=5)
        self.assertEqual(plan, c.Plan(Status("Failed: j was active longer than specified deadline"), (("Job", 0),)))
        self.assertEqual(c.job_plan(self.indexed(suspend=True), [Seen("Job", 0)]).delete, (("Job", 0),))

    def test_an_indexed_job_of_another_size_gains_the_next_pods_and_loses_the_last_ones(self):
        pods = [Seen("Job", i) for i in range(3)]  # job/indexed_job_utils.go appendDuplicatedIndexPodsForRemoval
        self.assertEqual(c.job_plan(self.indexed(), pods).delete, (("Job", 2),))
        self.assertEqual(c.job_plan({**self.indexed(), "spec": {**self.indexed()["spec"], "completions": 4}}, pods).create,
                         (("Job", 3),))
        done = [Seen("Job", i, "Succeeded", 0) for i in (0, 2)] + [Seen("Job", 1)]
        self.assertEqual(c.job_plan(self.indexed(), done).status.condition, c.RUNNING)

    def test_a_stateful_set_has_as_many_as_it_says_and_the_last_goes_first(self):
        doc = {"kind": "StatefulSet", "spec": {"replicas": 2}}  # statefulset/stateful_set_control.go updateStatefulSet
        pods = [Seen("StatefulSet", i) for i in range(4)]
        self.assertEqual(c.statefulset_plan(doc, pods).delete, (("StatefulSet", 3), ("StatefulSet", 2)))
        self.assertEqual(c.statefulset_plan(doc, pods[1:2]).create, (("StatefulSet", 0),))
        self.assertEqual(c.after_container(c.policy_of(doc, "StatefulSet"), 0), c.IN_PLACE)

    def test_a_trainjob_sets_the_size_of_the_trainer_step_alone(self):
        def replicated(name, **labels):
            return {"name": name, "template": {"metadata": {"labels": labels}, "spec": {"completions": 1, "parallelism": 1}}}
        runtime = {"spec": {"mlPolicy": {"numNodes": 2}, "template": {"spec": {"replicatedJobs": [
            replicated("ps"), replicated("node", **{c.ANCESTOR: "trainer"})]}}}}
        doc = {"metadata": {"name": "j"}, "spec": {"runtimeRef": {}, "trainer": {"numNodes": 3}}}
        for given, n in ((doc, 3), ({**doc, "spec": {"runtimeRef": {}}}, 2)):
            made = c.trainjob_jobset(given, runtime)["spec"]
            self.assertEqual([r["template"]["spec"]["completions"] for r in made["replicatedJobs"]], [1, n])
        doc["spec"]["trainer"]["image"] = "other"
        with self.assertRaisesRegex(ValueError, "not modelled: image"):
            c.trainjob_jobset(doc, runtime)

    def jobset(self, **more):
        job = {"spec": {"completionMode": "Indexed", "completions": 2, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {}}}}
        return {"kind": "JobSet", "metadata": {"name": "j"}, "spec": {
            "network": {"enableDNSHostnames": True, "subdomain": "s"},
            "replicatedJobs": [{"name": "ps", "replicas": 1, "template": job}, {"name": "worker", "replicas": 2, "template": job}],
            **more}}

    def test_a_jobset_makes_jobs_of_its_names_and_one_service_for_all_their_pods(self):
        *jobs, service = c.jobset_objects(self.jobset())  # jobset/jobset_controller.go constructJob, createHeadlessSvcIfNecessary
        self.assertEqual([job["metadata"]["name"] for job in jobs], ["j-ps-0", "j-worker-0", "j-worker-1"])
        template = jobs[2]["spec"]["template"]
        self.assertEqual(template["spec"]["subdomain"], "s")
        self.assertEqual(template["metadata"]["labels"], {
            "a": "b", "jobset.sigs.k8s.io/jobset-name": "j", "jobset.sigs.k8s.io/replicatedjob-name": "worker",
            "jobset.sigs.k8s.io/job-index": "1"})
        self.assertEqual((service["metadata"]["name"], service["spec"]["publishNotReadyAddresses"]), ("s", True))
        self.assertEqual(service["spec"]["selector"], {"jobset.sigs.k8s.io/jobset-name": "j"})
        for more in ({"startupPolicy": {}}, {"failurePolicy": {"maxRestarts": 1}}):
            with self.assertRaisesRegex(ValueError, "modelled"):
                c.jobset_objects(self.jobset(**more))

    def test_a_jobset_ends_with_the_jobs_that_its_policy_names_and_fails_with_any(self):
        done, runs = c.SUCCEEDED, c.RUNNING
        bad, of_workers = c.failed("x"), {"operator": "All", "targetReplicatedJobs": ["worker"]}
        for policy, ps, workers, condition, _ in self.rows((
                (of_workers, runs, (done, done), done, "jobset/success_policy.go jobMatchesSuccessPolicy"),
                (of_workers, done, (done, runs), runs, "jobset/success_policy.go numJobsExpectedToSucceed"),
                ({"operator": "All"}, runs, (done, done), runs, "jobset/success_policy.go: none named are all"),
                ({"operator": "All"}, done, (done, done), done, "jobset/success_policy.go: none named are all"),
                ({"operator": "Any", "targetReplicatedJobs": ["worker"]}, runs, (runs, done), done, "jobset/success_policy.go"),
                (of_workers, bad, (done, done), bad, "jobset/jobset_controller.go reconcile: failures first"))):
            doc = self.jobset(successPolicy=policy, suspend=False)
            jobs = {"j-ps-0": ("ps", ps), "j-worker-0": ("worker", workers[0]), "j-worker-1": ("worker", workers[1])}
            plan = c.jobset_plan(doc, jobs)
            self.assertEqual((plan.status.condition, plan.delete), (condition, ()))
            if c.finished(condition):  # jobset/jobset_controller.go reconcile: the next look cleans up
                self.assertEqual(c.jobset_plan(doc, jobs, plan.status).delete,
                                 tuple(name for name, (_, said) in jobs.items() if said == runs))

    def test_a_suspended_jobset_has_suspended_jobs(self):
        doc = self.jobset(suspend=True)  # jobset/jobset_controller.go constructJob, suspendJobs
        *jobs, _ = c.jobset_objects(doc)
        self.assertEqual({job["spec"]["suspend"] for job in jobs}, {True})
        self.assertEqual(c.jobset_plan(doc, {"j-ps-0": ("ps", c.SUSPENDED)}).status.condition, c.SUSPENDED)


if __name__ == "__main__":
    unittest.main()
