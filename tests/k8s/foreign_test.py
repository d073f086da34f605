#!/usr/bin/env python3
# runs with others
"""A process that another operator or launcher starts as one of several: its variables name a rank or the number of ranks, but no
ps and no workers. Entrypoint and worker refuse to train the whole job there alone; a world of one trains, --alone says that it
is meant, and flags or TF_CONFIG say all that is wanted. Most cases have the variables that the operator sets: training-operator
1.9.3, mpi-operator 0.6.0, trainer 2.1.0."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import facts  # noqa: E402

WORKER = facts.PROGRAMS["worker"]
NO_JOB = "/no/such/job.yaml"
RANK, NO_PS = "`gradwire rank JOB --ps P`", "k8s/tfjob/overlays/no-ps"
ROLE = ["--role=worker", "--ps=1", "--workers=2", "--ps_host=p-%.s:2222", "--worker_host=w-%.s:2222", "--index=0"]

FLAGS = ["--ps_hosts=p:1", "--worker_hosts=w:1", "--job_name=worker", "--task_index=0"]


def torch_job(size, rank, processes=1):
    return {"MASTER_ADDR": "j-master-0", "MASTER_PORT": "23456", "PET_MASTER_ADDR": "j-master-0", "PET_MASTER_PORT": "23456",
            "WORLD_SIZE": str(size * processes), "RANK": str(rank), "PET_NODE_RANK": str(rank), "PET_NNODES": str(size)}


MPI_LAUNCHER = {"K_MPI_JOB_ROLE": "launcher", "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
                "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile", "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10"}
MPI_RANK = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "1", "PMIX_RANK": "1"}
OLD_MASTER = {"MASTER_ADDR": "j-master-0", "MASTER_PORT": "23456", "WORLD_SIZE": "3", "RANK": "1"}
ELASTIC = {"PET_RDZV_ENDPOINT": "j-worker-0:23456", "PET_RDZV_BACKEND": "c10d", "PET_NNODES": "1:4"}
TRAIN_JOB = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "1", "PET_NODE_RANK": "0", "PET_MASTER_ADDR": "j-node-0-0.j",
             "PET_MASTER_PORT": "29500"}


NAMES = {*MPI_LAUNCHER, *MPI_RANK, *OLD_MASTER, *ELASTIC, *TRAIN_JOB, "PMI_SIZE", "HYDRA_HOST_FILE", "SLURM_NTASKS",
         "SLURM_STEP_NUM_TASKS", "SLURM_NPROCS"}


class ForeignTest(unittest.TestCase):
    def start(self, program, given, *args):
        env = {key: value for key, value in facts.environment().items() if key not in NAMES}
        return subprocess.run([program, f"--job={NO_JOB}", *args], env={**env, **given}, capture_output=True, text=True)

    def refused(self, given, *texts):
        for program, args in ((facts.ENTRYPOINT, []), (facts.ENTRYPOINT, ["--print"]), (facts.ENTRYPOINT, ["--doctor"]),
                              (WORKER, [])):
            got = self.start(program, given, *args)
            self.assertEqual((got.returncode, got.stdout, len(got.stderr.splitlines())), (2, "", 1), got.stderr)
            for text in (*texts, "--alone"):
                self.assertIn(text, got.stderr)
        self.trains(given, "--alone")
        got = self.start(WORKER, given, "--find_learning_rate")
        self.assertIn(f"{NO_JOB}: ", got.stderr)

    def trains(self, given, *args):
        """The worker, too: it gets as far as its job file. Some forms are the entrypoint's."""
        if not any(arg.startswith(("--role", "--worker_ips")) for arg in args):
            self.assertIn(f"{NO_JOB}: ", self.start(WORKER, given, *args).stderr)
        got = self.start(facts.ENTRYPOINT, given, *args, "--print")
        self.assertEqual(got.returncode, 0, got.stderr)
        return got.stdout

    def test_a_pod_of_an_mpi_job_is_refused_and_told_of_rank(self):
        for role in ("launcher", "worker"):
            self.refused({**MPI_LAUNCHER, "K_MPI_JOB_ROLE": role}, f"K_MPI_JOB_ROLE={role}: ", RANK, NO_PS)
        self.refused({"OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile"}, "OMPI_MCA_orte_default_hostfile=", RANK)
        self.refused({"I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hostfile"}, "I_MPI_HYDRA_HOST_FILE=", RANK)
        self.refused({"HYDRA_HOST_FILE": "/etc/mpi/hostfile"}, "HYDRA_HOST_FILE=", RANK)
        self.refused({"PRTE_MCA_prte_default_hostfile": "/etc/mpi/hostfile"}, "PRTE_MCA_prte_default_hostfile=", RANK)

    def test_a_process_of_mpirun_is_refused_unless_it_is_the_only_one(self):
        self.refused(MPI_RANK, "OMPI_COMM_WORLD_SIZE=4: ", RANK, NO_PS)
        self.refused({"PMI_SIZE": "2", "PMI_RANK": "0"}, "PMI_SIZE=2: ", RANK)
        self.trains({**MPI_LAUNCHER, **MPI_RANK, "OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0"})

    def test_a_replica_of_a_pytorch_job_is_refused_unless_it_is_the_only_one(self):
        for rank in (0, 1):
            self.refused(torch_job(2, rank), "PET_NNODES=2: ", NO_PS, "--role")
        self.refused(OLD_MASTER, "WORLD_SIZE=3: ", NO_PS)
        self.refused(ELASTIC, "PET_NNODES=1:4: ", NO_PS)
        self.trains({**ELASTIC, "PET_NNODES": "1:1"})
        self.trains(torch_job(1, 0))
        self.trains(torch_job(1, 0, processes=4))  # nprocPerNode: one pod
        self.trains({**OLD_MASTER, "WORLD_SIZE": "1", "RANK": "0"})
        self.refused({"WORLD_SIZE": "3"}, "WORLD_SIZE=3: ")
        self.trains({"WORLD_SIZE": "1", "RANK": "0"})

    def test_a_node_of_a_train_job_with_the_torch_policy_is_refused_unless_it_is_the_only_one(self):
        self.refused(TRAIN_JOB, "PET_NNODES=2: ", NO_PS)
        self.trains({**TRAIN_JOB, "PET_NNODES": "1"})

    def test_a_task_of_slurm_is_refused_unless_it_is_the_only_one(self):
        self.refused({"SLURM_NTASKS": "4", "SLURM_PROCID": "1"}, "SLURM_NTASKS=4: ", "srun", "gradwire train")
        self.refused({"SLURM_NTASKS": "4", "SLURM_STEP_NUM_TASKS": "2"}, "SLURM_STEP_NUM_TASKS=2: ")
        self.trains({"SLURM_NTASKS": "1", "SLURM_NPROCS": "1"})
        self.trains({"SLURM_NTASKS": "4", "SLURM_STEP_NUM_TASKS": "1"})  # srun -n 1 in an allocation

    def test_a_pod_of_an_indexed_job_or_a_jobset_is_refused(self):
        for index in "0", "1":
            self.refused({"JOB_COMPLETION_INDEX": index}, f"JOB_COMPLETION_INDEX={index}: ", "--role", NO_PS)
        self.refused({"JOB_COMPLETION_INDEX": "0", "JOBSET_NAME": "j", "JOB_INDEX": "0"}, "JOB_COMPLETION_INDEX=0: ")
        self.refused({"VC_TASK_INDEX": "0"}, "VC_TASK_INDEX=0: ")

    def test_a_process_of_paddle_ps_lite_jax_or_horovod_is_refused_unless_it_is_the_only_one(self):
        for name in ("PADDLE_TRAINERS_NUM", "PADDLE_NNODES", "JAX_NUM_PROCESSES", "HOROVOD_SIZE"):
            self.refused({name: "2"}, f"{name}=2: ")
            self.trains({name: "1"})
        for role in ("TRAINER", "PSERVER"):
            self.refused({"TRAINING_ROLE": role, "PADDLE_TRAINERS_NUM": "1"}, f"TRAINING_ROLE={role}: ")
        self.refused({"DMLC_ROLE": "worker", "DMLC_NUM_WORKER": "1"}, "DMLC_ROLE=worker: ", "--ps_hosts")

    def test_alone_and_a_cluster_are_refused_together(self):
        config = '{"cluster":{"ps":["p:1"],"worker":["w:1"]},"task":{"type":"worker","index":0}}'
        for given, args in (({"TF_CONFIG": config}, []), ({}, FLAGS)):
            for program in (facts.ENTRYPOINT, WORKER):
                got = self.start(program, given, "--alone", *args)
                self.assertEqual((got.returncode, "leave out --alone" in got.stderr), (2, True), got.stderr)
        got = self.start(facts.ENTRYPOINT, {}, "--alone", *ROLE)
        self.assertEqual((got.returncode, "leave out --alone" in got.stderr), (2, True), got.stderr)

    def test_doctor_warns_in_an_allocation_and_does_not_fail(self):
        with tempfile.TemporaryDirectory() as tmp:
            job = facts.ROOT / "examples/mnist/mlp.yaml"
            got = self.start(WORKER, {"SLURM_NTASKS": "4"}, "--doctor", f"--job={job}", f"--output={tmp}/out")
        self.assertEqual(got.returncode, 0, got.stdout + got.stderr)
        self.assertIn("warn cluster: no cluster flags: a worker that is started so exits with 2: SLURM_NTASKS=4: ", got.stdout)

    def test_what_gives_every_address_counts(self):
        config = '{"cluster":{"ps":["p:1"],"worker":["w:1"]},"task":{"type":"worker","index":0}}'
        for given in (MPI_LAUNCHER, MPI_RANK, torch_job(2, 1), TRAIN_JOB):
            self.assertIn("TF_CONFIG=", self.trains(given, *ROLE))
            self.assertIn("--ps_hosts=p:1", self.trains(given, *FLAGS))
            self.assertIn("--job_name=ps", self.trains(given, "--worker_ips=10.0.0.1", "--current_ip=10.0.0.1", "--port=7000"))
            self.trains({**given, "TF_CONFIG": config})


if __name__ == "__main__":
    unittest.main()
