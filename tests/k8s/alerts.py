"""Every alert of PrometheusRule gradwire: what makes it fire, and what nearly does. In promtool's notation: `0+5x10` is 0
and then 10 times 5 more, a sample each minute."""
CHIEF = 'namespace="team",job="mnist",pod="mnist-chief-0"'
PS = 'namespace="team",job="mnist",pod="mnist-ps-0"'
LABELS = {"namespace": "team", "job": "mnist", "pod": "mnist-chief-0"}
PS_LABELS = {**LABELS, "pod": "mnist-ps-0"}


def steps(values, planned="1000x60"):
    return {f"gradwire_job_steps{{{CHIEF}}}": values, f"gradwire_job_planned_steps{{{CHIEF}}}": planned}


def chief(name, values, more=""):
    return {f"{name}{{{CHIEF}{more}}}": values}


def cuts(age, published, started):
    return {**(chief("gradwire_job_cut_age_seconds", age) if age else {}),
            **chief("gradwire_job_cuts_total", published, ',result="published"'),
            **chief("process_start_time_seconds", started)}


def busy(*workers):
    """Seconds that each worker computes in a minute's 60 steps; each waits 100 s, which does not count."""
    series = {}
    for i, seconds in enumerate(workers):
        pod = f'namespace="team",job="mnist",pod="mnist-worker-{i}"'
        for phase, of in (("compute", seconds), ("push", 1), ("wait", 100)):
            series[f'gradwire_step_phase_seconds_sum{{{pod},phase="{phase}"}}'] = f"0+{of}x60"
            series[f'gradwire_step_phase_seconds_count{{{pod},phase="{phase}"}}'] = "0+60x60"
    return series


def staleness(old):
    """Pushes in a minute: 100 are up to 1 update old, `old` more are up to 128; two workers are there."""
    bucket = "gradwire_staleness_updates_bucket{" + PS + ',worker="1",le="%s"}'
    return {bucket % "1": "0+100x60", bucket % "63": "0+100x60", bucket % "127": f"0+{100 + old}x60",
            bucket % "+Inf": f"0+{100 + old}x60", **chief("gradwire_job_worker_up", "1x60", ',worker="0"'),
            **chief("gradwire_job_worker_up", "1x60", ',worker="1"')}


def memory(used):
    return {f"process_resident_memory_bytes{{{PS}}}": used, f"gradwire_memory_limit_bytes{{{PS}}}": "1000x60"}


def auth(*of):
    """The proof that each of some processes asks of a process that connects to it."""
    return {f'gradwire_auth_info{{{who},auth="{auth}"}}': "1x20" for who, auth in of}


def expires(at):
    """promtool's clock begins at 0."""
    return {f"gradwire_tls_certificate_expires_timestamp_seconds{{{PS}}}": at}


def evaluator(results, cut):
    pod = 'namespace="team",job="mnist",pod="mnist-evaluator-0"'
    return {f"gradwire_evaluator_results_total{{{pod}}}": results, **chief("gradwire_job_cut", cut)}


def state(name, values):
    return {f'gradwire_state{{{PS},state="{name}"}}': values}


