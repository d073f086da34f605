#!/usr/bin/env python3
# runs with others
"""A container of another operator's job: its variables name a rank and the number of ranks, but no ps and no workers. The
entrypoint refuses to train the whole job there alone; a world of one trains, and flags or TF_CONFIG say all that is wanted.
Each case has the variables that the operator sets: training-operator 1.9.3, mpi-operator 0.6.0, trainer 2.1.0."""
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import facts  # noqa: E402

NO_JOB = "/no/such/job.yaml"
RANK, NO_PS = "`gradwire rank JOB --ps P`", "k8s/tfjob/overlays/no-ps"
ROLE = ["--role=worker", "--ps=1", "--workers=2", "--ps_host=p-%.s:2222", "--worker_host=w-%.s:2222", "--index=0"]


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


class ForeignTest(unittest.TestCase):
    def run_entrypoint(self, given, *args):
        names = {*MPI_LAUNCHER, *MPI_RANK, *OLD_MASTER, *ELASTIC, *TRAIN_JOB, "PMI_SIZE", "HYDRA_HOST_FILE"}
        env = {key: value for key, value in facts.environment().items() if key not in names}
        return subprocess.run([facts.ENTRYPOINT, f"--job={NO_JOB}", *args], env={**env, **given}, capture_output=True, text=True)

    def refused(self, given, *texts):
        for args in ([], ["--print"], ["doctor"]):
            got = self.run_entrypoint(given, *args) if args != ["doctor"] else self.run_entrypoint(given, "--doctor")
            self.assertEqual((got.returncode, got.stdout, len(got.stderr.splitlines())), (2, "", 1), got.stderr)
            for text in texts:
                self.assertIn(text, got.stderr)

    def trains(self, given, *args):
        got = self.run_entrypoint(given, *args, "--print")
        self.assertEqual(got.returncode, 0, got.stderr)
        return got.stdout

    def test_a_pod_of_an_mpi_job_is_refused_and_told_of_rank(self):
        for role in ("launcher", "worker"):
            self.refused({**MPI_LAUNCHER, "K_MPI_JOB_ROLE": role}, f"K_MPI_JOB_ROLE={role}: ", RANK, NO_PS)
        self.refused({"OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile"}, "OMPI_MCA_orte_default_hostfile=", RANK)
        self.refused({"I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hostfile"}, "I_MPI_HYDRA_HOST_FILE=", RANK)
        self.refused({"HYDRA_HOST_FILE": "/etc/mpi/hostfile"}, "HYDRA_HOST_FILE=", RANK)

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
        self.trains({"WORLD_SIZE": "3"})  # nobody's, without a master

    def test_a_node_of_a_train_job_with_the_torch_policy_is_refused_unless_it_is_the_only_one(self):
        self.refused(TRAIN_JOB, "PET_NNODES=2: ", NO_PS)
        self.trains({**TRAIN_JOB, "PET_NNODES": "1"})

    def test_what_gives_every_address_counts(self):
        config = '{"cluster":{"ps":["p:1"],"worker":["w:1"]},"task":{"type":"worker","index":0}}'
        for given in (MPI_LAUNCHER, MPI_RANK, torch_job(2, 1), TRAIN_JOB):
            self.assertIn("TF_CONFIG=", self.trains(given, *ROLE))
            self.assertIn("--ps_hosts=p:1", self.trains(given, "--ps_hosts=p:1", "--worker_hosts=w:1"))
            self.assertIn("--job_name=ps", self.trains(given, "--worker_ips=10.0.0.1", "--current_ip=10.0.0.1", "--port=7000"))
            self.trains({**given, "TF_CONFIG": config})


if __name__ == "__main__":
    unittest.main()