UP = f'up{{{PS},app_kubernetes_io_name="%s"}}'
CASES = (  # alert, minute; series that fire it, and the labels and the value that it then tells; series that do not
    ("GradwireNotScraped", 10, {UP % "gradwire": "1 1 0x20"}, {**PS_LABELS, "app_kubernetes_io_name": "gradwire"}, "",
     {UP % "gradwire": "1x6 0 0 0 1x20", UP % "other": "0x20"}),
    ("GradwireJobStalled", 30, steps("0+5x10 50x30"), LABELS, "", steps("0+5x10 50x4 51+5x30")),
    ("GradwireJobStalled", 30, steps("0x40"), LABELS, "", steps("0+100x10 1000x40")),  # never began; is at its end
    ("GradwireWaits", 20, state("waiting", "1x30"), {**PS_LABELS, "state": "waiting"}, "", state("waiting", "1x10 0 1x10")),
    ("GradwireWaits", 20, state("loading", "1x30"), {**PS_LABELS, "state": "loading"}, "", state("done", "1x30")),
    ("GradwirePsAway", 10, chief("gradwire_job_ps_up", "1x5 0x10", ',ps="1"'), {**LABELS, "ps": "1"}, "",
     chief("gradwire_job_ps_up", "1x8 0 0 1x5", ',ps="1"')),
    ("GradwireWorkerAway", 15, chief("gradwire_job_worker_up", "1x5 0x20", ',worker="2"'), {**LABELS, "worker": "2"}, "",
     chief("gradwire_job_worker_up", "1x10 0x2 1x20", ',worker="2"')),
    ("GradwireRestartsOften", 30, chief("gradwire_job_generation", "1x10 2 3 4 5x20"), LABELS, "4",
     chief("gradwire_job_generation", "1x10 2 2 3 4x20")),
    ("GradwireCheckpointOld", 45, cuts("0+60x60", "1x60", "0x60"), LABELS, "",
     cuts("0+60x20 0+60x40", "1+1x60", "0x60")),
    ("GradwireCheckpointOld", 45, cuts(None, "0x60", "0x60"), {**LABELS, "result": "published"}, "",
     cuts(None, "0x60", "1500x60")),
    ("GradwireCheckpointFailing", 10, chief("gradwire_job_cuts_total", "0x5 1x10", ',result="failed"'),
     {**LABELS, "result": "failed"}, "", chief("gradwire_job_cuts_total", "0+1x20", ',result="published"')),
    ("GradwireCheckpointFailing", 10, {f'gradwire_shard_snapshots_total{{{PS},shard="0",result="failed"}}': "0x5 1x10"},
     {**PS_LABELS, "shard": "0", "result": "failed"}, "",
     {f'gradwire_shard_snapshots_total{{{PS},shard="0",result="failed"}}': "1x20"}),
    ("GradwireGradientsNotFinite", 10, chief("gradwire_job_rejected_batches_total", "0x5 3x10"), LABELS, "",
     chief("gradwire_job_rejected_batches_total", "3x20")),
    ("GradwireLossNotFinite", 10, chief("gradwire_loss", "1 NaN+0x20"), LABELS, "", chief("gradwire_loss", "1 NaN 1x20")),
    ("GradwireLossNotFinite", 10, chief("gradwire_loss", "1 Inf+0x20"), LABELS, "", chief("gradwire_loss", "1+1e30x20")),
    ("GradwireRolledBack", 10, chief("gradwire_job_recoveries_total", "0x5 1x10"), LABELS, "",
     chief("gradwire_job_recoveries_total", "1x20")),
    ("GradwireStraggler", 20, busy(1, 1, 4), {**LABELS, "pod": "mnist-worker-2"}, "83.33ms", busy(1, 2, 2)),
    ("GradwireStraggler", 20, busy(1, 20), {**LABELS, "pod": "mnist-worker-1"}, "350ms", busy(1, 4)),
    ("GradwireStalenessHigh", 25, staleness(100), {"namespace": "team", "job": "mnist", "worker": "1"}, "121", staleness(2)),
    ("GradwireMemoryNearLimit", 15, memory("500x5 950x20"), PS_LABELS, "95%", memory("500x5 950x3 899x20")),
    ("GradwireNoProof", 10, auth((PS, "none"), (CHIEF, "token")), {**PS_LABELS, "auth": "none"}, "",
     auth((PS, "token"), (CHIEF, "token"))),
    ("GradwireNoProof", 10, auth((PS, "none"), (CHIEF, "token")), {**PS_LABELS, "auth": "none"}, "", auth((CHIEF, "none"))),
    ("GradwireShedsConnections", 15, {f"gradwire_shed_connections_total{{{PS}}}": "0+90x20"}, PS_LABELS, "",
     {f"gradwire_shed_connections_total{{{PS}}}": "0x5 50x20"}),
    ("GradwireCertificateExpires", 10, expires("80000x20"), PS_LABELS, "22h 3m 20s", expires("90000x20")),
    ("GradwireEvaluatorBehind", 50, evaluator("1x60", "0+1x60"), {**LABELS, "pod": "mnist-evaluator-0"}, "",
     evaluator("0+1x60", "0+1x60")),
    ("GradwireEvaluatorBehind", 50, evaluator("1x60", "0+1x60"), {**LABELS, "pod": "mnist-evaluator-0"}, "",
     evaluator("1x60", "3x60")),
)
